package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A Salvaged is the result of Salvage.
type Salvaged struct {
	// State is a state that the store once had; nil if no manifest has a readable one.
	// Together with its tables and the logs that come after it, it has everything up to the
	// end of these logs. That holds whatever compactions came later.
	State *State
	// Whole says that CURRENT and the manifest are undamaged, and that State is what Load
	// returns.
	Whole bool

	StoreID uint64  // as a manifest states it; 0 if none has a readable header
	Edits   int     // number of edits that led to State
	Damage  []error // the damage that was found; each is a *base.CorruptionError
}

// Salvage returns the best state that it can read from the manifests in dir. It changes
// nothing.
//
//  1. It reads CURRENT, and the manifest that CURRENT names.
//  2. If that manifest is damaged, it takes the edits before the damage, provided that they
//     contain a whole snapshot.
//  3. If they do not, or if CURRENT can't be read, it takes the newest manifest with a whole
//     snapshot.
//
// Its errors are those of the file system, base.ErrFormatTooNew, and one that wraps
// fs.ErrNotExist if there is no store.
func Salvage(fsys vfs.FS, dir string) (*Salvaged, error) {
	for try := 0; ; try++ {
		s, c, err := salvage(fsys, dir)
		if err != nil || s.Whole || try == loadTries {
			return s, err
		}
		// A running writer may have begun a new manifest and removed this one.
		if again, err := readCurrent(fsys, dir); err != nil || again == c {
			return s, nil
		}
	}
}

// salvage is one attempt of Salvage. It also returns what CURRENT said.
func salvage(fsys vfs.FS, dir string) (*Salvaged, current, error) {
	s := new(Salvaged)
	c, err := readCurrent(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = explainAbsence(fsys, dir, err)
	} else {
		err = unlessForeign(fsys, dir, err)
	}
	if err != nil && !s.damaged(err) {
		return nil, c, err
	}
	return s, c, s.read(fsys, dir, c)
}

// read tries the manifests, that of c first, until one has a state.
func (s *Salvaged) read(fsys vfs.FS, dir string, c current) error {
	nums, err := candidates(fsys, dir, c.manifest)
	if err != nil {
		return err
	}
	for _, num := range nums {
		this := current{manifest: num}
		if num == c.manifest {
			this = c
		}
		if err := s.try(fsys, dir, this); err != nil && !s.damaged(err) {
			return err
		}
		if s.State != nil {
			break
		}
	}
	s.Whole = s.State != nil && len(s.Damage) == 0
	return nil
}

// damaged reports whether err is damage. If so, it adds err to Damage.
func (s *Salvaged) damaged(err error) bool {
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		return false
	}
	s.Damage = append(s.Damage, err)
	return true
}

// candidates lists the manifests of dir in the order in which they are tried: the one that
// CURRENT names, even if it does not exist, and then the others, newest first.
func candidates(fsys vfs.FS, dir string, first base.FileNum) ([]base.FileNum, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var nums []base.FileNum
	for _, name := range names {
		if typ, num, ok := base.ParseFileName(name); ok && typ == base.FileManifest && num != first {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	slices.Reverse(nums)
	if first != 0 {
		nums = slices.Insert(nums, 0, first)
	}
	return nums, nil
}

// try reads the manifest of c up to the first damage, which it returns. If the edits before
// it contain a whole snapshot, it sets State to what they lead to. c.durable is 0 if it is
// not known.
func (s *Salvaged) try(fsys vfs.FS, dir string, c current) error {
	state := &State{ManifestNum: c.manifest, NextFileNum: c.manifest + 1}
	var tables builder
	whole, sound, last := false, true, int64(headerSize)
	var misled error
	sum, err := replay(fsys, dir, current{manifest: c.manifest}, nil, func(offset int64, e *Edit) error {
		// The record before this one goes from last to offset.
		misled = cmp.Or(misled, c.checkRecord(last, offset))
		last = offset
		// Of the records of a snapshot, only the first has NextFileNum. So another one with
		// it was appended, and the snapshot before it is whole.
		whole = whole || offset > headerSize && e.NextFileNum != 0
		err := state.applyCounters(e)
		if err == nil {
			err = tables.apply(e)
		}
		if err != nil {
			sound = false
			return base.Corruption(base.ManifestName(c.manifest), offset, "manifest record", err)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = base.Corruption(base.ManifestName(c.manifest), -1, "manifest", errors.New("CURRENT names it but it is not there"))
	}
	// If the length in CURRENT is within a record, CURRENT belongs to another manifest. Its
	// length says nothing about this one.
	if misled = cmp.Or(misled, c.checkRecord(last, sum.Length)); misled != nil {
		s.Damage = append(s.Damage, misled)
		c.durable = 0
	}
	// replay was not told the length in CURRENT, and has taken a missing end for a torn
	// append.
	if err == nil && sum.Length < c.durable {
		err = base.Corruption(base.ManifestName(c.manifest), sum.Length, "manifest record",
			fmt.Errorf("not a record, in a manifest of %d bytes", c.durable))
	}
	if s.StoreID == 0 {
		s.StoreID = sum.storeID
	}
	// The edits are of use if all of them fit together, and if the snapshot is whole: an edit
	// follows it, or all that CURRENT states is there.
	if !sound || !whole && !(c.durable > 0 && sum.Length >= c.durable) {
		return err
	}
	state.StoreID, state.Length, state.torn = sum.storeID, sum.Length, sum.Torn
	var verr error
	if state.Version, verr = tables.version(); verr != nil {
		return base.Corruption(base.ManifestName(c.manifest), -1, "version", verr)
	}
	s.State, s.Edits = state, sum.records
	return err
}
