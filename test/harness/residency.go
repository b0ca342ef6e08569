package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// AsFresh compares which filters and indexes an idle store has in memory with those that a read-only Open
// of the same directory has there, without faults: what could not be read for a while has come back.
// disk returns the disk of that Open, and opts are the options of the store. Where a limit decides what is in memory, the order of events does too, so that
// two stores need not agree.
func AsFresh(db *shale.DB, dir string, opts shale.Options, disk func() vfs.FS) error {
	const plenty = 1 << 30
	if opts.FilterMemory != 0 && opts.FilterMemory < plenty || opts.Tuning.IndexMemory != 0 && opts.Tuning.IndexMemory < plenty {
		return nil
	}
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		opts.FS = disk()
		if err = asFresh(db, dir, opts); err == nil {
			return nil
		}
	}
	return fmt.Errorf("what is in memory differs from what an Open would have there: %w", err)
}

func asFresh(db *shale.DB, dir string, opts shale.Options) (err error) {
	opts.ReadOnly, opts.OnEvent, opts.Logger = true, quiet, nil
	fresh, err := shale.Open(dir, &opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	for fresh.Metrics().Loading {
		time.Sleep(time.Millisecond)
	}
	want := make(map[uint64]shale.TableInfo)
	for _, t := range fresh.Inspect().Tables() {
		want[t.Number] = t
	}
	same := 0
	for _, got := range db.Inspect().Tables() {
		w, there := want[got.Number]
		if !there {
			continue // it was compacted, or flushed, meanwhile
		}
		same++
		if got.FilterBytes != w.FilterBytes || got.FilterFile != w.FilterFile {
			return fmt.Errorf("table %d has %d bytes of filter from %q (%s), want %d from %q",
				got.Number, got.FilterBytes, got.FilterFile, got.FilterKind, w.FilterBytes, w.FilterFile)
		}
	}
	got, wanted := db.Metrics(), fresh.Metrics()
	if len(db.Inspect().Tables()) == len(want) && same == len(want) && got.IndexMemory != wanted.IndexMemory {
		return fmt.Errorf("%d bytes of indexes are in memory, want %d", got.IndexMemory, wanted.IndexMemory)
	}
	return nil
}
