package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	bbolt "github.com/shaledb/shale/integrations/bolt"
)

// What is imported is what was there, and nothing is overwritten.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "file"), filepath.Join(dir, "store")
	if err := run(file, store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
	from, err := bolt.Open(file, 0o640, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = from.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("users"))
		if err != nil {
			return err
		}
		if _, err := b.CreateBucket([]byte("nested")); err != nil {
			return err
		}
		return errors.Join(b.SetSequence(7), b.Put([]byte("ann"), []byte("1")))
	})
	if err := errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	if err := run(file, store); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(store, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("users"))
		if string(b.Get([]byte("ann"))) != "1" || b.Sequence() != 7 || b.Bucket([]byte("nested")) == nil {
			t.Errorf("the store has %v", tx.Inspect())
		}
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := run(file, store); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), store) {
		t.Errorf("a store that is there gives %v", err)
	}
}
