package bbolt

import (
	"bytes"
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/bbolt/errors"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A key of the store, and what is under it, is as the package comment says.
func TestFormat(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	update(t, db, func(tx *Tx) {
		a := create(t, tx.Cursor().Bucket(), "a")
		put(t, a, "k", "v")
		put(t, a, "empty", "")
		b := create(t, a, "b")
		if err := b.SetSequence(300); err != nil {
			t.Fatal(err)
		}
		put(t, b, "x", "y")
	})
	want := `00 = 626f6c74010203
01000061 = 010001
010100` + fmt.Sprintf("%x", "b") + ` = 02ac0200
010101` + fmt.Sprintf("%x", "empty") + ` =
0101016b = 76
01020178 = 79
`
	if got := strings.ReplaceAll(raw(t, db.Store()), "= \n", "=\n"); got != want {
		t.Errorf("the store has\n%swant\n%s", got, want)
	}
	for n, want := range map[uint64]string{0: "0100", 255: "01ff", 256: "020100", 1<<64 - 1: "08ffffffffffffffff"} {
		key := appendNumber(nil, n)
		if got := fmt.Sprintf("%x", key); got != want {
			t.Errorf("number %d is %s, want %s", n, got, want)
		}
		if back, part, rest, ok := cutKey(append(key, partValues, 'k')); back != n || part != partValues || string(rest) != "k" || !ok {
			t.Errorf("number %d comes back as %d, %d, %q, %t", n, back, part, rest, ok)
		}
	}
}

// raw returns the entries of a store.
func raw(t *testing.T, store *shale.DB) string {
	t.Helper()
	var text strings.Builder
	for e, err := range store.Scan(shale.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%x = %x\n", e.Key, e.Value)
	}
	return text.String()
}

func update(t *testing.T, db *DB, fn func(tx *Tx)) {
	t.Helper()
	if err := db.Update(func(tx *Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, in *Bucket, name string) *Bucket {
	t.Helper()
	b, err := in.CreateBucket([]byte(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, b *Bucket, key, value string) {
	t.Helper()
	if err := b.Put([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// A deleted tree of buckets leaves nothing behind, and its range deletes are few.
func TestDeleteBucket_LeavesNothing(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	update(t, db, func(tx *Tx) { put(t, create(t, tx.Cursor().Bucket(), "stays"), "k", "v") })
	before := raw(t, db.Store())
	before = before[strings.Index(before, "\n"):]
	var deep *Bucket
	update(t, db, func(tx *Tx) {
		top := create(t, tx.Cursor().Bucket(), "goes")
		for i := range 300 {
			deep = create(t, create(t, top, fmt.Sprint(i)), "deep")
			put(t, deep, "k", "v")
		}
	})
	update(t, db, func(tx *Tx) {
		top := tx.Bucket([]byte("goes"))
		deep := top.Bucket([]byte("7")).Bucket([]byte("deep"))
		if err := tx.DeleteBucket([]byte("goes")); err != nil {
			t.Fatal(err)
		}
		if err := deep.Put([]byte("k"), nil); err != errors.ErrBucketNotFound {
			t.Errorf("a Put to a deleted bucket gives %v", err)
		}
		if deep.Get([]byte("k")) != nil {
			t.Error("a deleted bucket has keys")
		}
		if k, _ := deep.Cursor().First(); k != nil {
			t.Error("a cursor finds keys of a deleted bucket")
		}
	})
	if after := raw(t, db.Store()); after[strings.Index(after, "\n"):] != before {
		t.Errorf("the store has\n%swant\n%s", after, before)
	}
	if n := db.Store().Metrics().RangeDeletes; n > 1 {
		t.Errorf("601 buckets have left %d range deletes, want one", n)
	}
}

// A cursor goes on from where it stands, whatever has changed.
func TestCursor_GoesOn(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	update(t, db, func(tx *Tx) {
		b := create(t, tx.Cursor().Bucket(), "b")
		for i := range 10 {
			put(t, b, fmt.Sprint(i), "v")
		}
		create(t, b, "55")
	})
	update(t, db, func(tx *Tx) {
		b := tx.Bucket([]byte("b"))
		c := b.Cursor()
		var seen []string
		for k, v := c.First(); k != nil; k, v = c.Next() {
			seen = append(seen, string(k))
			switch {
			case v == nil:
				if err := c.Delete(); err != errors.ErrIncompatibleValue {
					t.Errorf("Delete of a bucket gives %v", err)
				}
			case k[0]%2 == 0:
				if err := c.Delete(); err != nil {
					t.Fatal(err)
				}
			case string(k) == "3":
				put(t, b, "30", "behind")
				put(t, b, "20", "before")
			case string(k) == "7":
				put(t, b, "70", "behind")
				if err := c.Delete(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := strings.Join(seen, " "); got != "0 1 2 3 30 4 5 55 6 7 70 8 9" {
			t.Errorf("Next and Delete show %s", got)
		}
		seen = nil
		for k, _ := c.Last(); k != nil; k, _ = c.Prev() {
			seen = append(seen, string(k))
			if string(k) == "5" {
				if err := c.Delete(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := strings.Join(seen, " "); got != "9 70 55 5 30 3 20 1" {
			t.Errorf("Prev shows %s", got)
		}
		c.Seek([]byte("70"))
		if err := c.Delete(); err != nil {
			t.Fatal(err)
		}
		if k, _ := c.Prev(); string(k) != "55" {
			t.Errorf("before what was deleted is %s", k)
		}
		if k, _ := c.Next(); string(k) != "9" {
			t.Errorf("behind it is %s: what was deleted is there again", k)
		}
	})
}

// Any number of cursors may go on at the same time, in any number of goroutines of a transaction that reads.
func TestCursor_Many(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	update(t, db, func(tx *Tx) {
		b := create(t, tx.Cursor().Bucket(), "b")
		for i := range 100 {
			put(t, b, fmt.Sprintf("%02d", i), fmt.Sprint("value", i))
		}
		create(t, b, "bucket")
	})
	err := db.View(func(tx *Tx) error {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				b := tx.Bucket([]byte("b"))
				var cursors [60]*Cursor
				for i := range cursors {
					cursors[i] = b.Cursor()
					cursors[i].First()
				}
				for i := 1; i < 100; i++ {
					for _, c := range cursors {
						if k, v := c.Next(); string(k) != fmt.Sprintf("%02d", i) || string(v) != fmt.Sprint("value", i) {
							t.Errorf("key %d is %s, with %s", i, k, v)
							return
						}
					}
				}
			})
		}
		all.Wait()
		if n := db.Store().Metrics().OpenIterators; n > 2*maxOpen {
			t.Errorf("%d iterators are open, want %d at most", n, 2*maxOpen)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := db.Store().Metrics().OpenIterators; n != 0 {
		t.Errorf("%d iterators have outlived the transaction", n)
	}
}

// A read that fails never looks like one that found nothing: Update and View return its error, also from Get.
func TestRead_Damage(t *testing.T) {
	mem := vfs.NewMem()
	options := &Options{Store: &shale.Options{FS: mem, CacheSize: -1, Logger: quiet}}
	db, err := Open("/db", 0, options)
	if err != nil {
		t.Fatal(err)
	}
	update(t, db, func(tx *Tx) {
		b := create(t, tx.Cursor().Bucket(), "b")
		for i := range 2000 {
			put(t, b, fmt.Sprintf("%04d", i), strings.Repeat(fmt.Sprint(i), 20))
		}
	})
	if err := db.Store().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	damage(t, mem)
	calls := map[string]func(b *Bucket){
		"Get":     func(b *Bucket) { b.Get([]byte("1000")) },
		"Cursor":  func(b *Bucket) { b.Cursor().Seek([]byte("1000")) },
		"ForEach": func(b *Bucket) { _ = b.ForEach(func(k, v []byte) error { return nil }) },
		"caught": func(b *Bucket) {
			defer func() { _ = recover() }()
			b.Get([]byte("1000"))
		},
	}
	for name, call := range calls {
		var damaged *shale.CorruptionError
		for method, run := range map[string]func(func(*Tx) error) error{"View": db.View, "Update": db.Update, "Batch": db.Batch} {
			err := run(func(tx *Tx) error { call(tx.Bucket([]byte("b"))); return nil })
			if !stderrors.As(err, &damaged) {
				t.Errorf("%s in %s: the error is %v, want the damage", name, method, err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// damage changes a byte in the middle of each table.
func damage(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := fs.OpenReadWrite("/db/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		for at := size / 4; at < size/2; at += 100 {
			if _, err := f.WriteAt([]byte("damage"), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A writer waits for the one before, Close for all, and after that nothing begins.
func TestClose_Waits(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	reader, err := db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	if _, err := writer.CreateBucket([]byte("b")); err != nil {
		t.Fatal(err)
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait for a transaction that reads: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	if reader.Bucket([]byte("b")) != nil {
		t.Error("a transaction sees what was committed after its beginning")
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for _, writable := range []bool{false, true} {
		if _, err := db.Begin(writable); err != errors.ErrDatabaseNotOpen {
			t.Errorf("Begin(%t) after Close gives %v", writable, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second Close gives %v", err)
	}
}

// Open says why it can't open a path, by bbolt's errors.
func TestOpen_Refuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	db := mustOpen(t, path)
	if _, err := Open(path, 0o600, &Options{Timeout: time.Millisecond}); err != errors.ErrTimeout {
		t.Errorf("a store that is open elsewhere gives %v, want ErrTimeout", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	file := filepath.Join(dir, "file")
	theirs, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := shale.Open(filepath.Join(dir, "other"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := stderrors.Join(other.Put([]byte("k"), nil), other.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		options *Options
		want    error
		says    string
	}{
		{file, nil, errors.ErrInvalid, "bolt-import"},
		{filepath.Join(dir, "other"), nil, errors.ErrInvalid, "none of this package"},
		{filepath.Join(dir, "no", "parent"), nil, fs.ErrNotExist, ""},
		{filepath.Join(dir, "absent"), &Options{ReadOnly: true}, fs.ErrNotExist, ""},
		{path, &Options{MaxSize: 1}, ErrNotSupported, "MaxSize"},
		{path, &Options{OpenFile: os.OpenFile}, ErrNotSupported, "OpenFile"},
	} {
		if _, err := Open(c.path, 0o600, c.options); !stderrors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%s, %v) gives %v, want %v that says %q", c.path, c.options, err, c.want, c.says)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(empty, 0o600, &Options{ReadOnly: true}); !stderrors.Is(err, errors.ErrInvalid) {
		t.Errorf("an empty file that is opened with ReadOnly gives %v", err)
	}
	if err := mustOpen(t, empty).Close(); err != nil { // to bbolt it is a new database
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !stderrors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open has left a directory behind: %v", err)
	}
}

// What can't be done says so, and names another way.
func TestNotSupported(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	err := db.View(func(tx *Tx) error {
		if err := tx.Copy(new(bytes.Buffer)); !stderrors.Is(err, ErrNotSupported) {
			t.Errorf("Copy gives %v", err)
		}
		_, err := tx.WriteTo(new(bytes.Buffer))
		return err
	})
	if !stderrors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "Tx.CopyFile") {
		t.Errorf("WriteTo gives %v", err)
	}
}
