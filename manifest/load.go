package manifest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// loadTries is how often Load reads CURRENT again because the manifest that it named does not
// exist. That happens if a running writer has begun a new manifest in between.
const loadTries = 5

// Load returns the state of the store in dir. It changes nothing, and may run at the same
// time as a writer.
//
//  1. It reads the name of the manifest from CURRENT.
//  2. It applies the edits of that manifest, in order, to an empty state. The first ones are
//     the snapshot with which the manifest begins.
//  3. It checks the invariants of the version to which they lead.
//
// If there is no store, the error wraps fs.ErrNotExist. A directory with tables or logs but
// without CURRENT is a damaged store, not an absent one. The error for a store of another program
// names that.
func Load(fsys vfs.FS, dir string) (*State, error) {
	var last current
	for try := 0; ; try++ {
		c, err := readCurrent(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, explainAbsence(fsys, dir, err)
		}
		if err != nil {
			return nil, unlessForeign(fsys, dir, err)
		}
		s, err := load(fsys, dir, c)
		// If the manifest does not exist, CURRENT is read again: a writer may have changed it
		// and then removed the manifest that it named before.
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		// CURRENT has not changed since the last try, so no writer has moved on: the manifest
		// is lost.
		if try == loadTries || try > 0 && c == last {
			return nil, base.Corruption(base.ManifestName(c.manifest), -1, "manifest",
				errors.New("CURRENT names it but it is not there"))
		}
		last = c
	}
}

// Follow returns the state to which the store has come since s, and s itself if nothing has
// changed. s is what Load or Follow has returned. It changes neither s nor the store, and may run
// at the same time as a writer.
//
// As long as CURRENT names the manifest of s, Follow reads only the edits that were appended
// since. The version that it returns then shares with that of s what has not changed. If no
// table has changed, it is the same Version. A manifest that has replaced that of s is read from
// its beginning.
func Follow(fsys vfs.FS, dir string, s *State) (*State, error) {
	line, err := readLine(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, explainAbsence(fsys, dir, err)
	}
	// If CURRENT is as it was, s has all that was durable then.
	c := current{manifest: s.ManifestNum, line: s.line}
	if err == nil && string(line) != s.line {
		c, err = decodeLine(line)
	}
	switch {
	case err != nil:
		return nil, err
	case c.manifest != s.ManifestNum:
		return Load(fsys, dir)
	}
	next, err := follow(fsys, dir, c, s)
	// If the manifest is gone, a writer has changed CURRENT since.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errAnother) {
		return Load(fsys, dir)
	}
	return next, err
}

// errAnother says that a manifest does not go on from a state, although it has the right number:
// it is that of another store, or of an older state of this one.
var errAnother = errors.New("manifest: another manifest has this number")

// follow is Follow for the manifest of s, which c names.
func follow(fsys vfs.FS, dir string, c current, s *State) (*State, error) {
	if same, err := unchanged(fsys, dir, s); same || err != nil {
		return s, err
	}
	next := s
	end, err := replay(fsys, dir, c, func(r *recordReader) error { return r.skipTo(s) }, func(offset int64, e *Edit) error {
		v, err := next.Version, error(nil)
		if e.ChangesVersion() {
			v, err = v.Apply(e)
		}
		if err == nil {
			next, err = next.Apply(e, v)
		}
		if err != nil {
			return base.Corruption(base.ManifestName(c.manifest), offset, "manifest record", err)
		}
		return nil
	})
	if err != nil || next == s {
		return s, err
	}
	next.Length, next.torn, next.last, next.chain, next.line = end.Length, end.Torn, end.last, end.chain, c.line
	return next, nil
}

// unchanged reports whether the manifest of s has no more than s. It reads a few bytes only.
func unchanged(fsys vfs.FS, dir string, s *State) (bool, error) {
	f, err := fsys.Open(filepath.Join(dir, base.ManifestName(s.ManifestNum)))
	if err != nil {
		return false, fmt.Errorf("manifest: %w", err)
	}
	defer f.Close() // it was only read, so its error does not matter
	size, err := f.Size()
	if err != nil || size != s.Length {
		return false, err
	}
	if same, err := s.isIn(f); !same || err != nil {
		return false, cmp.Or(err, errAnother)
	}
	return true, nil
}

