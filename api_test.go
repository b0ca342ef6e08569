package shale

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"
)

// readers returns a store and a snapshot of it, with values in a table and in the memtable, and
// an empty value in both.
func readers(t *testing.T) map[string]Reader {
	t.Helper()
	db := openTest(t, small())
	mustPut(t, db, "in a table", "value")
	mustPut(t, db, "empty in a table", "")
	mustFlush(t, db)
	mustPut(t, db, "in the memtable", "value")
	mustPut(t, db, "empty in the memtable", "")
	s := mustSnapshot(t, db)
	t.Cleanup(func() { _ = s.Close() }) // it runs before the store is closed
	return map[string]Reader{"DB": db, "Snapshot": s}
}

// The slice that Get returns belongs to the caller, who may change it: later answers stay as they
// were.
func TestReader_GetGivesACopy(t *testing.T) {
	for name, r := range readers(t) {
		for _, key := range []string{"in a table", "in the memtable"} {
			v, err := r.Get([]byte(key))
			if err != nil {
				t.Fatal(err)
			}
			for i := range v {
				v[i] = 'X'
			}
			_ = append(v, "more"...)
			if again, err := r.Get([]byte(key)); err != nil || string(again) != "value" {
				t.Errorf("%s.Get(%q) = %q, %v after the first answer was changed", name, key, again, err)
			}
		}
		for _, key := range []string{"empty in a table", "empty in the memtable"} {
			if v, err := r.Get([]byte(key)); v == nil || len(v) != 0 || err != nil {
				t.Errorf("%s.Get(%q) = %#v, %v; want an empty slice", name, key, v, err)
			}
		}
		if v, err := r.Get([]byte("absent")); v != nil || err != ErrNotFound || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s.Get of an absent key: %#v, %v", name, v, err)
		}
	}
}

// The function of ViewValue may return an error, panic, and read and write the store.
func TestReader_ViewValue(t *testing.T) {
	boom := errors.New("boom")
	for name, r := range readers(t) {
		for _, key := range []string{"in a table", "in the memtable", "empty in a table"} {
			key := []byte(key)
			if err := r.ViewValue(key, func([]byte) error { return boom }); err != boom {
				t.Errorf("%s.ViewValue(%q) = %v, want fn's error", name, key, err)
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s.ViewValue(%q) keeps a panic from its caller", name, key)
					}
				}()
				_ = r.ViewValue(key, func([]byte) error { panic("in fn") })
			}()
			err := r.ViewValue(key, func(v []byte) error {
				if v == nil {
					t.Errorf("%s.ViewValue(%q) shows nil", name, key)
				}
				again, err := r.Get(key)
				if !bytes.Equal(v, again) {
					t.Errorf("%s.ViewValue(%q) shows %q, Get gives %q", name, key, v, again)
				}
				if w, ok := r.(Writer); ok {
					err = errors.Join(err, w.Put([]byte("written meanwhile"), v))
				}
				return err
			})
			if err != nil {
				t.Errorf("%s.ViewValue(%q): %v", name, key, err)
			}
		}
		err := r.ViewValue([]byte("absent"), func([]byte) error { t.Error("fn is called for an absent key"); return nil })
		if err != ErrNotFound {
			t.Errorf("%s.ViewValue of an absent key: %v", name, err)
		}
	}
}

// Every read releases the blocks that it has used, even if it fails: once the tables are removed,
// the cache holds no block.
func TestReader_LetsGoOfBlocks(t *testing.T) {
	opts := small()
	opts.CacheSize, opts.FilterBits, opts.CompactionWorkers = 1<<20, -1, -1 // without filters absent keys need blocks too
	db := openTest(t, opts)
	fill(t, db, 500, 0)
	mustFlush(t, db)
	s := mustSnapshot(t, db)
	boom := errors.New("boom")
	for i := range 500 {
		key := fmt.Appendf(nil, "key%06d", i)
		wantGet(t, db, string(key), fmt.Sprintf("value %d of round 0", i), true)
		wantGet(t, s, string(key)+"x", "", false)
		mustExplain(t, db, string(key))
		if err := db.ViewValue(key, func([]byte) error { return boom }); err != boom {
			t.Fatal(err)
		}
		if err := db.GetMany([][]byte{key, key[:3]}, func(int, []byte, bool) error { return boom }); err != boom {
			t.Fatal(err)
		}
		if inserted, err := db.PutIfAbsent(key, nil); inserted || err != nil {
			t.Fatal(inserted, err)
		}
	}
	for _, r := range []Range{{}, {Reverse: true}, {Limit: 100}} {
		for _, err := range s.Scan(r) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := db.cache.Stats().Blocks; n == 0 {
		t.Error("nothing is cached")
	}
	for i := range 500 {
		mustDelete(t, db, fmt.Sprintf("key%06d", i))
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	// A goroutine that looks through the filters may have the version of before for a moment longer.
	held := db.cache.Stats()
	for begin := time.Now(); held.Blocks != 0 && time.Since(begin) < 10*time.Second; held = db.cache.Stats() {
		time.Sleep(time.Millisecond)
	}
	if held.Blocks != 0 || held.Bytes != 0 {
		t.Errorf("%d blocks of %d bytes are held for tables that are gone", held.Blocks, held.Bytes)
	}
}

// Put copies its arguments, so that the caller may use their memory again at once.
func TestWriter_CopiesItsArguments(t *testing.T) {
	db := openTest(t, small())
	var b Batch
	for name, w := range map[string]Writer{"DB": db, "Batch": &b} {
		key, value := []byte(name), []byte("value")
		if err := w.Put(key, value); err != nil {
			t.Fatal(err)
		}
		copy(key, "XXXXX")
		copy(value, "XXXXX")
	}
	if err := db.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	mustPut(t, &b, "XXXXXXXX", "XXXXX")
	if got, want := scanAll(t, db, Range{}), "Batch=value DB=value"; got != want {
		t.Errorf("Scan: %s, want %s", got, want)
	}
}
