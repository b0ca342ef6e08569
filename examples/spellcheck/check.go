package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/input"
)

// A checker reports the words of texts that are not in the filter. If there is a list, it
// also reports those that are in the filter and not in the list.
type checker struct {
	filter *bloom.Static
	list   *list // may be nil
	most   int   // largest number of suggestions for a word
	out    io.Writer

	words, wrong      int // words of texts
	candidates        int // words that were considered as suggestions
	passed, disproved int // that passed the filter; of these, those not in the list
}

// has reports whether the word is right. False is certain. True is certain if
// there is a list.
func (k *checker) has(word []byte) (bool, error) {
	if !k.filter.MayContain(word) {
		return false, nil
	}
	k.passed++
	if k.list == nil {
		return true, nil
	}
	there, err := k.list.has(word)
	if err == nil && !there {
		k.disproved++
	}
	return there, err
}

// texts checks the files, or stdin if none is named.
func (k *checker) texts(ctx context.Context, names []string, stdin io.Reader) error {
	if len(names) == 0 {
		return k.text(ctx, "", stdin)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = errors.Join(k.text(ctx, name+":", f), f.Close())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// text checks one text. It begins each line of the report with prefix.
func (k *checker) text(ctx context.Context, prefix string, r io.Reader) error {
	s := bufio.NewScanner(input.Interruptible(ctx, r, nil))
	s.Buffer(nil, 1<<20)
	for line := 1; s.Scan(); line++ {
		for column, word := range wordsOf(s.Text()) {
			key := []byte(strings.ToLower(apostrophes.Replace(word)))
			k.words++
			right, err := k.has(key)
			if err != nil {
				return err
			}
			if right {
				continue
			}
			k.wrong++
			if k.list != nil {
				better, err := k.suggest(key)
				if err != nil {
					return err
				}
				if len(better) > 0 {
					word += ": " + strings.Join(better, ", ")
				}
			}
			if _, err := fmt.Fprintf(k.out, "%s%d:%d: %s\n", prefix, line, column+1, word); err != nil {
				return err
			}
		}
	}
	return s.Err()
}

// wordsOf yields the words of a line and their offsets. A word consists of letters, and may
// have apostrophes inside. Words with digits, or too long for a list, are left out.
func wordsOf(line string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		rest, at := line, 0
		for rest != "" {
			begin := strings.IndexFunc(rest, inWord)
			if begin < 0 {
				return
			}
			word := rest[begin:]
			if end := strings.IndexFunc(word, func(r rune) bool { return !inWord(r) }); end >= 0 {
				word = word[:end]
			}
			rest = rest[begin+len(word):]
			letters := strings.Trim(word, "'’")
			place := at + begin + strings.Index(word, letters)
			at += begin + len(word)
			if letters != "" && len(letters) <= maxWord && !strings.ContainsFunc(letters, unicode.IsDigit) && !yield(place, letters) {
				return
			}
		}
	}
}

// inWord reports whether r is a letter, a digit or an apostrophe. A row of these is a word,
// unless wordsOf leaves it out.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '’'
}

// apostrophes removes apostrophes, because the list has "dont" for "don't".
var apostrophes = strings.NewReplacer("'", "", "’", "")

// suggest returns right words that are one edit away from word. There are about 500
// candidates. Some that are no words pass the filter by chance, and the list drops them.
// Requires: there is a list.
func (k *checker) suggest(word []byte) ([]string, error) {
	var found []string
	for candidate := range edits(word) {
		if len(found) >= k.most {
			break
		}
		k.candidates++
		right, err := k.has(candidate)
		if err != nil {
			return nil, err
		}
		if right {
			found = append(found, string(candidate))
		}
	}
	return found, nil
}

// edits yields words that word may have been meant to be, the more probable first: with two
// letters swapped, one removed, one changed, one added. A candidate is valid until the next
// one, and none comes twice. A word with letters other than a to z has none.
func edits(word []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		n := len(word)
		if n >= maxWord || bytes.ContainsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return
		}
		buf := make([]byte, n+1)
		for i := range n - 1 {
			if word[i] != word[i+1] {
				copy(buf, word)
				buf[i], buf[i+1] = word[i+1], word[i]
				if !yield(buf[:n]) {
					return
				}
			}
		}
		for i := range n {
			if n > 1 && (i == 0 || word[i] != word[i-1]) {
				copy(buf, word[:i])
				copy(buf[i:], word[i+1:])
				if !yield(buf[:n-1]) {
					return
				}
			}
		}
		for i := range n {
			for c := byte('a'); c <= 'z'; c++ {
				copy(buf, word)
				if buf[i] = c; c != word[i] && !yield(buf[:n]) {
					return
				}
			}
		}
		for i := range n + 1 {
			for c := byte('a'); c <= 'z'; c++ {
				copy(buf, word[:i])
				buf[i] = c
				copy(buf[i+1:], word[i:])
				if (i == 0 || word[i-1] != c) && !yield(buf) {
					return
				}
			}
		}
	}
}

// summary prints the counts, and what the filter has saved.
func (k *checker) summary() {
	rate := k.filter.FPR()
	if k.list == nil {
		fmt.Fprintf(k.out, "%d words, %d of them wrong. %.2f %% of wrong words pass unseen.\n", k.words, k.wrong, 100*rate)
		fmt.Fprintf(k.out, "The filter answered from %d bytes, and saved a list of the %d words that it is made from.\n", k.filter.SizeBytes(), k.filter.Count())
		return
	}
	asked := k.words + k.candidates
	fmt.Fprintf(k.out, "%d words, %d of them wrong; %d candidates for suggestions.\n", k.words, k.wrong, k.candidates)
	fmt.Fprintf(k.out, "The list proved %d of %d words wrong that the filter had let pass (predicted %.0f).\n",
		k.disproved, k.passed, rate*float64(asked-k.passed+k.disproved))
	fmt.Fprintf(k.out, "The filter answered %d of %d questions alone, which saved as many searches of the list; %d searches took %.1f reads each.\n",
		asked-k.passed, asked, k.list.searches, float64(k.list.reads)/float64(max(1, k.list.searches)))
}