// isIn reports whether manifest f has led to s: the last record that has is there. Its checksum
// continues those of the header and of all records before it.
func (s *State) isIn(f io.ReaderAt) (bool, error) {
	record := make([]byte, recordHeaderSize)
	if n, err := f.ReadAt(record, s.last); n < len(record) {
		return false, fmt.Errorf("manifest: read %s at offset %d: %w", base.ManifestName(s.ManifestNum), s.last, err)
	}
	return binary.LittleEndian.Uint32(record[4:]) == s.chain.last, nil
}

// Exists returns nil if dir has a CURRENT of ours. Otherwise its error is like that of Load: it
// wraps fs.ErrNotExist if there is no store, and does not if there is a damaged one, or one of
// another program.
func Exists(fsys vfs.FS, dir string) error {
	_, err := readCurrent(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return explainAbsence(fsys, dir, err)
	}
	return unlessForeign(fsys, dir, err)
}

// explainAbsence is called when there is no CURRENT. It returns absent if the directory has
// no store. If it has tables or logs, the store has lost its CURRENT, and the result is
// damage: a new store in this directory would take these files for leftovers and delete them.
// A crash can't leave such a directory, because a new store makes its first log and table
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
			return unlessForeign(fsys, dir, base.Corruption(base.CurrentName, -1, "name of the manifest", fmt.Errorf("missing beside %s", name)))
		}
	}
	return absent
}

// load returns the state that the manifest of c leads to.
func load(fsys vfs.FS, dir string, c current) (*State, error) {
	// The manifest's own number is used up too.
	s := &State{ManifestNum: c.manifest, NextFileNum: c.manifest + 1}
	var tables builder
	end, err := replay(fsys, dir, c, nil, func(offset int64, e *Edit) error {
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
	s.StoreID, s.Length, s.torn, s.last, s.chain, s.line = end.storeID, end.Length, end.Torn, end.last, end.chain, c.line
	s.Version, err = tables.version()
	if err != nil {
		return nil, base.Corruption(base.ManifestName(c.manifest), -1, "version", err)
	}
	return s, nil
}

// A Summary describes a manifest that was read to its end, or to the first damage.
type Summary struct {
	storeID uint64
	records int
	last    int64 // offset of the last good record; 0: there is none
	chain   chain // of the record that would be next
	Length  int64 // offset where the last good record ends
	Torn    bool  // the last append was cut short: bytes follow that are no record
}

// ReadEdits calls fn for each edit of manifest num, in order, with the offset of its record.
// It ends at fn's first error. With an error, the Summary is about the records before it.
// ReadEdits is for tools: it does not read CURRENT, and does not check whether the edits fit
// together.
func ReadEdits(fsys vfs.FS, dir string, num base.FileNum, fn func(offset int64, e *Edit) error) (Summary, error) {
	return replay(fsys, dir, current{manifest: num}, nil, fn)
}

// replay calls fn for each edit of the manifest that c names, with the offset of its record.
// It fails if a record is damaged, or if CURRENT and the manifest do not belong together. A
// torn tail is no error, since only an edit that was never acknowledged can leave one.
// c.durable is 0 if it is not known how much of the manifest must be there. skip, if not nil, moves
// to the first record for which replay calls fn, or returns why it can't.
func replay(fsys vfs.FS, dir string, c current, skip func(*recordReader) error, fn func(offset int64, e *Edit) error) (Summary, error) {
	name := base.ManifestName(c.manifest)
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return Summary{}, fmt.Errorf("manifest: %w", err)
	}
	defer f.Close() // it was only read, so its error does not matter
	r, err := newRecordReader(f, c.manifest, c.durable)
	if err != nil {
		return Summary{}, err
	}
	if skip != nil {
		if err := skip(r); err != nil {
			return Summary{}, err
		}
	}
	sum := Summary{storeID: r.storeID, Length: r.offset}
	for {
		payload, offset, err := r.next()
		if err == io.EOF {
			sum.Torn, sum.chain = r.torn, r.chain
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
		sum.last, sum.Length = offset, r.offset
	}
}
