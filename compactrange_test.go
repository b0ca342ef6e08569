package shale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// groups writes a table of level 0 for each letter, twice.
func groups(t *testing.T, letters string) *DB {
	t.Helper()
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for round := range 2 {
		for _, l := range letters {
			for i := range 50 {
				mustPut(t, db, fmt.Sprintf("%c%03d", l, i), fmt.Sprint(round))
			}
			mustFlush(t, db)
		}
	}
	return db
}

// shape tells for each letter in which levels its tables are.
func shape(db *DB) string {
	levels := make(map[byte]string)
	for _, info := range db.Tables() {
		for l := info.Smallest[0]; l <= info.Largest[0]; l++ {
			levels[l] += fmt.Sprint(info.Level)
		}
	}
	var s []string
	for l := byte('a'); l <= 'z'; l++ {
		if levels[l] != "" {
			s = append(s, string(l)+levels[l])
		}
	}
	return strings.Join(s, " ")
}

// What overlaps the range goes to the last level, what does not stays.
func TestCompact_Range(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Range
		want string
	}{
		{"all", Range{}, "a6 b6 c6 d6"},
		{"one group", Prefix("b"), "a00 b6 c00 d00"},
		{"one key", Range{Lower: []byte("c010"), Upper: []byte("c010\x00")}, "a00 b00 c6 d00"},
		{"from a key on", Range{Lower: []byte("c040")}, "a00 b00 c6 d6"},
		{"up to a key", Range{Upper: []byte("b000")}, "a6 b00 c00 d00"},
		{"between the keys", Range{Lower: []byte("b9"), Upper: []byte("bz")}, "a00 b00 c00 d00"},
		{"beyond all", Range{Lower: []byte("e")}, "a00 b00 c00 d00"},
		{"no key", Range{Upper: []byte{}}, "a00 b00 c00 d00"},
		{"bounds the wrong way", Range{Lower: []byte("d"), Upper: []byte("a")}, "a00 b00 c00 d00"},
	} {
		db := groups(t, "abcd")
		for range 2 { // the second has nothing to do
			if err := db.Compact(t.Context(), c.r); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if got := shape(db); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		for _, l := range "abcd" {
			wantGet(t, db, string(l)+"049", "1", true)
			wantGet(t, db, string(l)+"050", "", false)
		}
	}
}

// The memtable takes part, and a deletion takes itself away.
func TestCompact_Memtable(t *testing.T) {
	db := groups(t, "ab")
	for i := range 50 {
		mustDelete(t, db, fmt.Sprintf("a%03d", i))
	}
	if err := db.Compact(t.Context(), Prefix("a")); err != nil {
		t.Fatal(err)
	}
	if got := shape(db); got != "b00" {
		t.Errorf("after a compaction of what was deleted: %s, want b00", got)
	}
	if got := scanAll(t, db, Prefix("a")); got != "" {
		t.Errorf("Scan: %s", got)
	}
}

func TestCompact_Cancelled(t *testing.T) {
	db := groups(t, "ab")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Compact(ctx, Range{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Compact: %v, want %v", err, context.Canceled)
	}
	mustPut(t, db, "c", "1")
	if err := db.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) { // it may be done before it is waited for
		t.Errorf("Flush: %v, want %v", err, context.Canceled)
	}
	if err := db.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify: %v, want %v", err, context.Canceled)
	}
	wantGet(t, db, "a000", "1", true)
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Error(err)
	}
	if got := shape(db); got != "a6 b6 c6" {
		t.Errorf("%s, want a6 b6 c6", got)
	}
}
