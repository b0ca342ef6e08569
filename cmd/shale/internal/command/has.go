package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// hasCommand asks the store about keys, or only its filters, or a file of filters.
//
// The three ways to ask cost a read of a block, a read of memory, and a file that may be on another
// machine. Only the first can say "present".
//
// For example, with --filters, which never says "present":
//
//	0.allowww.com    maybe
//	www.example.org  absent
func hasCommand() *Command {
	var filters, expires bool
	var file string
	c := newCommand("has KEY...", Reads, "print which keys are there, or what the filters say about them", `
Prints each key with present or absent. --filters asks only the filters in memory, and --bundle a file that
filters export has written: absent is certain then, and maybe is wrong as often as the false positive rate of
the filters says. --expires prints never, absent, or the time at which the value is gone and how long that is from
now. Status 0 if all keys are present, or may be, and 1 if any is absent.`)
	c.keys, c.late = -1, true
	c.flag(&filters, "filters", "ask only the filters: maybe or absent, without a read")
	c.text(&file, "bundle", "FILE", "ask a file of filters, without the store")
	c.flag(&expires, "expires", "print when each value expires, or never, as scan does")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if expires && (filters || file != "") {
			return Failed, errors.New("has: only the store knows when values expire; leave out --filters and --bundle")
		}
		if file != "" {
			b, err := readBundle(vfs.Default, file)
			if err != nil {
				return Failed, err
			}
			// A bundle with a damaged part still answers, with "maybe" for the keys of that part.
			if err := b.Err(); err != nil {
				fmt.Fprintf(s.Notes, "shale: %s\n", message(err))
			}
			return s.ask(ctx, words, "maybe", func(key []byte) (bool, error) { return b.MayContain(key), nil })
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		if expires {
			return s.askExpiry(ctx, words)
		}
		if filters {
			return s.ask(ctx, words, "maybe", func(key []byte) (bool, error) { return s.DB.MayContain(key), nil })
		}
		return s.ask(ctx, words, "present", s.reader().Has)
	})
}

// ask asks a question about each key, and prints yes, or the word absent.
//
// Answers come in the order of the keys, one line each.
func (s *Session) ask(ctx context.Context, keys []Word, yes string, question func(key []byte) (bool, error)) (Status, error) {
	all := true
	l := s.List("key", "answer")
	for _, w := range keys {
		ok, err := question(w.bytes())
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
		answer := yes
		if !ok {
			answer, all = "absent", false
		}
		if err := l.Row(output.ByteCell(w.bytes()), output.Cell{Text: answer}); err != nil {
			return Failed, err
		}
	}
	return foundIf(all), l.End()
}

// askExpiry prints when the value of each key expires.
func (s *Session) askExpiry(ctx context.Context, keys []Word) (Status, error) {
	l := s.List("key", "expires", "in")
	all := true
	for _, w := range keys {
		if err := ctx.Err(); err != nil {
			return Failed, err
		}
		at, err := s.reader().ExpiresAt(w.bytes())
		expires, in := expiryWords(at)
		switch {
		case errors.Is(err, shale.ErrNotFound):
			expires, all = "absent", false
		case err != nil:
			return Failed, err
		}
		if err := l.Row(output.ByteCell(w.bytes()), output.Cell{Text: expires}, output.Cell{Text: in}); err != nil {
			return Failed, err
		}
	}
	return foundIf(all), l.End()
}

// expiryWords returns the time at which a value is gone, and how long that is from now.
func expiryWords(at time.Time) (expires, in string) {
	if at.IsZero() {
		return "never", "-"
	}
	return at.UTC().Format(time.RFC3339), base.FormatDuration(time.Until(at).Round(time.Second))
}

// readBundle reads a file of filters into memory.
func readBundle(fs vfs.FS, name string) (*bundle.Bundle, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b, err := bundle.Read(io.NewSectionReader(f, 0, size), size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", output.Quote(name), err)
	}
	return b, nil
}
