package shale

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// diskUse returns the files of a store and their bytes.
func diskUse(t *testing.T, fs vfs.FS, dir string) (names string, size int64) {
	t.Helper()
	list, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		info, err := fs.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size
	}
	return strings.Join(list, " "), size
}

// A store that is opened and closed again and again keeps no logs whose writes
// are in tables, and a closed store no space that was reserved for writes.
func TestReopen_LeavesNoLogs(t *testing.T) {
	for _, flush := range []bool{true, false} {
		fs := vfs.NewMem()
		var logs []int
		for i := range 24 {
			db, err := Open("store", &Options{FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := db.Put([]byte("k"), []byte("v")); err != nil {
					t.Fatal(err)
				}
				if flush {
					if err := db.Flush(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if v, err := db.Get([]byte("k")); err != nil || !bytes.Equal(v, []byte("v")) {
				t.Fatalf("open %d: Get = %q, %v", i, v, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			names, size := diskUse(t, fs, "store")
			logs = append(logs, strings.Count(names, ".wal"))
			if size > 256<<10 {
				t.Errorf("flush %v, open %d: %d bytes for one entry: %s", flush, i, size, names)
			}
		}
		most := maxKeptLogs + 1 // and the new one
		if flush {
			most = 1
		}
		for i, n := range logs {
			if n > most {
				t.Fatalf("flush %v: %d logs after open %d, want %d at most: %v", flush, n, i, most, logs)
			}
		}
	}
}

// The numbers of forgotten logs do not come again: what follows is newer.
func TestReopen_SequenceGoesOn(t *testing.T) {
	fs := vfs.NewMem()
	last := uint64(0)
	for i := range 10 {
		db, err := Open("store", &Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		s, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if s.Seq() < last {
			t.Errorf("open %d begins at sequence number %d, the last one ended at %d", i, s.Seq(), last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := db.Put(fmt.Appendf(nil, "k%d", i), nil); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			last++
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A Sync beside Close succeeds or gets ErrClosed, and no alarm is raised.
func TestSync_BesideClose(t *testing.T) {
	for range 200 {
		var alarm atomic.Pointer[Event]
		db, err := Open("store", &Options{FS: vfs.NewMem(), Durability: SyncManual, OnEvent: func(e Event) {
			if e.Err != nil {
				alarm.Store(&e)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 1000 {
					_ = db.Put(fmt.Appendf(nil, "%d", i), nil) // until it is closed
					if err := db.Sync(); err != nil {
						if err != ErrClosed {
							t.Errorf("Sync beside Close: %v, want ErrClosed", err)
						}
						return
					}
				}
			})
		}
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		if e := alarm.Load(); e != nil {
			t.Fatalf("event %v: %v", e.Kind, e.Err)
		}
	}
}
