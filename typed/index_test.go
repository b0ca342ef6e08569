package typed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// Map and indexes agree whatever transactions come between each other, with a Build next to them, and a loop over an index
// shows one state. In the end, the indexes are what Build makes of the map.
func TestIndex_Interleaved(t *testing.T) {
	for _, prefix := range []string{"-", "", "a/", "\xff\xff"} {
		t.Run(fmt.Sprintf("%q", prefix), func(t *testing.T) { interleave(t, prefix, testenv.Seed(t)) })
	}
}

// A part is a Sub, or all.
type part interface {
	shale.Reader
	shale.Writer
}

func interleave(t *testing.T, prefix string, seed uint64) {
	db := open(t)
	u := newUsers("users")
	in := func(tx *shale.Txn) part {
		if prefix == "-" {
			return tx
		}
		return tx.Sub(prefix)
	}
	var reader shale.Reader = db
	if prefix != "-" {
		reader = db.Sub(prefix)
	}
	steps := 300
	if testing.Short() {
		steps = 60
	}
	var committed, refused, found, notBuilt atomic.Int64
	var writers, loops sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for i := range steps {
				if n == 0 && i%20 == 19 {
					build(t, db, u, in)
				}
				if writeSome(t, db, u, in, r) {
					committed.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	stop := make(chan bool)
	loops.Go(func() {
		r := rand.New(rand.NewPCG(seed, 10))
		for last := false; !last; {
			last = closed(stop) // and once more behind the last write
			email := ""
			for f, err := range u.email.Scan(reader, Range[string]{Reverse: r.IntN(2) == 0}) {
				if errors.Is(err, ErrNotBuilt) {
					notBuilt.Add(1)
					break
				}
				if err != nil || f.Value.Email != f.By || email == f.By {
					t.Errorf("found %+v, %v, after %q", f, err, email)
				}
				email = f.By
				found.Add(1)
			}
			if err := u.Check(t.Context(), reader); err != nil && !errors.Is(err, ErrNotBuilt) {
				t.Errorf("Check = %v", err)
			}
		}
	})
	writers.Wait()
	close(stop)
	loops.Wait()
	if committed.Load() == 0 || refused.Load() == 0 || found.Load() == 0 {
		t.Errorf("committed %d, refused %d, found %d, not built %d", committed.Load(), refused.Load(), found.Load(), notBuilt.Load())
	}
	if err := u.Check(t.Context(), reader); err != nil {
		t.Error(err)
	}
	before := dump(t, db)
	build(t, db, u, in)
	if after := dump(t, db); after != before {
		t.Errorf("the store has\n%safter another Build\n%s", before, after)
	}
	for line := range strings.Lines(before) {
		if prefix != "-" && !strings.HasPrefix(line, strings.TrimSuffix(fmt.Sprintf("%q", prefix), `"`)) {
			t.Errorf("%s lies outside of the Sub", line)
		}
	}
}

func closed(c chan bool) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// writeSome changes some users in a transaction, and reports whether all changes were allowed. A change that is refused
// leaves no trace in a transaction that is committed all the same.
func writeSome(t *testing.T, db *shale.DB, u users, in func(*shale.Txn) part, r *rand.Rand) (all bool) {
	seed := r.Uint64()
	update(t, db, func(tx *shale.Txn) error {
		r := rand.New(rand.NewPCG(seed, 0)) // a second try does the same
		w := in(tx)
		all = true
		for range 1 + r.IntN(4) {
			id := r.Uint64N(20)
			if r.IntN(4) == 0 {
				if err := u.Delete(w, id); err != nil {
					return err
				}
				continue
			}
			of, err := u.Get(w, id)
			if err != nil && err != shale.ErrNotFound {
				return err
			}
			if r.IntN(2) == 0 {
				of.Email = fmt.Sprint("e", r.IntN(15))
			}
			if err == shale.ErrNotFound {
				of.Email = fmt.Sprint("e", r.IntN(15))
			}
			of.City = fmt.Sprint("c", r.IntN(3))
			of.Tags = append(slices.Clone(of.Tags), fmt.Sprint("t", r.IntN(3)))[:r.IntN(len(of.Tags)+2)]
			err = u.Put(w, id, of)
			if errors.Is(err, ErrNotUnique) || errors.Is(err, ErrNotBuilt) {
				all = false
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

// build makes the indexes again, step by step.
func build(t *testing.T, db *shale.DB, u users, in func(*shale.Txn) part) {
	t.Helper()
	update(t, db, func(tx *shale.Txn) error { return u.Reset(in(tx)) })
	for done := false; !done; {
		update(t, db, func(tx *shale.Txn) (err error) { done, err = u.BuildStep(in(tx)); return err })
	}
}

func TestIndex_Get(t *testing.T) {
	db := open(t)
	u := newUsers("u")
	if _, _, err := u.city.Get(db, "Rome"); err != shale.ErrNotFound {
		t.Errorf("in an empty store: %v", err)
	}
	update(t, db, func(tx *shale.Txn) error {
		return errors.Join(u.Put(tx, 2, user{"b", "Rome", nil}), u.Put(tx, 1, user{"a", "Rome", nil}), u.Put(tx, 3, user{"", "Rom", nil}))
	})
	if k, v, err := u.city.Get(db, "Rome"); k != 1 || v.Email != "a" || err != nil {
		t.Errorf("Get = %d, %v, %v", k, v, err)
	}
	if _, _, err := u.city.Get(db, "Ro"); err != shale.ErrNotFound {
		t.Errorf("Get = %v", err)
	}
	if _, _, err := u.tag.Get(db, ""); err != shale.ErrNotFound {
		t.Errorf("Get = %v", err)
	}
}

// Refused is what is no transaction, a second entry of a unique index, and a value that no index can store; and nothing
// was changed then, for the other indexes neither.
func TestIndex_Refused(t *testing.T) {
	db := open(t)
	m := NewMap("m", Uint64, AsValue(Tuple2(String, Tuple2(String, Float64))))
	type value = Pair[string, Pair[string, float64]]
	NewIndex(m, "a", String, func(v value) string { return v.First })
	NewIndex(m, "b", String, func(v value) string { return v.Second.First }).Unique()
	floats := JSON[string]()
	n := NewMap("n", Float64, floats)
	byLen := NewIndex(n, "len", Float64, func(s string) float64 {
		zero := 0.0
		return float64(len(s)) / zero // NaN for the empty string
	})
	first := value{"x", Pair[string, float64]{"y", 0}}
	update(t, db, func(tx *shale.Txn) error { return errors.Join(m.Put(tx, 1, first), n.Put(tx, 1, "a")) })
	before := dump(t, db)
	update(t, db, func(tx *shale.Txn) error {
		second := value{"other", first.Second}
		if err := m.Put(tx, 2, second); !errors.Is(err, ErrNotUnique) || !strings.HasPrefix(err.Error(), `typed: map "m", key 2: `) ||
			!strings.HasSuffix(err.Error(), `": key 1 has it`) {
			t.Errorf("Put = %v", err)
		}
		zero := 0.0
		if err := n.Put(tx, zero/zero, "a"); err == nil {
			t.Error("NaN is a key")
		}
		if err := n.Put(tx, 1, ""); err == nil || !strings.Contains(err.Error(), `map "n", key 1: index "len"`) {
			t.Errorf("Put of a value with NaN = %v", err)
		}
		long := value{strings.Repeat("x", shale.MaxKeySize), first.Second}
		if err := m.Put(tx, 1, long); !errors.Is(err, shale.ErrKeyTooLarge) {
			t.Errorf("Put of a value that is too long for an index = %v", err)
		}
		if _, err := all(byLen.Scan(tx, Only(zero/zero))); err == nil {
			t.Error("a range with NaN")
		}
		return nil
	})
	var batch shale.Batch
	for name, w := range map[string]shale.Writer{"DB": db, "Sub": db.Sub(""), "Batch": &batch, "Batch.Sub": batch.Sub("")} {
		if err := m.Put(w, 1, first); !errors.Is(err, ErrNoTxn) {
			t.Errorf("%s: Put = %v", name, err)
		}
		if err := m.Delete(w, 1); !errors.Is(err, ErrNoTxn) {
			t.Errorf("%s: Delete = %v", name, err)
		}
		if err := m.Reset(w); !errors.Is(err, ErrNoTxn) {
			t.Errorf("%s: Reset = %v", name, err)
		}
		if _, err := m.BuildStep(w); !errors.Is(err, ErrNoTxn) {
			t.Errorf("%s: BuildStep = %v", name, err)
		}
	}
	if after := dump(t, db); after != before || batch.Len() > 0 {
		t.Errorf("the store has\n%safter refusals\n%s", before, after)
	}
	// The same index twice.
	again := NewIndex(n, "len", String, func(string) string { return "" })
	const twice = `declares index "len" twice`
	err := db.Update(t.Context(), func(tx *shale.Txn) error {
		if _, err := n.BuildStep(tx); err == nil || !strings.Contains(err.Error(), twice) {
			t.Errorf("BuildStep = %v", err)
		}
		return n.Put(tx, 1, "x")
	})
	if err == nil || !strings.Contains(err.Error(), twice) {
		t.Errorf("Put = %v", err)
	}
	for _, err := range again.Scan(db, Range[string]{}) {
		if err == nil || !strings.Contains(err.Error(), twice) {
			t.Errorf("Scan = %v", err)
		}
	}
}

// Check finds what is wrong with an index, and Reset and Build mend it.
func TestCheck_Finds(t *testing.T) {
	u := newUsers("u")
	for what, damage := range map[string]func(db *shale.DB) error{
		`key 1: index "city" does not have the entry under`: func(db *shale.DB) error {
			return db.Delete([]byte("u\x00\x02city\x00\x01Rome\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"))
		},
		`key 7: an index has it, and the map does not`: func(db *shale.DB) error {
			return db.Put([]byte("u\x00\x02city\x00\x01Rome\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07"), nil)
		},
		`key 1: index "tag" has the entry under`: func(db *shale.DB) error {
			return db.Put([]byte("u\x00\x02tag\x00\x01no\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"), nil)
		},
		`is no key of it: a text without an end`: func(db *shale.DB) error {
			return db.Put([]byte("u\x00\x02email\x00\x01text"), nil)
		},
	} {
		db := open(t)
		update(t, db, func(tx *shale.Txn) error {
			return errors.Join(u.Put(tx, 1, user{"e", "Rome", nil}), u.Put(tx, 2, user{}))
		})
		if err := errors.Join(u.Check(t.Context(), db), damage(db)); err != nil {
			t.Fatal(err)
		}
		if err := u.Check(t.Context(), db); err == nil || !strings.HasPrefix(err.Error(), `typed: map "u"`) || !strings.Contains(err.Error(), what) {
			t.Errorf("Check = %v, want %s", err, what)
		}
		update(t, db, func(tx *shale.Txn) error { return u.Reset(tx) })
		if err := u.Check(t.Context(), db); !errors.Is(err, ErrNotBuilt) {
			t.Errorf("Check after Reset = %v", err)
		}
		if err := errors.Join(u.Build(t.Context(), db), u.Check(t.Context(), db)); err != nil {
			t.Error(err)
		}
	}
	// A loop that reads entries meets a key that the map does not have.
	db := open(t)
	update(t, db, func(tx *shale.Txn) error { return u.Put(tx, 1, user{}) })
	if err := db.Put([]byte("u\x00\x02city\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07"), nil); err != nil {
		t.Fatal(err)
	}
	if s, err := all(u.city.Scan(db, Range[string]{})); !errors.Is(err, errMissing) {
		t.Errorf("%s, %v", s, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Check(done, db); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v", err)
	}
}

// An entry whose value does not decode can't be changed, since nobody knows which entries of indexes it has.
func TestIndex_DamagedValue(t *testing.T) {
	db, ctx := open(t), t.Context()
	u := newUsers("u")
	update(t, db, func(tx *shale.Txn) error {
		return errors.Join(u.Put(tx, 1, user{City: "Rome"}), tx.Put([]byte("u\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"), []byte("{")))
	})
	update(t, db, func(tx *shale.Txn) error {
		_, loop := all(u.city.Scan(tx, Only("Rome")))
		for name, err := range map[string]error{"Put": u.Put(tx, 1, user{}), "Delete": u.Delete(tx, 1), "Scan": loop, "Check": u.Check(ctx, tx)} {
			if err == nil || !strings.HasPrefix(err.Error(), `typed: map "u", key 1: unexpected end of JSON`) {
				t.Errorf("%s = %v", name, err)
			}
		}
		k, err := u.Key(1)
		return errors.Join(err, tx.Delete(k), u.Reset(tx))
	})
	if err := errors.Join(u.Build(ctx, db), u.Check(ctx, db)); err != nil {
		t.Error(err)
	}
}

// A map with a unique index that was not unique before.
func TestCheck_Unique(t *testing.T) {
	db := open(t)
	declare := func() (*Map[uint64, string], *Index[uint64, string, string]) {
		m := NewMap("m", Uint64, AsValue(String))
		return m, NewIndex(m, "i", String, func(s string) string { return s })
	}
	was, _ := declare()
	update(t, db, func(tx *shale.Txn) error { return errors.Join(was.Put(tx, 1, "a"), was.Put(tx, 2, "a")) })
	m, i := declare()
	i.Unique()
	if err := m.Check(t.Context(), db); !errors.Is(err, ErrNotUnique) {
		t.Errorf("Check = %v", err)
	}
	update(t, db, func(tx *shale.Txn) error { return m.Reset(tx) })
	if err := m.Build(t.Context(), db); !errors.Is(err, ErrNotUnique) {
		t.Errorf("Build = %v", err)
	}
	update(t, db, func(tx *shale.Txn) error {
		if err := m.Put(tx, 3, "a"); !errors.Is(err, ErrNotBuilt) {
			t.Errorf("Put into a unique index that is not complete = %v", err)
		}
		return errors.Join(m.Put(tx, 2, "a"), was.Put(tx, 1, "b"))
	})
	if err := errors.Join(m.Build(t.Context(), db), m.Check(t.Context(), db)); err != nil {
		t.Error(err)
	}
}

// A transaction that looks for a value in an index conflicts with one that gives an entry this value, and not with one
// that gives it the next one.
func TestIndex_Conflicts(t *testing.T) {
	for _, city := range []string{"Rome", "Rom", "Romf"} {
		db, ctx := open(t), t.Context()
		u := newUsers("u")
		update(t, db, func(tx *shale.Txn) error {
			return errors.Join(u.Put(tx, 1, user{"a", "Paris", nil}), u.Put(tx, 2, user{"b", "Zug", nil}), u.Put(tx, 3, user{"c", "Romf", nil}))
		})
		tx, err := db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Discard()
		if _, _, err := u.city.Get(tx, "Rome"); err != shale.ErrNotFound {
			t.Fatal(err)
		}
		if _, _, err := u.city.Get(tx, "Paris"); err != nil {
			t.Fatal(err)
		}
		if err := u.Put(tx, 9, user{"x", "Rome", nil}); err != nil {
			t.Fatal(err)
		}
		update(t, db, func(tx *shale.Txn) error { return errors.Join(u.Put(tx, 2, user{"y", city, nil}), u.Delete(tx, 3)) })
		if err := tx.Commit(ctx); errors.Is(err, shale.ErrConflict) != (city == "Rome") {
			t.Errorf("%s: Commit = %v", city, err)
		}
	}
}
