package bbolt

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// Check finds each kind of wrong structure.
func TestCheck(t *testing.T) {
	numbered := func(number uint64, part byte, rest string) []byte {
		return append(append(appendNumber(nil, number), part), rest...)
	}
	for _, c := range []struct {
		what  string
		spoil func(b *shale.Batch) error
	}{
		{"none of this package", func(b *shale.Batch) error { return b.Put([]byte{9}, nil) }},
		{"none of this package", func(b *shale.Batch) error { return b.Put(numbered(1, 2, "k"), nil) }},
		{"none of this package", func(b *shale.Batch) error { return b.Put(numbered(1, partValues, ""), nil) }},
		{"none of this package", func(b *shale.Batch) error { return b.Put([]byte{2, 0, 1, partValues, 'k'}, nil) }},
		{"bucket 3 is in no bucket", func(b *shale.Batch) error { return b.Put(numbered(3, partValues, "k"), nil) }},
		{"bucket 2 is in buckets 0 and 1", func(b *shale.Batch) error {
			return b.Put(numbered(0, partBuckets, "twice"), header{number: 2}.encode())
		}},
		{"a number that was not given out", func(b *shale.Batch) error {
			return b.Put(numbered(0, partBuckets, "new"), header{number: 3}.encode())
		}},
		{"does not say so", func(b *shale.Batch) error {
			return b.Put(numbered(0, partBuckets, "a"), header{number: 1}.encode())
		}},
		{"bad header", func(b *shale.Batch) error { return b.Put(numbered(0, partBuckets, "bad"), []byte{1}) }},
		{"is in itself", func(b *shale.Batch) error {
			if err := b.Delete(numbered(0, partBuckets, "a")); err != nil {
				return err
			}
			return b.Put(numbered(2, partBuckets, "a"), header{number: 1, parent: true}.encode())
		}},
	} {
		db := mustOpen(t, filepath.Join(t.TempDir(), "db"))
		update(t, db, func(tx *Tx) {
			put(t, create(t, create(t, tx.Cursor().Bucket(), "a"), "b"), "k", "v")
			noErrors(t, tx.Check())
		})
		var b shale.Batch
		if err := c.spoil(&b); err != nil {
			t.Fatal(err)
		}
		if err := db.Store().Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		var all []string
		err := db.View(func(tx *Tx) error {
			for err := range tx.Check() {
				all = append(all, err.Error())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(all, "\n"), c.what) {
			t.Errorf("Check finds %q, want %q", all, c.what)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
