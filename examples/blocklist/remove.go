package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/sketch"
)

// remove takes the lines of the lists off the blocklist.
//
// The store forgets the names first, durably, and the filter after it. A crash in between
// leaves a filter that lets pass some names that the store no longer has: each costs a
// lookup, and no answer is wrong. In the other order, the filter would call names good that
// are still listed.
func remove(ctx context.Context, c config, out io.Writer) (err error) {
	names := make(map[string]bool)
	lines := 0
	for _, list := range c.lists {
		n, err := readList(list, func(e entry) error {
			names[e.name()] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("nothing was removed: %w", err)
		}
		lines += n
	}
	// The store's lock keeps other loads and removals away from the filter file too.
	db, err := shale.Open(c.db, &shale.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f, err := openCounting(c.filter)
	if err != nil {
		return err
	}
	before := f.Count()
	err = removeNames(ctx, db, f, slices.Sorted(maps.Keys(names)))
	// Also after an error, the filter can lose what the store has lost.
	if err := errors.Join(err, writeCounting(c.filter, f)); err != nil {
		return err
	}
	removed := before - f.Count()
	fmt.Fprintf(out, "%d lines read; %d names were listed and are not any more, %d were not listed.\n", lines, removed, uint64(len(names))-removed)
	fmt.Fprintf(out, "The filter of %d bytes has %d names, and will let %.2f %% of others pass.\n", f.SizeBytes(), f.Count(), 100*f.FPR())
	return nil
}

// removeNames removes names from the store and then from the filter, a batch at a time.
// Requires: no name comes twice. Only what the store has is removed from the filter: a filter
// from which an absent name is removed may deny others.
func removeNames(ctx context.Context, db *shale.DB, f *sketch.Counting, names []string) error {
	var b shale.Batch
	for chunk := range slices.Chunk(names, 5000) {
		var listed [][]byte
		for _, name := range chunk {
			key := []byte(name)
			there, err := db.Has(key)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			if err := b.Delete(key); err != nil {
				return err
			}
			listed = append(listed, key)
		}
		if err := db.Write(ctx, &b); err != nil {
			return err
		}
		b.Reset()
		for _, key := range listed {
			f.Remove(key)
		}
	}
	return nil
}
