package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// scanCommand prints a range of the store, each entry as soon as it is read. A scan that goes into
// head ends when head does.
func scanCommand() *Command {
	var b bounds
	var p pattern
	var r shale.Range
	var expires bool
	var largest int
	c := newCommand("scan [PREFIX]", Reads, "print keys and values in order", `
Prints the entries whose keys start with PREFIX and lie between --from and --to. Each line is a key, a tab
and a value. If you put the word put and a space before each line, batch can read the lines. Status 1 if
there are no entries.`)
	c.keys = 1
	b.options(c)
	p.options(c)
	c.flag(&r.Reverse, "reverse", "from the last key to the first")
	c.count(&r.Limit, "limit", "stop after N entries")
	c.flag(&r.KeysOnly, "keys", "print no values")
	c.flag(&expires, "expires", "print when each value expires, or never")
	c.count(&largest, "largest", "print the keys of the N largest values and their sizes, the largest first")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		within := b.of(words)
		r.Lower, r.Upper = within.Lower, within.Upper
		if largest > 0 && (expires || r.KeysOnly) {
			return Failed, errors.New("scan: --largest prints keys and sizes; leave out --keys and --expires")
		}
		if largest > 0 {
			return s.largest(ctx, r, &p, largest)
		}
		return s.scan(ctx, r, &p, expires)
	})
}

// scan prints the entries of r that fit p, and if expires is set when their values expire.
func (s *Session) scan(ctx context.Context, r shale.Range, p *pattern, expires bool) (Status, error) {
	titles := []string{"key"}
	if !r.KeysOnly {
		titles = append(titles, "value")
	}
	if expires {
		titles = append(titles, "expires")
	}
	cells := make([]output.Cell, 0, 3)
	l := s.List(titles...)
	for e, err := range s.entries(ctx, r, p) {
		if err != nil {
			return Failed, err
		}
		// An entry is valid until the next one, which is long enough: a row is printed at once.
		cells = append(cells[:0], output.ByteCell(e.Key))
		if !r.KeysOnly {
			cells = append(cells, s.valueCell(e.Value))
		}
		if expires {
			at, _ := expiryWords(e.ExpiresAt)
			cells = append(cells, output.Cell{Text: at})
		}
		if err := l.Row(cells...); err != nil {
			return Failed, err
		}
	}
	if l.Rows == 0 && s.AsText() {
		s.Say("none")
	}
	return foundIf(l.Rows > 0), l.End()
}

// valueCell returns a cell with a value, or with the beginning and the size of one that is too large for a terminal.
func (s *Session) valueCell(value []byte) output.Cell {
	if s.tooLarge(value) {
		return output.Cell{Text: fmt.Sprintf("%s (%s in all)", beginning(value), base.FormatBytes(int64(len(value))))}
	}
	return output.ByteCell(value)
}

// largest prints the keys of the n largest values of r that fit p, and their sizes. Of values of one size the first in the order of the
// scan count.
func (s *Session) largest(ctx context.Context, r shale.Range, p *pattern, n int) (Status, error) {
	type value struct {
		key  []byte
		size int
	}
	var list []value // the largest ones so far, and some that are to be dropped
	drop := func() {
		slices.SortStableFunc(list, func(a, b value) int { return cmp.Compare(b.size, a.size) })
		list = list[:min(n, len(list))]
	}
	least := -1 // a value that is not larger is none of the n
	var done atomic.Int64
	s.measure(measure{done: done.Load, format: entries})
	for e, err := range s.entries(ctx, r, p) {
		if err != nil {
			return Failed, err
		}
		done.Add(1)
		if len(e.Value) <= least {
			continue
		}
		if list = append(list, value{bytes.Clone(e.Key), len(e.Value)}); len(list) >= 2*n {
			drop()
			least = list[n-1].size
		}
	}
	drop()
	g := output.NewGrid("key", ">size")
	for _, v := range list {
		g.Row(output.KeyCell(v.key), output.SizeCell(v.size))
	}
	return foundIf(len(list) > 0), s.Show(g)
}
