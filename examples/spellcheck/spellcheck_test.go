package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// realWords is the list of English words; without it the test is skipped.
func realWords(t testing.TB) string {
	t.Helper()
	return testenv.Shared(t, "data/words-en.txt")
}

// write writes a list of these words.
func write(t testing.TB, words ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(name, []byte(strings.Join(words, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// session are the words that TestRun is about.
var session = strings.Fields("dont letters receive relieve their tier we")

// part returns a list of some of the words in a short run, and else of all.
func part(t testing.TB, words string) string {
	t.Helper()
	if !testing.Short() && !testenv.Race {
		return words
	}
	b, err := os.ReadFile(words)
	if err != nil {
		t.Fatal(err)
	}
	var some []string
	for i, word := range strings.Fields(string(b)) {
		if i%8 == 0 || slices.Contains(session, word) {
			some = append(some, word)
		}
	}
	return write(t, some...)
}

// madeWords writes a list of n words that do not exist.
func madeWords(t testing.TB, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	words := make([]string, n)
	for i := range words {
		w := fmt.Appendf(nil, "%08d", i)
		for j := range w {
			w[j] += 'a' - '0'
		}
		for range 2 + rng.IntN(8) {
			w = append(w, 'a'+byte(rng.IntN(26)))
		}
		words[i] = string(w)
	}
	return write(t, words...)
}

// built builds the filter of a list.
func built(t testing.TB, words string) config {
	t.Helper()
	c := config{words: words, filter: filepath.Join(t.TempDir(), "filter"), bits: 10, suggest: 5}
	b := c
	b.build = true
	if err := run(t.Context(), b, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	return c
}

// The head comment shows what the program prints for the list of English words. How much memory a map
// takes depends on the version of Go.
func TestHeadComment_ShowsWhatIsPrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("misspells all words of the list")
	}
	words, filter := realWords(t), filepath.Join(t.TempDir(), "words.filter")
	var printed bytes.Buffer
	for _, args := range [][]string{{"-words", words, "-build"}, {}, {"-words", words}, {"-words", words, "-measure"}} {
		c, err := parseFlags(append(args, "-filter", filter), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), c, strings.NewReader("We recieve thier lettres\n"), &printed); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(source), "\npackage ")
	_, head, _ = strings.Cut(head, "and prints\n") // before it are commands
	ofMap := regexp.MustCompile(`map of \d+`)
	out := strings.Split(ofMap.ReplaceAllString(printed.String(), "map"), "\n")
	shown := 0
	for line := range strings.Lines(head) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "//\t")
		if !ok {
			continue
		}
		shown++
		if !slices.Contains(out, ofMap.ReplaceAllString(text, "map")) {
			t.Errorf("the comment shows, but the program does not print: %s", text)
		}
	}
	if shown != 15 || t.Failed() {
		t.Errorf("%d lines in the comment; the program prints\n%s", shown, printed.String())
	}
}

