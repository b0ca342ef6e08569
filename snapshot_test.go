package shale

import (
	"context"
	"errors"
	"testing"
)

func TestSnapshot(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "old")
	mustPut(t, db, "gone", "here")
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "a", "new")
	mustPut(t, db, "b", "later")
	mustDelete(t, db, "gone")
	for _, step := range []func(){
		func() {},
		func() { mustFlush(t, db) },
		func() {
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		step()
		wantGet(t, s, "a", "old", true)
		wantGet(t, s, "gone", "here", true)
		wantGet(t, s, "b", "", false)
		wantGet(t, db, "a", "new", true)
		wantGet(t, db, "gone", "", false)
		if got, want := scanAll(t, s, Range{}), "a=old gone=here"; got != want {
			t.Errorf("Scan of the snapshot = %q, want %q", got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get([]byte("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v, want ErrClosed", err)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	var entries uint64
	for _, table := range db.Tables() {
		entries += table.Entries
	}
	if entries != 2 {
		t.Errorf("%d entries after the snapshot is gone, want 2", entries)
	}
}
