// Command spellcheck finds words of a text that are certainly wrong. It has a filter of a
// dictionary in place of the dictionary: 370,000 English words in 426 kB. It is an example of a
// bloom.Static in a file.
//
// With a list of words, one a line, in words.txt:
//
//	go run ./examples/spellcheck build words.txt words.filter
//	echo 'We recieve thier lettres, don’t we?' | go run ./examples/spellcheck check words.filter
//	go run ./examples/spellcheck measure words.txt words.filter
//
// print
//
//	370099 words in 426024 bytes; 0.39 % of misspellings will pass
//	1:4: recieve
//	1:12: thier
//	1:18: lettres
//	6 words, 3 of them wrong
//	a map of the words takes 18562784 bytes, the filter 426024
//	1397 of 358496 misspellings pass: 0.390 %
//
// A word that is reported is certainly not in the list. A word that is not reported may still
// be wrong: one misspelling in 256 passes.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"unicode"

	"github.com/shaledb/shale/bloom"
)

// build writes the filter of a list. It makes a fuse filter, which takes longer to build than a
// blocked one and has fewer false positives. That is the better choice for a filter that is
// built once.
func build(words, filter string, out io.Writer) error {
	text, err := os.ReadFile(words)
	if err != nil {
		return err
	}
	var hashes []uint64
	for word := range bytes.FieldsSeq(text) {
		hashes = append(hashes, bloom.Hash(word))
	}
	b, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10})
	if err != nil {
		return err
	}
	// The rename makes sure that a reader of the file gets the old filter or the new one.
	if err := os.WriteFile(filter+".tmp", b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(filter+".tmp", filter); err != nil {
		return err
	}
	f, err := open(filter)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d words in %d bytes; %.2f %% of misspellings will pass\n", f.Count(), f.SizeBytes(), 100*f.FPR())
	return nil
}

// open reads the filter file, which may be of any kind and hash function.
func open(name string) (*bloom.Static, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := bloom.OpenStatic(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// check prints the words of a text that are certainly wrong, with their lines and columns.
func check(f *bloom.Static, text io.Reader, out io.Writer) error {
	words, wrong := 0, 0
	s := bufio.NewScanner(text)
	for line := 1; s.Scan(); line++ {
		for at, word := range wordsOf(s.Text()) {
			words++
			if !f.MayContainString(strings.ToLower(apostrophes.Replace(word))) {
				wrong++
				fmt.Fprintf(out, "%d:%d: %s\n", line, at+1, word)
			}
		}
	}
	fmt.Fprintf(out, "%d words, %d of them wrong\n", words, wrong)
	return s.Err()
}

// apostrophes removes apostrophes, because the list has "dont" for "don't".
var apostrophes = strings.NewReplacer("'", "", "’", "")

// wordsOf yields the words of a line and their offsets. A word consists of letters, and may
// have apostrophes inside. What has digits is left out.
func wordsOf(line string) func(yield func(int, string) bool) {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '’' }
	return func(yield func(int, string) bool) {
		at := 0
		for at < len(line) {
			begin := strings.IndexFunc(line[at:], inWord)
			if begin < 0 {
				return
			}
			at += begin
			word := line[at:]
			if end := strings.IndexFunc(word, func(r rune) bool { return !inWord(r) }); end >= 0 {
				word = word[:end]
			}
			letters := strings.Trim(word, "'’")
			if letters != "" && !strings.ContainsFunc(letters, unicode.IsDigit) && !yield(at+strings.Index(word, letters), letters) {
				return
			}
			at += len(word)
		}
	}
}

// measure misspells each word of the list once, and prints how many misspellings pass the
// filter, and what a map of the words takes. It leaves out misspellings that are words.
func measure(words string, f *bloom.Static, out io.Writer) error {
	text, err := os.ReadFile(words)
	if err != nil {
		return err
	}
	before := heap()
	right := make(map[string]struct{})
	for word := range bytes.FieldsSeq(text) {
		right[string(word)] = struct{}{}
	}
	memory := heap() - before
	fmt.Fprintf(out, "a map of the words takes %d bytes, the filter %d\n", memory, f.SizeBytes())
	rng := rand.New(rand.NewPCG(1, 2))
	asked, passed := 0, 0
	for word := range bytes.FieldsSeq(text) {
		wrong := misspell(rng, word)
		if _, ok := right[string(wrong)]; ok {
			continue
		}
		if asked++; f.MayContain(wrong) {
			passed++
		}
	}
	fmt.Fprintf(out, "%d of %d misspellings pass: %.3f %%\n", passed, asked, 100*float64(passed)/float64(max(asked, 1)))
	return nil
}

// heap returns the bytes of all objects on the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// misspell returns a copy of the word with one letter changed, removed or doubled, or with two
// letters swapped. If the two are equal, the result is the word itself.
func misspell(rng *rand.Rand, word []byte) []byte {
	i, wrong := rng.IntN(len(word)), bytes.Clone(word)
	switch kind := rng.IntN(4); {
	case kind == 0 && len(word) > 1:
		return append(wrong[:i], word[i+1:]...)
	case kind == 1:
		return append(append(wrong[:i], word[i]), word[i:]...)
	case kind == 2 && i > 0:
		wrong[i-1], wrong[i] = word[i], word[i-1]
		return wrong
	}
	wrong[i] = 'a' + (wrong[i]-'a'+1+byte(rng.IntN(25)))%26
	return wrong
}

// run does what the arguments say.
func run(args []string, stdin io.Reader, out io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "build":
		return build(args[1], args[2], out)
	case len(args) == 2 && args[0] == "check" || len(args) == 3 && args[0] == "measure":
		f, err := open(args[len(args)-1])
		if err != nil {
			return err
		}
		if args[0] == "check" {
			return check(f, stdin, out)
		}
		return measure(args[1], f, out)
	}
	return errors.New("usage: spellcheck build WORDS FILTER, check FILTER < TEXT, or measure WORDS FILTER")
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
