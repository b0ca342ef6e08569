package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// A filter is a set of all names of the store: a bloom.Blocked, or a sketch.Counting if names
// will be removed.
type filter interface {
	bloom.Set
	FPR() float64
}

// removeFilter removes the filter file, if there is one. When it returns, the file does not
// come back, not even after a power cut.
func removeFilter(name string) error {
	if err := os.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return vfs.Default.SyncDir(filepath.Dir(name))
}

// buildFilter returns a filter of all keys of the store in its serialized form, and how many
// keys that are. It also returns the size of a Blocked for these keys, to compare with.
func buildFilter(db *shale.DB, c config) (b []byte, keys, blocked int, err error) {
	var hashes []uint64
	for e, err := range db.Scan(shale.Range{KeysOnly: true}) {
		if err != nil {
			return nil, 0, 0, err
		}
		hashes = append(hashes, bloom.Hash(e.Key))
	}
	b = bloom.AppendBlocked(nil, hashes, c.bits)
	blocked = len(b)
	if c.shrinks {
		// A counter has four bits. Each key is added once, because the store has it once.
		f, err := sketch.NewCounting(sketch.CountingOptions{Keys: uint64(len(hashes)), BitsPerKey: 4 * c.bits})
		if err != nil {
			return nil, 0, 0, err
		}
		f.AddMany(hashes)
		if b, err = f.MarshalBinary(); err != nil {
			return nil, 0, 0, err
		}
	}
	return b, len(hashes), blocked, nil
}

// openFilter reads a filter file of either type. Its error leaves nothing to judge with: a
// filter that cannot be read means maybe for every name.
func openFilter(name string) (filter, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	blocked, err := bloom.OpenBlocked(b)
	if err == nil {
		return blocked, nil
	}
	if counting := new(sketch.Counting); counting.UnmarshalBinary(b) == nil {
		return counting, nil
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

// openCounting reads a filter file that names can be removed from.
func openCounting(name string) (*sketch.Counting, error) {
	f, err := openFilter(name)
	if err != nil {
		return nil, err
	}
	counting, ok := f.(*sketch.Counting)
	if !ok {
		return nil, fmt.Errorf("%s: names cannot be removed from a filter of this type; load a list with -shrinks, which makes one of the other type", name)
	}
	return counting, nil
}

// writeCounting replaces the filter file. After a crash there is the old file or the new one.
func writeCounting(name string, f *sketch.Counting) error {
	b, err := f.MarshalBinary()
	if err != nil {
		return err
	}
	return outfile.ReplaceBytes(name, b)
}
