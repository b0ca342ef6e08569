package command

import (
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// readFiles puts the bytes of files in the place of words @FILE, where keys and
// values stand.
func (c *Command) readFiles(words []Word) error {
	n := max(c.Keys, c.data)
	if c.Keys < 0 {
		n = len(words)
	}
	for i := range min(n, len(words)) {
		w, err := readFile(words[i])
		if err != nil {
			return &Mistake{from: w.from, to: w.to, err: err}
		}
		words[i] = w
	}
	return nil
}

// read is readFiles for the argument of an option.
func (o *Option) read(w Word) (Word, error) {
	if o.Arg != "KEY" && o.Arg != "VALUE" {
		return w, nil
	}
	return readFile(w)
}

// readFile returns a word that means the bytes of FILE if w is @FILE, else w.
func readFile(w Word) (Word, error) {
	if w.Literal || len(w.Text) < 2 || w.Text[0] != '@' {
		return w, nil
	}
	b, err := fileBytes(w.Text[1:])
	if err != nil {
		return w, fmt.Errorf("%s: %w; write %s for the word", w.Text, err, output.Quote(w.Text))
	}
	return Word{Text: string(b), Literal: true, from: w.from, to: w.to}, nil
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
		return nil, fmt.Errorf("the file has %s bytes, and a value has at most %s", output.Number(info.Size()), output.Number(maxValue))
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(maxValue)+1))
	if err == nil && len(b) > maxValue { // of a pipe
		err = fmt.Errorf("it has more than %s bytes, the most that a value may have", output.Number(maxValue))
	}
	return b, err
}
