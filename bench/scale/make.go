package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shaledb/shale"
)

// The folder of a store has one of two files next to the store: unfinished while the store is
// being made, and finished once it is made. A store that was interrupted is made again.
const (
	unfinished = "unfinished"
	finished   = "finished-1" // the number is that of the way in which stores are made
	storeDir   = "store"
)

// bundle is how many keys one ingestion has. Fewer would write the manifest more often, and
// more would hold all of the tables back until the end.
const bundle = 10 << 20

// make makes the store in its folder below dir, unless it is there already, and returns the
// path of the store. progress gets a line of what is going on.
func (s spec) make(ctx context.Context, dir string, progress io.Writer) (string, error) {
	home := filepath.Join(dir, s.name())
	path := filepath.Join(home, storeDir)
	switch made, err := prepare(home, progress); {
	case err != nil:
		return "", err
	case made:
		return path, nil
	}
	fmt.Fprintf(progress, "making a store of %s in %s\n", s.title(), path)
	if err := s.fill(ctx, path); err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	return path, os.Rename(filepath.Join(home, unfinished), filepath.Join(home, finished))
}

// prepare reports whether the folder home has a finished store. If not, it makes the folder,
// or removes the rest of a store from it. It never removes what this program has not made.
func prepare(home string, progress io.Writer) (made bool, err error) {
	if _, err := os.Stat(filepath.Join(home, finished)); err == nil {
		return true, nil
	}
	mark := filepath.Join(home, unfinished)
	switch _, err := os.Stat(mark); {
	case err == nil:
		fmt.Fprintf(progress, "%s was not finished: it is made again\n", home)
		if err := os.RemoveAll(filepath.Join(home, storeDir)); err != nil {
			return false, err
		}
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if names, err := os.ReadDir(home); err == nil && len(names) > 0 {
		return false, fmt.Errorf("%s has files, but no store that this version of the program has made: remove it, or choose another -dir", home)
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return false, err
	}
	return false, os.WriteFile(mark, nil, 0o644)
}

// fill makes the store: the last level first, because an ingestion goes below all that is
// there unless their keys overlap.
func (s spec) fill(ctx context.Context, path string) (err error) {
	db, err := shale.Open(path, s.making())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, upper := range []bool{false, true} {
		for begin := 0; begin < s.keys; begin += bundle {
			if err := db.Ingest(ctx, s.entries(begin, min(begin+bundle, s.keys), upper)); err != nil {
				return err
			}
		}
	}
	return s.check(db.Metrics())
}

// check returns an error if the store does not have the levels that it should have.
func (s spec) check(m shale.Metrics) error {
	tables := 0
	for _, l := range m.Levels {
		tables += l.Tables
	}
	last, upper := m.Levels[shale.NumLevels-1], m.Levels[shale.NumLevels-2]
	if n := uint64(s.keys / upperShare); upper.Entries != n || last.Entries != uint64(s.keys)-n {
		return fmt.Errorf("the last two levels have %d and %d keys, want %d and %d", upper.Entries, last.Entries, n, uint64(s.keys)-n)
	}
	if s.tables > 0 && tables != s.tables {
		return fmt.Errorf("it has %d tables, want %d", tables, s.tables)
	}
	return nil
}

// remove removes the folder of the store.
func (s spec) remove(dir string) error { return os.RemoveAll(filepath.Join(dir, s.name())) }
