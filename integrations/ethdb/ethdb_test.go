package shaleeth

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

func open(t testing.TB) Database {
	t.Helper()
	db, err := Open("chain", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func put(t *testing.T, w ethdb.KeyValueWriter, key, value string) {
	t.Helper()
	if err := w.Put([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// all returns the entries of it as KEY=VALUE, and releases it.
func all(t *testing.T, it ethdb.Iterator) string {
	t.Helper()
	var b bytes.Buffer
	for it.Next() {
		fmt.Fprintf(&b, "%s=%s ", it.Key(), it.Value())
	}
	if err := it.Error(); err != nil {
		t.Error(err)
	}
	it.Release()
	return b.String()
}

func TestDatabase_Suite(t *testing.T) {
	dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore { return open(t) })
}

// Also on disk, where the default options do not sync each write.
func TestOpen_OnDisk(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := db.Metrics().WALSyncs
	put(t, db, "key", "value")
	if n := db.Metrics().WALSyncs - before; n != 0 {
		t.Errorf("%d syncs of a Put", n)
	}
	if err := db.SyncKeyValue(); err != nil || db.Metrics().WALSyncs == before {
		t.Errorf("SyncKeyValue = %v, %d syncs", err, db.Metrics().WALSyncs)
	}
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	again, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if value, err := again.Get([]byte("key")); err != nil || string(value) != "value" {
		t.Errorf("Get = %q, %v", value, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(dir, &shale.Options{Exist: shale.MustNotExist}); err == nil {
		t.Error("Open has ignored its options")
	}
}

// Absent keys give an error, and empty values none.
func TestDatabase_AbsentAndEmpty(t *testing.T) {
	db := open(t)
	if value, err := db.Get([]byte("key")); !errors.Is(err, shale.ErrNotFound) || value != nil {
		t.Errorf("Get = %q, %v, want ErrNotFound", value, err)
	}
	if err := db.Put([]byte("key"), nil); err != nil {
		t.Fatal(err)
	}
	value, err := db.Get([]byte("key"))
	if known, hasErr := db.Has([]byte("key")); err != nil || value == nil || len(value) != 0 || !known || hasErr != nil {
		t.Errorf("Get = %v, %v; Has = %v, %v; want an empty value", value, err, known, hasErr)
	}
}

// Ranges without bounds reach to the very end: keys of 0xff bytes, longer than ethdb.MaximumKey, included.
func TestDatabase_RangesToTheEnd(t *testing.T) {
	db := open(t)
	last := string(bytes.Repeat([]byte{0xff}, 40))
	for _, deletes := range []func() error{
		func() error { return db.DeleteRange(nil, nil) },
		func() error { return db.DeleteRange([]byte("a"), nil) },
		func() error {
			b, other := db.NewBatch(), db.NewBatch()
			return errors.Join(b.DeleteRange(nil, nil), b.Replay(other), other.Write())
		},
	} {
		put(t, db, "k", "1")
		put(t, db, last, "2")
		if got := all(t, db.NewIterator([]byte{0xff}, []byte{0xff})); got != last+"=2 " {
			t.Errorf("iterator of 0xff: %q", got)
		}
		if err := deletes(); err != nil {
			t.Error(err)
		}
		if got := all(t, db.NewIterator(nil, nil)); got != "" {
			t.Errorf("%q are left", got)
		}
	}
	put(t, db, "k", "1")
	if err := db.DeleteRange(nil, []byte{}); err != nil {
		t.Error(err)
	}
	if got := all(t, db.NewIterator(nil, nil)); got != "k=1 " {
		t.Errorf("a range up to the empty key has deleted something: %q is left", got)
	}
	if err := db.Compact(nil, nil); err != nil {
		t.Error(err)
	}
	if m := db.Metrics(); m.Levels[6].Entries != 1 || m.RangeDeletes != 0 {
		t.Errorf("Compact has left\n%v", m)
	}
	if stat, err := db.Stat(); err != nil || len(stat) < 100 {
		t.Errorf("Stat = %q, %v", stat, err)
	}
}

// An iterator shows the state of its creation, has no entry before Next and after the end, and may
// be released twice.
func TestIterator_Ends(t *testing.T) {
	db := open(t)
	put(t, db, "a1", "1")
	put(t, db, "a2", "2")
	put(t, db, "b", "3")
	prefix := make([]byte, 1, 10)
	prefix[0] = 'a'
	it := db.NewIterator(prefix, []byte("2"))
	if prefix[:2][1] != 0 {
		t.Error("NewIterator has written behind the caller's prefix")
	}
	put(t, db, "a3", "later")
	if it.Key() != nil || it.Value() != nil {
		t.Errorf("before Next: %q=%q", it.Key(), it.Value())
	}
	if !it.Next() || string(it.Key()) != "a2" || string(it.Value()) != "2" {
		t.Errorf("%q=%q, want a2=2", it.Key(), it.Value())
	}
	for range 2 {
		if it.Next() || it.Key() != nil || it.Value() != nil || it.Error() != nil {
			t.Errorf("after the end: %q=%q, %v", it.Key(), it.Value(), it.Error())
		}
	}
	it.Release()
	it.Release()
	if it.Next() || it.Key() != nil || db.Metrics().OpenIterators != 0 {
		t.Errorf("after Release: %q, %d iterators are open", it.Key(), db.Metrics().OpenIterators)
	}
	open := db.NewIterator(nil, nil)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	for _, it := range []ethdb.Iterator{open, db.NewIterator(nil, nil)} {
		if it.Next() || !errors.Is(it.Error(), shale.ErrClosed) {
			t.Errorf("an iterator of a closed store: %q, %v", it.Key(), it.Error())
		}
		it.Release()
	}
}

func TestBatch_Sizes(t *testing.T) {
	db := open(t)
	b := db.NewBatchWithSize(1 << 20)
	put(t, b, "key", "value")
	if err := errors.Join(b.Delete([]byte("12")), b.DeleteRange([]byte("a"), []byte("bcd"))); err != nil {
		t.Error(err)
	}
	if n := b.ValueSize(); n != len("key")+len("value")+len("12")+len("abcd") {
		t.Errorf("ValueSize = %d", n)
	}
	if err := b.Put(make([]byte, shale.MaxKeySize+1), nil); !errors.Is(err, shale.ErrKeyTooLarge) || b.ValueSize() != 14 {
		t.Errorf("Put of a long key = %v, ValueSize %d", err, b.ValueSize())
	}
	b.Reset()
	if n := b.ValueSize(); n != 0 {
		t.Errorf("ValueSize = %d after Reset", n)
	}
	if err := b.Write(); err != nil {
		t.Error(err)
	}
	put(t, b, "key", "value")
	if err := errors.Join(b.Write(), b.Write()); err != nil { // go-ethereum may write a batch again
		t.Error(err)
	}
	b.Close()
	b.Close()
	if got := all(t, db.NewIterator(nil, nil)); got != "key=value " {
		t.Errorf("the store has %q", got)
	}
}

// A writer without DeleteRange gets an error that names it, and what comes before the range.
func TestBatch_ReplayWithoutRanges(t *testing.T) {
	db := open(t)
	b := db.NewBatch()
	put(t, b, "k", "v")
	if err := b.DeleteRange([]byte("a"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Replay(struct{ ethdb.KeyValueWriter }{db}); err == nil || !bytes.Contains([]byte(err.Error()), []byte("KeyValueWriter")) {
		t.Errorf("Replay = %v", err)
	}
	if got := all(t, db.NewIterator(nil, nil)); got != "k=v " {
		t.Errorf("the store has %q", got)
	}
}

func TestDatabase_Concurrent(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				b := db.NewBatch()
				put(t, b, fmt.Sprint(g, " ", i), "v")
				put(t, b, fmt.Sprint("x", g, " ", i), "v")
				if err := b.Write(); err != nil {
					t.Error(err)
				}
				if err := db.DeleteRange([]byte(fmt.Sprint("x", g)), []byte(fmt.Sprint("x", g+1))); err != nil {
					t.Error(err)
				}
			}
			n := 0
			for it := db.NewIterator([]byte(fmt.Sprint(g, " ")), nil); ; n++ {
				if !it.Next() {
					it.Release()
					break
				}
			}
			if n != 100 {
				t.Errorf("%d entries, want 100", n)
			}
		})
	}
	wg.Wait()
}
