package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxWord is the length in bytes of the longest word in lists and texts.
const maxWord = 64

// A list is a file of sorted words, one a line. It stays on disk, and is searched there for
// words that have passed the filter.
type list struct {
	file *os.File
	size int64 // in bytes

	searches, reads int
}

// openList opens a list and checks that it is sorted. A search in an unsorted
// file would miss words.
func openList(name string) (*list, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := &list{file: f}
	if err := l.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return l, nil
}

// check reads the whole list, and sets size.
func (l *list) check() error {
	words, last := 0, make([]byte, 0, maxWord)
	for word, err := range l.all() {
		if err != nil {
			return err
		}
		if words > 0 && bytes.Compare(last, word) >= 0 {
			return fmt.Errorf("%q stands before %q: the list has to be sorted by bytes and must not have a word twice", last, word)
		}
		last = append(last[:0], word...)
		words++
		l.size += int64(len(word)) + 1
	}
	info, err := l.file.Stat()
	switch {
	case err != nil:
		return err
	case words == 0:
		return errors.New("no words")
	case l.size == info.Size()+1: // the last line has no newline
		l.size--
	case l.size != info.Size():
		return errors.New("lines have to end with a newline alone")
	}
	return nil
}

func (l *list) Close() error { return l.file.Close() }

// all yields the words. Each is valid until the next one.
func (l *list) all() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s := bufio.NewScanner(io.NewSectionReader(l.file, 0, 1<<62))
		for n := 1; s.Scan(); n++ {
			word := s.Bytes()
			if len(word) == 0 || len(word) > maxWord || bytes.ContainsAny(word, " \t\r") {
				yield(nil, fmt.Errorf("line %d: %.80q is not a word", n, word))
				return
			}
			if !yield(word, nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// has reports whether the list has word. It is a binary search over the bytes of the file:
// it compares the line around the middle.
func (l *list) has(word []byte) (bool, error) {
	l.searches++
	var buf [2*maxWord + 2]byte
	for lo, hi := int64(0), l.size; lo < hi; { // both are beginnings of lines
		// The window contains the whole line around the middle.
		mid := (lo + hi) / 2
		from := max(mid-maxWord-1, lo)
		window := buf[:min(hi-from, int64(len(buf)))]
		l.reads++
		n, err := l.file.ReadAt(window, from)
		if n < len(window) && err != io.EOF || n == 0 {
			return false, fmt.Errorf("%s: %w", l.file.Name(), err)
		}
		window = window[:n]
		begin := bytes.LastIndexByte(window[:mid-from], '\n') + 1
		end := len(window) // the last line may have no newline
		if i := bytes.IndexByte(window[begin:], '\n'); i >= 0 {
			end = begin + i
		}
		switch c := bytes.Compare(window[begin:end], word); {
		case c == 0:
			return true, nil
		case c < 0:
			lo = from + int64(end) + 1
		default:
			hi = from + int64(begin)
		}
	}
	return false, nil
}
