package shale

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
)

func TestGetMany(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	keys := [][]byte{[]byte("key000010"), []byte("nope"), []byte("key000010"), []byte("key002999"), []byte(""), []byte("key000000")}
	next := 0
	err := db.GetMany(keys, func(i int, value []byte, found bool) error {
		if i != next {
			t.Errorf("fn got index %d, want %d", i, next)
		}
		next++
		want, err := db.Get(keys[i])
		if found != (err == nil) || !bytes.Equal(value, want) || (!found && value != nil) {
			t.Errorf("GetMany %q = %q, %v; Get = %q, %v", keys[i], value, found, want, err)
		}
		return nil
	})
	if err != nil || next != len(keys) {
		t.Errorf("GetMany: %v after %d keys", err, next)
	}
	boom := errors.New("boom")
	if err := db.GetMany(keys, func(int, []byte, bool) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("GetMany = %v, want fn's error", err)
	}
}

// A value of no bytes is not nil, whatever the buffers in the pool have seen.
func TestGetMany_EmptyValue(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "k", "")
	for range 2 {
		runtime.GC() // the second one empties the pool
	}
	err := db.GetMany([][]byte{[]byte("k")}, func(_ int, value []byte, found bool) error {
		if value == nil || !found {
			t.Errorf("GetMany = %v, %v; want a slice that is empty and not nil", value, found)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
