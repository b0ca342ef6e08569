package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/outfile"
)

// load adds the lists to the store and writes a filter of all its keys.
func load(ctx context.Context, c config, out io.Writer) (err error) {
	// A filter that lacks keys of the store would call listed hosts good. So the old filter
	// is removed first, and nothing can judge until the new one is written.
	if err := removeFilter(c.filter); err != nil {
		return err
	}
	db, err := shale.Open(c.db, &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lines := 0
	for _, name := range c.lists {
		n, err := loadList(ctx, db, name)
		if err != nil {
			return fmt.Errorf("only a part of the lists is in the store, and there is no filter; run load again: %w", err)
		}
		lines += n
	}
	if err := db.Compact(ctx, shale.Range{}); err != nil { // one run: a lookup asks one table
		return err
	}
	// The new filter is made of all keys of the store: this load may have added
	// to earlier ones.
	b, keys, blocked, err := buildFilter(db, c)
	if err != nil {
		return err
	}
	if err := outfile.ReplaceBytes(c.filter, b); err != nil {
		return err
	}
	f, err := openFilter(c.filter)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, t := range db.Tables() {
		size += t.Size
	}
	fmt.Fprintf(out, "%d lines read; %d names are in a store of %d bytes and a filter of %d, which will let %.2f %% of other names pass.\n",
		lines, keys, size, len(b), 100*f.FPR())
	if c.shrinks {
		fmt.Fprintf(out, "Names can be removed from this filter. One from which they cannot would have %d bytes.\n", blocked)
	}
	fmt.Fprintf(out, "A program that only asks needs the filter: it saves %.0f %% of the bytes of the store.\n", 100-100*float64(len(b))/float64(max(size, 1)))
	return nil
}

// loadList puts the entries of a file into the store, in batches.
func loadList(ctx context.Context, db *shale.DB, name string) (lines int, err error) {
	var b shale.Batch
	lines, err = readList(name, func(e entry) error {
		if err := b.Put([]byte(e.name()), nil); err != nil || b.Len() < 5000 {
			return err
		}
		defer b.Reset()
		return db.Write(ctx, &b)
	})
	if err != nil {
		return lines, err
	}
	return lines, db.Write(ctx, &b)
}

// readList calls fn for the entries of a file, and returns how many lines it has read.
func readList(name string, fn func(entry) error) (lines int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() // opened for reading
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines++
		e, ok := entryOf(s.Text())
		if !ok {
			return lines, fmt.Errorf("%s:%d: %.80q is not a host, a mail address or a URL", name, lines, s.Bytes())
		}
		if e == (entry{}) {
			continue
		}
		if err := fn(e); err != nil {
			return lines, fmt.Errorf("%s:%d: %w", name, lines, err)
		}
	}
	if err := s.Err(); err != nil {
		return lines, fmt.Errorf("%s, after %d lines: %w", name, lines, err)
	}
	return lines, nil
}
