package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Programs of the harness run in parts of a store as in the whole (test/metamorphic). These tests have what they lack.

// Bounds of any kind, and moves beyond them, stay within the prefix: in the store, a snapshot and a transaction.
func TestSub_Bounds(t *testing.T) {
	all := []string{"", "a", "a-", "a.\xff\xff", "a/", "a/\x00", "a/a/", "a/a/a/", "a/\xff", "a0", "\xff", "\xff\xfe\xff", "\xff\xff", "\xff\xff\x00", "\xff\xffa/", "\xff\xff\xff\xff"}
	db := openTest(t, nil)
	for i, key := range all {
		mustPut(t, db, key, key)
		if i == len(all)/2 {
			mustFlush(t, db)
		}
	}
	bounds := [][]byte{nil, {}, {0}, []byte("a/"), []byte("a/\x00"), []byte("b"), {0xff}, {0xff, 0xff}, {0xff, 0xff, 0xff}}
	check := func(what, prefix string, r Reader) {
		for _, lower := range bounds {
			for _, upper := range bounds {
				var want []string
				for _, key := range all {
					if k, ok := bytes.CutPrefix([]byte(key), []byte(prefix)); ok && bytes.Compare(k, lower) >= 0 && (upper == nil || bytes.Compare(k, upper) < 0) {
						want = append(want, string(k))
					}
				}
				for _, reverse := range []bool{false, true} {
					var got []string
					for e, err := range r.Scan(Range{Lower: lower, Upper: upper, Reverse: reverse}) {
						if err != nil || string(e.Value) != prefix+string(e.Key) {
							t.Fatalf("%s: %q = %q, %v", what, e.Key, e.Value, err)
						}
						got = append(got, string(e.Key))
					}
					if reverse {
						slices.Reverse(got)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s: Scan from %q to %q (reverse %v) = %q, want %q", what, lower, upper, reverse, got, want)
					}
				}
				it := r.NewIterator(Range{Lower: lower, Upper: upper})
				for _, to := range bounds {
					i := slices.IndexFunc(want, func(k string) bool { return k >= string(to) })
					if it.SeekGE(to) != (i >= 0) || i >= 0 && string(it.Key()) != want[i] {
						t.Errorf("%s: SeekGE(%q) from %q to %q is at %q, want %d of %q", what, to, lower, upper, it.Key(), i, want)
					}
				}
				_ = it.Close()
			}
		}
	}
	snap, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for _, prefix := range []string{"", "a/", "\xff\xff"} {
		check(fmt.Sprintf("Sub(%q)", prefix), prefix, db.Sub(prefix))
		check(fmt.Sprintf("Snapshot.Sub(%q)", prefix), prefix, snap.Sub(prefix))
		check(fmt.Sprintf("Sub of Sub(%q)", prefix), prefix, db.Sub("").Sub(prefix).Sub(""))
		check(fmt.Sprintf("Sub in Sub(%q)", prefix), prefix+"a/", db.Sub(prefix).Sub("a/"))
		if err := db.View(func(tx *Txn) error {
			check(fmt.Sprintf("Txn.Sub(%q)", prefix), prefix, tx.Sub(prefix))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// GetMany and PutIfAbsent do in each kind of Sub what they do in what it is a part of.
func TestSub_ManyAndAbsent(t *testing.T) {
	db := openTest(t, nil)
	mustPut(t, db, "a", "outside")
	mustPut(t, db, "a/k", "v")
	many := func(s *Sub) (answer string, err error) {
		err = s.GetMany([][]byte{[]byte("k"), []byte("a"), []byte(""), []byte("new")}, func(i int, value []byte, found bool) error {
			answer += fmt.Sprintf("%d %q %v,", i, value, found)
			return nil
		})
		return answer, err
	}
	const before, after = `0 "v" true,1 "" false,2 "" false,3 "" false,`, `0 "v" true,1 "" false,2 "" false,3 "n" true,`
	snap, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	put := func(s *Sub) (string, error) {
		old, oldErr := s.PutIfAbsent([]byte("k"), []byte("never"))
		inserted, err := s.PutIfAbsent([]byte("new"), []byte("n"))
		return fmt.Sprint(old, inserted), errors.Join(oldErr, err)
	}
	err = db.Update(context.Background(), func(tx *Txn) error {
		s := tx.Sub("a/")
		if got, err := many(s); got != before || err != nil {
			t.Errorf("GetMany in a transaction = %s, %v", got, err)
		}
		if got, err := put(s); got != "false true" || err != nil {
			t.Errorf("PutIfAbsent in a transaction: %s, %v", got, err)
		}
		if got, err := many(s); got != after || err != nil {
			t.Errorf("GetMany behind it = %s, %v", got, err)
		}
		return errors.New("discard it")
	})
	if err == nil {
		t.Error("Update succeeds")
	}
	if got, err := put(db.Sub("a/")); got != "false true" || err != nil {
		t.Errorf("PutIfAbsent: %s, %v", got, err)
	}
	if got, err := many(db.Sub("a/")); got != after || err != nil {
		t.Errorf("GetMany = %s, %v", got, err)
	}
	s := snap.Sub("a/")
	if got, err := many(s); got != before || err != nil {
		t.Errorf("GetMany of a snapshot = %s, %v", got, err)
	}
	for what, err := range map[string]error{
		"Put": s.Put([]byte("k"), nil), "Delete": s.Delete([]byte("k")),
		"PutIfAbsent":              second(s.PutIfAbsent([]byte("k"), nil)),
		"PutIfAbsent of an absent": second(s.PutIfAbsent([]byte("x"), nil)),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s in a snapshot = %v", what, err)
		}
	}
	long := bytes.Repeat([]byte("k"), MaxKeySize-1)
	for what, err := range map[string]error{
		"Put": db.Sub("a/").Put(long, nil), "PutIfAbsent": second(db.Sub("a/").PutIfAbsent(long, nil)), "Batch.Sub": new(Batch).Sub("a/").Put(long, nil),
	} {
		if !errors.Is(err, ErrKeyTooLarge) {
			t.Errorf("%s of a key that its prefix makes too long = %v", what, err)
		}
	}
	if _, is := new(Batch).Sub("a/").(Reader); is {
		t.Error("Batch.Sub returns a Reader")
	}
	own := errors.New("enough")
	for _, s := range []*Sub{db.Sub("a/"), s} {
		n := 0
		if err := s.GetMany([][]byte{[]byte("k"), []byte("k")}, func(int, []byte, bool) error { n++; return own }); err != own || n != 1 {
			t.Errorf("GetMany = %v after %d calls of a function that refuses", err, n)
		}
	}
}
