package shale

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// covers reports whether the footprint has key among what was read.
func (f *Footprint) covers(key []byte) bool {
	return slices.ContainsFunc(f.Keys, func(k []byte) bool { return bytes.Equal(k, key) }) ||
		slices.ContainsFunc(f.Ranges, func(r Range) bool {
			return bytes.Compare(key, r.Lower) >= 0 && (r.Upper == nil || bytes.Compare(key, r.Upper) < 0)
		})
}

// checkFootprint compares the footprint of a transaction with what it has read and written. TestTxn_Model calls it for each.
func (w *txnWorld) checkFootprint(p *txnPair) {
	w.t.Helper()
	f, err := FootprintOf(p.tx)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range txnKeys {
		k := fmt.Sprintf("k%02d", i)
		if f.covers(w.stored(k)) != p.read[k] {
			w.t.Fatalf("%s was read: %v; the footprint: %q, %+v", k, p.read[k], f.Keys, f.Ranges)
		}
		value, err := f.Before.Get(w.stored(k))
		if err != nil && err != ErrNotFound {
			w.t.Fatal(err)
		}
		if _, own := p.wrote[k]; !own && string(value) != p.state[k] {
			w.t.Fatalf("%s was %q before, want %q", k, value, p.state[k])
		}
	}
	wrote := map[string]string{}
	for op := range f.Writes.Ops() {
		wrote[string(op.Key)] = string(op.Value)
	}
	if len(wrote) != len(p.wrote) {
		w.t.Fatalf("writes %v, want %v", wrote, p.wrote)
	}
	for k, v := range p.wrote {
		if got, ok := wrote[string(w.stored(k))]; !ok || got != v {
			w.t.Fatalf("writes %v, want %v", wrote, p.wrote)
		}
	}
}

// A footprint in the middle of a scan has the scan up to there, and forgets nothing that follows.
func TestFootprint_Scan(t *testing.T) {
	db := openTest(t, nil)
	for _, k := range []string{"a", "b", "c", "d"} {
		mustPut(t, db, k, "old")
	}
	tx := mustBegin(t, db)
	defer tx.Discard()
	covered := func() (keys string) {
		t.Helper()
		f, err := FootprintOf(tx)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"0", "a", "a!", "b", "c", "d", "e"} {
			if f.covers([]byte(k)) {
				keys += k
			}
		}
		return keys
	}
	it := tx.NewIterator(Range{Lower: []byte("a")})
	defer it.Close()
	for _, want := range []string{"a", "aa!b", "aa!bc"} {
		if !it.Next() {
			t.Fatal(it.Err())
		}
		if got := covered(); got != want {
			t.Errorf("a scan that stands on %q has read %q, want %q", it.Key(), got, want)
		}
	}
	for it.Next() {
	}
	if got := covered(); got != "aa!bcde" {
		t.Errorf("a whole scan has read %q", got)
	}
	if err := tx.Put([]byte("a"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	f, err := FootprintOf(tx)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Before.Get([]byte("a")); err != nil || string(v) != "old" {
		t.Errorf("before the write it was %q, %v", v, err)
	}
	tx.Discard()
	if _, err := FootprintOf(tx); err != ErrTxnDone {
		t.Errorf("of a transaction that has ended: %v", err)
	}
	err = db.View(func(tx *Txn) error {
		f, err := FootprintOf(tx)
		if err != nil || f.Writes.Len() > 0 || f.Keys != nil || f.Ranges != nil {
			t.Errorf("of one that can't write: %+v, %v", f, err)
		}
		return errors.Join(tx.Put(nil, nil), err)
	})
	if !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}
