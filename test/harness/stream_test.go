package harness

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
)

// A stream takes a store for right that holds any number of its writes that it may hold, and for wrong
// one that holds fewer, more, or another stream's.
func TestStream_Check(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	opts := DrawOnDisk(1, 1)
	left := NewStream("a", 1, 50)
	for i, closed := range []bool{true, false, true} {
		if err := left.Leave(dir, opts, 100*(i+1), closed); err != nil {
			t.Fatal(err)
		}
	}
	db, err := shale.Open(dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		seed        uint64
		safe, begun int
		right       bool
	}{
		{"a", 1, 300, 300, true}, {"a", 1, 0, 310, true}, {"a", 1, 0, 299, false}, {"a", 1, 301, 310, false}, {"a", 2, 0, 300, false}, {"b", 1, 0, 10, true},
		{"b", 1, 1, 10, false},
	} {
		if err := NewStream(c.name, c.seed, 50).Check(db, c.safe, c.begun); (err == nil) != c.right {
			t.Errorf("stream %+v: %v, right %v", c, err, c.right)
		}
	}
	s := NewStream("a", 1, 50)
	n, err := s.Count(db)
	if err = errors.Join(err, s.Check(db, 0, 400)); err != nil || n != 300 || s.N != 300 {
		t.Errorf("Count = %d, N = %d, %v, want 300", n, s.N, err)
	}
	if err := s.Check(db, 0, 400); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := Close(db); err != nil {
		t.Error(err)
	}
}
