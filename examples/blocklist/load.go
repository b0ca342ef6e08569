package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
)

// load adds the lists to the store and writes a filter of all its keys.
func load(ctx context.Context, c config, out io.Writer) (err error) {
	// A filter that lacks keys of the store would call listed hosts good. So the old filter
	// is removed first, and nothing can judge until the new one is written.
	if err := os.Remove(c.filter); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	var hashes []uint64
	for e, err := range db.Scan(shale.Range{KeysOnly: true}) {
		if err != nil {
			return err
		}
		hashes = append(hashes, bloom.Hash(e.Key))
	}
	b := bloom.AppendBlocked(nil, hashes, c.bits)
	if err := os.WriteFile(c.filter+".tmp", b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(c.filter+".tmp", c.filter); err != nil {
		return err
	}
	size := int64(0)
	for _, t := range db.Tables() {
		size += t.Size
	}
	fmt.Fprintf(out, "%d lines read; %d hosts are in a store of %d bytes and a filter of %d, which will let %.2f %% of other hosts pass.\n",
		lines, len(hashes), size, len(b), 100*bloom.PredictFPR(c.bits))
	fmt.Fprintf(out, "A program that only asks needs the filter: it saves %.0f %% of the bytes of the store.\n", 100-100*float64(len(b))/float64(max(size, 1)))
	return nil
}

// loadList puts the hosts of a file into the store, in batches.
func loadList(ctx context.Context, db *shale.DB, name string) (lines int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() // opened for reading
	var b shale.Batch
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines++
		host, ok := hostOf(s.Text())
		if !ok {
			return lines, fmt.Errorf("%s:%d: %.80q is not a host", name, lines, s.Bytes())
		}
		if host == "" {
			continue
		}
		if err := b.Put([]byte(host), nil); err != nil {
			return lines, err
		}
		if b.Len() == 5000 {
			if err := db.Write(ctx, &b); err != nil {
				return lines, err
			}
			b.Reset()
		}
	}
	if err := s.Err(); err != nil {
		return lines, fmt.Errorf("%s: %w", name, err)
	}
	return lines, db.Write(ctx, &b)
}

// openFilter reads the filter file. Its error leaves nothing to judge with: a filter that
// cannot be read means maybe for every host.
func openFilter(name string) (*bloom.Blocked, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := bloom.OpenBlocked(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
