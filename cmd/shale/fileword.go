package main

import (
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale"
)

// readFiles puts the bytes of files in the place of words @FILE, where keys and
// values stand.
func (c *command) readFiles(words []word) error {
	n := max(c.keys, c.data)
	if c.keys < 0 {
		n = len(words)
	}
	for i := range min(n, len(words)) {
		w, err := readFile(words[i])
		if err != nil {
			return &mistake{from: w.from, to: w.to, err: err}
		}
		words[i] = w
	}
	return nil
}

// read is readFiles for the argument of an option.
func (o *option) read(w word) (word, error) {
	if o.arg != "KEY" && o.arg != "VALUE" {
		return w, nil
	}
	return readFile(w)
}

// readFile returns a word that means the bytes of FILE if w is @FILE, else w.
func readFile(w word) (word, error) {
	if w.literal || len(w.text) < 2 || w.text[0] != '@' {
		return w, nil
	}
	b, err := fileBytes(w.text[1:])
	if err != nil {
		return w, fmt.Errorf("%s: %w; write %s for the word", w.text, err, quote(w.text))
	}
	return word{text: string(b), literal: true, from: w.from, to: w.to}, nil
}

const maxValue = shale.MaxValueSize

// fileBytes returns what a file holds, unless that is more than any value can have.
func fileBytes(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	if info, err := f.Stat(); err == nil && info.Size() > int64(maxValue) {
		return nil, fmt.Errorf("the file has %s bytes, and a value has at most %s", number(info.Size()), number(maxValue))
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(maxValue)+1))
	if err == nil && len(b) > maxValue { // of a pipe
		err = fmt.Errorf("it has more than %s bytes, the most that a value may have", number(maxValue))
	}
	return b, err
}
