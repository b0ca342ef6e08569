package shale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// partOf returns the keys that begin with prefix, without it.
func partOf(keys []string, prefix string) (part []string) {
	for _, key := range keys {
		if key, ok := strings.CutPrefix(key, prefix); ok {
			part = append(part, key)
		}
	}
	return part
}

// wantJust checks that a reader, which is the part with a prefix of a store, has just the keys want of all, in every way to ask.
// The value of each is the whole key.
func wantJust(t *testing.T, what string, r Reader, prefix string, all, want []string) {
	t.Helper()
	all, want = partOf(all, prefix), partOf(want, prefix)
	has := func(key string) bool { return slices.Contains(want, key) }
	keys := make([][]byte, len(all))
	for i, key := range all {
		keys[i] = []byte(key)
		if v, err := r.Get(keys[i]); (err == nil) != has(key) || err == nil && string(v) != prefix+key {
			t.Errorf("%s: Get(%.20q) = %.20q, %v; want %v", what, key, v, err, has(key))
		}
	}
	many := r.(interface {
		GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	})
	err := many.GetMany(keys, func(i int, v []byte, found bool) error {
		if found != has(all[i]) || found && string(v) != prefix+all[i] {
			t.Errorf("%s: GetMany gives %.20q, %v for %.20q", what, v, found, all[i])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	it := r.NewIterator(Range{})
	defer it.Close()
	var there []string
	for it.Next() {
		there = append(there, string(it.Key()))
	}
	if !slices.Equal(there, want) {
		t.Errorf("%s: the keys are %.20q, want %.20q", what, there, want)
	}
	for it.Prev() {
		there = there[:max(len(there)-1, 0)]
	}
	if len(there) > 0 {
		t.Errorf("%s: backward %.20q are missing", what, there)
	}
	for _, key := range all {
		at, _ := slices.BinarySearch(want, key)
		if ok := it.SeekGE([]byte(key)); ok != (at < len(want)) || ok && string(it.Key()) != want[at] {
			t.Errorf("%s: SeekGE(%.20q) stands on %.20q, %v; want number %d of %.20q", what, key, it.Key(), ok, at, want)
		}
		if ok := it.SeekLT([]byte(key)); ok != (at > 0) || ok && string(it.Key()) != want[at-1] {
			t.Errorf("%s: SeekLT(%.20q) stands on %.20q, %v; want the one before number %d of %.20q", what, key, it.Key(), ok, at, want)
		}
		for _, rng := range []Range{{Lower: []byte(key)}, {Upper: []byte(key)}, {Lower: []byte(key), Reverse: true}, {Upper: []byte(key), Reverse: true}} {
			part := want[at:]
			if rng.Lower == nil {
				part = want[:at]
			}
			if part = slices.Clone(part); rng.Reverse {
				slices.Reverse(part)
			}
			var got []string
			for e, err := range r.Scan(rng) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, string(e.Key))
			}
			if !slices.Equal(got, part) {
				t.Errorf("%s: Scan(%.20q, %.20q, %v) = %.20q, want %.20q", what, rng.Lower, rng.Upper, rng.Reverse, got, part)
			}
		}
	}
}

// Bounds that are nil, empty, the wrong way round or of 0xff bytes, behind which there may be no key, over keys of 0xff bytes:
// by every Writer, for every Reader, in the memtable and in tables, and after opening.
func TestDeleteRange_EndOfTheKeys(t *testing.T) {
	testenv.SkipRace(t)
	long := strings.Repeat("\xff", 300)
	all := []string{"", "\x00", "\xfe", "\xfe\xff\xff", "\xff", "\xff\x00", "\xff\xfe", "\xff\xff", "\xff\xff\x00", "\xff\xff\xfe\xff", "\xff\xff\xff", "\xff\xff\xff\xff\x00", long, long + "\xff"}
	bounds := [][]byte{nil, {}, []byte("\xfe\xff"), []byte("\xff"), []byte("\xff\x00"), []byte("\xff\xff"), []byte("\xff\xff\xff"), []byte(long), []byte(long + "\xff")}
	const prefix, below = "\xff\xff", "\xfe" // of parts that end with the keys, and before
	without := func(prefix string, lower, upper []byte) []string {
		return slices.DeleteFunc(slices.Clone(all), func(key string) bool {
			key, within := strings.CutPrefix(key, prefix)
			return within && key >= string(lower) && (upper == nil || key < string(upper))
		})
	}
	for name, c := range map[string]struct {
		prefix string
		delete func(db *DB, lower, upper []byte) error
	}{
		"DB": {"", func(db *DB, lower, upper []byte) error { return db.DeleteRange(lower, upper) }},
		"Batch": {"", func(db *DB, lower, upper []byte) error {
			var b Batch
			if err := b.DeleteRange(lower, upper); err != nil {
				return err
			}
			return db.Write(context.Background(), &b)
		}},
		"Txn": {"", func(db *DB, lower, upper []byte) error {
			return db.Update(t.Context(), func(tx *Txn) error {
				if err := tx.DeleteRange(lower, upper); err != nil {
					return err
				}
				wantJust(t, "inside", tx, "", all, without("", lower, upper))
				return nil
			})
		}},
		"Sub": {prefix, func(db *DB, lower, upper []byte) error { return db.Sub(prefix).DeleteRange(lower, upper) }},
		"Batch.Sub": {below, func(db *DB, lower, upper []byte) error {
			var b Batch
			if err := b.Sub(below).DeleteRange(lower, upper); err != nil {
				return err
			}
			return db.Write(context.Background(), &b)
		}},
		"Txn.Sub": {prefix, func(db *DB, lower, upper []byte) error {
			return db.Update(t.Context(), func(tx *Txn) error { return tx.Sub(prefix).DeleteRange(lower, upper) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, lower := range bounds {
				for j, upper := range bounds {
					what := fmt.Sprintf("%.20q to %.20q, ", lower, upper)
					o := byHand(vfs.NewMem())
					db := mustOpen(t, "db", o)
					for _, key := range all {
						mustPut(t, db, key, key)
					}
					if (i+j)%2 == 0 { // for the others, keys and range delete lie in one memtable
						mustFlush(t, db)
					}
					if err := c.delete(db, lower, upper); err != nil {
						t.Fatal(err)
					}
					want := without(c.prefix, lower, upper)
					check := func(when string) {
						t.Helper()
						wantJust(t, what+when, db, "", all, want)
						for _, prefix := range []string{prefix, below} {
							wantJust(t, what+when+", Sub", db.Sub(prefix), prefix, all, want)
						}
					}
					check("in the memtable")
					mustFlush(t, db)
					check("flushed")
					compactBackground(t, db)
					check("dropped")
					closeTest(t, db)
					db = mustOpen(t, "db", o)
					check("opened")
					closeTest(t, db)
					if t.Failed() {
						return
					}
				}
			}
		})
	}
}
