package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// loadTries is how often Load follows CURRENT when the manifest it named has
// gone: beside a running writer that means it has begun a new one.
const loadTries = 5

// Load reads the state of the store in dir. It changes nothing, and may run
// beside a writer.
//
// If there is no store, the error wraps fs.ErrNotExist. A directory that has
// tables or logs but no CURRENT is a damaged store, not an absent one.
func Load(fsys vfs.FS, dir string) (*State, error) {
	var last current
	for try := 0; ; try++ {
		c, err := readCurrent(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, explainAbsence(fsys, dir, err)
		}
		if err != nil {
			return nil, err
		}
		s, err := load(fsys, dir, c)
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		if try == loadTries || try > 0 && c == last {
			return nil, base.Corruption(base.ManifestName(c.manifest), -1, "manifest",
				errors.New("CURRENT names it but it is not there"))
		}
		last = c
	}
}

// Exists returns nil if dir has a store. Otherwise its error is that of Load: it
// wraps fs.ErrNotExist if there is no store, and not if there is a damaged one.
func Exists(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Join(dir, base.CurrentName))
	if errors.Is(err, fs.ErrNotExist) {
		return explainAbsence(fsys, dir, err)
	}
	return err
}

// explainAbsence returns absent if the directory has no store, and damage if it
// has a store that lost its CURRENT: a new store there would take tables and
// logs for leftovers and delete them. A new store gets its first log and table
// after its CURRENT is durable.
func explainAbsence(fsys vfs.FS, dir string, absent error) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return absent
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	for _, name := range names {
		typ, _, ok := base.ParseFileName(name)
		if ok && (typ == base.FileTable || typ == base.FileLog) {
			return base.Corruption(base.CurrentName, -1, "name of the manifest", fmt.Errorf("missing beside %s", name))
		}
	}
	return absent
}

// load replays the manifest that c names.
func load(fsys vfs.FS, dir string, c current) (*State, error) {
	s := &State{ManifestNum: c.manifest, NextFileNum: c.manifest + 1}
	var tables builder
	end, err := replay(fsys, dir, c, func(offset int64, e *Edit) error {
		err := s.applyCounters(e)
		if err == nil {
			err = tables.apply(e)
		}
		if err != nil {
			return base.Corruption(base.ManifestName(c.manifest), offset, "manifest record", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.StoreID, s.Length, s.torn = end.storeID, end.Length, end.Torn
	s.Version, err = tables.version()
	if err != nil {
		return nil, base.Corruption(base.ManifestName(c.manifest), -1, "version", err)
	}
	return s, nil
}

// A Summary is what a manifest turned out to be when it was read to its end.
type Summary struct {
	storeID uint64
	records int
	Length  int64 // bytes up to the end of the last good record
	Torn    bool  // something follows that is no record
}

// ReadEdits calls fn for each edit of manifest num, in order, with its record's
// offset, and stops at fn's first error; the Summary is of the records before
// an error. It is for tools: CURRENT is not asked,
// and whether the edits fit together is not checked.
func ReadEdits(fsys vfs.FS, dir string, num base.FileNum, fn func(offset int64, e *Edit) error) (Summary, error) {
	return replay(fsys, dir, current{manifest: num}, fn)
}

// replay reads the manifest that c names.
func replay(fsys vfs.FS, dir string, c current, fn func(offset int64, e *Edit) error) (Summary, error) {
	name := base.ManifestName(c.manifest)
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return Summary{}, fmt.Errorf("manifest: %w", err)
	}
	defer f.Close() // only read: nothing to lose
	r, err := newRecordReader(f, c.manifest, c.durable)
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{storeID: r.storeID, Length: r.offset}
	for {
		payload, offset, err := r.next()
		if err == io.EOF {
			sum.Torn = r.torn
			return sum, nil
		}
		if err == nil {
			err = c.checkRecord(offset, r.offset)
		}
		if err != nil {
			return sum, err
		}
		e, err := decodeEdit(payload)
		switch {
		case errors.Is(err, base.ErrFormatTooNew):
			return sum, fmt.Errorf("manifest: %s at offset %d: %w", name, offset, err)
		case err != nil:
			return sum, base.Corruption(name, offset, "edit", err)
		}
		if err := fn(offset, e); err != nil {
			return sum, err
		}
		sum.records++
		sum.Length = r.offset
	}
}
