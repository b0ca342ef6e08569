package shale

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// Every call beside Close does its work or returns ErrClosed, nothing else,
// and no alarm is raised.
func TestClose_BesideEveryCall(t *testing.T) {
	background := context.Background()
	key := []byte("k0007")
	var copies atomic.Int64
	calls := map[string]func(db *DB) error{
		"Put":    func(db *DB) error { return db.Put(key, key) },
		"Delete": func(db *DB) error { return db.Delete([]byte("gone")) },
		"Get":    func(db *DB) error { _, err := db.Get(key); return err },
		"Has":    func(db *DB) error { _, err := db.Has([]byte("absent")); return err },
		"GetMany": func(db *DB) error {
			return db.GetMany([][]byte{key, {0}}, func(int, []byte, bool) error { return nil })
		},
		"IfAbsent": func(db *DB) error { _, err := db.PutIfAbsent(key, key); return err },
		"Flush":    func(db *DB) error { return db.Flush(background) },
		"Compact":  func(db *DB) error { return db.Compact(background, Range{}) },
		"Verify":   func(db *DB) error { return db.Verify(background) },
		"Explain":  func(db *DB) error { _, err := db.Explain(key); return err },
		"Metrics":  func(db *DB) error { db.Metrics(); db.Tables(); db.MayContain(key); return db.Sync() },
		"Checkpoint": func(db *DB) error {
			return db.Checkpoint(filepath.Join("copies", fmt.Sprint(copies.Add(1))))
		},
		"Snapshot": func(db *DB) error {
			s, err := db.Snapshot()
			if err != nil {
				return err
			}
			_, err = s.Get(key)
			return errors.Join(err, s.Close())
		},
		"Scan": func(db *DB) error {
			for _, err := range db.Scan(Range{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		closeBeside(t, calls, key)
	}
}

// closeBeside runs all calls again and again while it closes the store.
func closeBeside(t *testing.T, calls map[string]func(*DB) error, key []byte) {
	t.Helper()
	mem := vfs.NewMem()
	var alarm atomic.Pointer[Event]
	db, err := Open("store", &Options{FS: mem, MemtableSize: 8 << 10, TableSize: 8 << 10, Durability: SyncManual, OnEvent: func(e Event) {
		if e.Err != nil {
			alarm.Store(&e)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := db.Put(fmt.Appendf(nil, "k%04d", i), key); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var begun sync.WaitGroup
	for name, call := range calls {
		begun.Add(1)
		wg.Go(func() {
			for i := 0; ; i++ {
				err := call(db)
				if i == 0 {
					begun.Done()
				}
				if err == nil {
					continue
				}
				if !errors.Is(err, ErrClosed) || errors.Is(err, ErrReadOnly) {
					t.Errorf("%s beside Close: %v, want ErrClosed", name, err)
				}
				return
			}
		})
	}
	begun.Wait()
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	if e := alarm.Load(); e != nil {
		t.Errorf("event %v: %v", e.Kind, e.Err)
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
}