// No word is reported as wrong, the predicted share of misspellings passes, and the
// filter is much smaller than a map.
func TestRates(t *testing.T) {
	testenv.SkipRace(t)
	for name, words := range map[string]func(testing.TB) string{
		"real": func(t testing.TB) string { return part(t, realWords(t)) },
		"made": func(t testing.TB) string { return madeWords(t, 30_000) },
	} {
		t.Run(name, func(t *testing.T) {
			c := built(t, words(t))
			f, err := openFilter(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			l, err := openList(c.words)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for word, err := range l.all() {
				if err != nil || !f.MayContainHash(f.Hasher().Hash(word)) {
					t.Fatalf("%q is called wrong: %v", word, err)
				}
			}
			var out bytes.Buffer
			c.measure = true
			if err := run(t.Context(), c, nil, &out); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", out.Bytes())
			var n, size, memory, times, asked, passed int
			if _, err := fmt.Sscanf(out.String(), "memory: %d words in a filter of %d bytes, in a map of %d: %d times as much\nmisspellings: %d, %d passed",
				&n, &size, &memory, &times, &asked, &passed); err != nil {
				t.Fatal(err)
			}
			if size != f.SizeBytes() || 8*size > 10*n+8*100 || memory < 15*size || asked < n*9/10 {
				t.Errorf("%d words: filter %d bytes, map %d, %d misspellings", n, size, memory, asked)
			}
			// In 100 runs the number that pass was 0.2 roots of its mean too high on average, and varied by
			// 1.12 of them, as the lines of a filter differ: 6 are exceeded once in some millions of runs.
			mean := float64(asked) * f.FPR()
			if math.Abs(float64(passed)-mean) > 6*math.Sqrt(mean) {
				t.Errorf("%d of %d misspellings pass, predicted %.0f", passed, asked, mean)
			}
			if !strings.Contains(out.String(), "the right word is among them for 100.0 %") {
				t.Error("the right word is not always suggested")
			}
		})
	}
}

// A search finds every word of the list, and nothing else.
func TestList(t *testing.T) {
	for what, words := range map[string]func(testing.TB) string{
		"one":     func(t testing.TB) string { return write(t, "a") },
		"longest": func(t testing.TB) string { return write(t, "a", "b", "bb", strings.Repeat("c", maxWord)) },
		"long": func(t testing.TB) string {
			var words []string
			for c := 'a'; c <= 'z'; c++ {
				words = append(words, strings.Repeat(string(c), maxWord-1), strings.Repeat(string(c), maxWord))
			}
			return write(t, words...)
		},
		"made": func(t testing.TB) string { return madeWords(t, 999) },
		"real": func(t testing.TB) string { return part(t, realWords(t)) },
	} {
		t.Run(what, func(t *testing.T) {
			l, err := openList(words(t))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			some := []string{"", "!", "~"}
			i, step := 0, 1+int(l.size)/20_000
			for word, err := range l.all() {
				if err != nil {
					t.Fatal(err)
				}
				if i++; i%step == 0 {
					some = append(some, string(word), string(word)+"!", string(word[:len(word)-1])+"!")
				}
			}
			for i, s := range some {
				if got, err := l.has([]byte(s)); err != nil || got != (i > 2 && i%3 == 0) {
					t.Errorf("has(%q) = %v, %v", s, got, err)
				}
			}
		})
	}
}

func TestList_Refused(t *testing.T) {
	for _, words := range [][]string{{""}, {"b", "a"}, {"a", "a"}, {"a", "", "b"}, {"a b"}, {"a\r", "b\r"}, {strings.Repeat("a", maxWord+1)}, {strings.Repeat("a", 1<<17)}} {
		if l, err := openList(write(t, words...)); err == nil {
			l.Close()
			t.Errorf("%.20q: no error", words)
		}
	}
	c := built(t, write(t, "a"))
	if err := os.WriteFile(c.filter, []byte("no filter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), c, strings.NewReader("a"), io.Discard); err == nil {
		t.Error("damaged filter: no error")
	}
}

func TestEdits(t *testing.T) {
	var all []string
	for e := range edits([]byte("teh")) {
		all = append(all, string(e))
	}
	if all[1] != "the" || len(all) != 2+3+3*25+4*26-3 {
		t.Errorf("%d edits, %q", len(all), all[:5])
	}
	for _, word := range []string{"a", "teh", "book", "mississippi", strings.Repeat("z", maxWord-1)} {
		seen := map[string]bool{word: true}
		for e := range edits([]byte(word)) {
			if seen[string(e)] {
				t.Errorf("%s: %s twice, or the word itself", word, e)
			}
			seen[string(e)] = true
		}
		rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
		for range 200 {
			if wrong := string(misspell(rng, []byte(word))); len(wrong) < maxWord && !seen[wrong] {
				t.Errorf("%s is not one edit from %s", wrong, word)
			}
		}
	}
	for e := range edits([]byte("naïve")) {
		t.Errorf("naïve: %q", e)
	}
}

func TestWordsOf(t *testing.T) {
	var got []string
	for at, word := range wordsOf("Don’t 'quote' 3rd x2 naïve—ok, '' " + strings.Repeat("y", maxWord+1) + " end") {
		got = append(got, fmt.Sprint(at, word))
	}
	if want := []string{"0Don’t", "9quote", "23naïve", "32ok", "105end"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A session as the documentation has it.
func TestRun(t *testing.T) {
	c := built(t, part(t, realWords(t)))
	for _, tt := range []struct {
		words, want string
		most        int
	}{
		{c.words, "1:4: recieve: receive, relieve\n1:12: thier: their, tier\n1:18: lettres: letters\n5 words, 3 of them wrong; ", 2},
		{c.words, "1:4: recieve\n1:12: thier\n1:18: lettres\n5 words, 3 of them wrong; 0 candidates", 0},
		{"", "1:4: recieve\n1:12: thier\n1:18: lettres\n5 words, 3 of them wrong. 0.39 % of wrong words pass", 5},
	} {
		var out bytes.Buffer
		c := c
		c.words, c.suggest = tt.words, tt.most
		if err := run(t.Context(), c, iotest.OneByteReader(strings.NewReader("We recieve thier lettres, don’t\n")), &out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), tt.want) || strings.Count(out.String(), "saved") != 1 {
			t.Errorf("%s\nwant %s", out.String(), tt.want)
		}
	}
}

// Only words of the list are offered, although the filter lets some of the candidates pass
// that are no words.
func TestSuggest_WordsOnly(t *testing.T) {
	c := built(t, madeWords(t, 30_000))
	words := make(map[string]bool)
	var text strings.Builder
	l, err := openList(c.words)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for word, err := range l.all() {
		if err != nil {
			t.Fatal(err)
		}
		if words[string(word)] = true; len(words)%100 == 0 {
			fmt.Fprintf(&text, "%sx\n", word)
		}
	}
	f, err := openFilter(c.filter)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	k := &checker{filter: f, list: l, most: 1000, out: &out}
	if err := k.text(t.Context(), "", strings.NewReader(text.String())); err != nil {
		t.Fatal(err)
	}
	offered := 0
	for line := range strings.Lines(out.String()) {
		_, list, _ := strings.Cut(strings.TrimSpace(line), "x: ")
		for word := range strings.SplitSeq(list, ", ") {
			if offered++; !words[word] {
				t.Errorf("%q is offered and no word, in %q", word, line)
			}
		}
	}
	if offered < 100 || k.disproved < 100 {
		t.Errorf("%d words offered, %d candidates disproved: the test shows little", offered, k.disproved)
	}
}

// An interrupt ends the wait for input, and the summary of what was read is printed.
func TestRun_Interrupt(t *testing.T) {
	c := built(t, write(t, "apple"))
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	defer time.AfterFunc(time.Minute, func() {
		t.Error("it waits for the next line")
		w.Close()
	}).Stop()
	go func() {
		_, _ = io.WriteString(w, "aple\n") // read at once
		cancel()
	}()
	var out bytes.Buffer
	if err := run(ctx, c, r, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "words, ") {
		t.Errorf("%s", out.String())
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"-filter", "f", "-words", "w", "a", "b"}, io.Discard)
	if err != nil || c.filter != "f" || c.words != "w" || len(c.texts) != 2 || c.bits != 10 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{
		{}, {"-filter", "f", "-build"}, {"-filter", "f", "-measure"}, {"-filter", "f", "-words", "w", "-build", "-measure"},
		{"-filter", "f", "-words", "w", "-build", "text"}, {"-filter", "f", "-bits", "1"}, {"-filter", "f", "-bits", "NaN"}, {"-filter", "f", "-suggest", "-1"}, {"-nonsense"},
	} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
