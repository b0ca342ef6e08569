package typed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// versions are the same map as three versions of a program declare it.
func versions() (none, one, two *Map[uint64, user], city, email *Index[uint64, user, string]) {
	byCity := func(u user) string { return u.City }
	none, one, two = NewMap("m", Uint64, JSON[user]()), NewMap("m", Uint64, JSON[user]()), NewMap("m", Uint64, JSON[user]())
	NewIndex(one, "city", String, byCity)
	city = NewIndex(two, "city", String, byCity)
	email = NewIndex(two, "email", String, func(u user) string { return u.Email })
	return none, one, two, city, email
}

// A program that adds an index, or takes one away, has to call Build; and one of the version before can't write entries
// that the index lacks.
func TestBuild_Versions(t *testing.T) {
	db, ctx := open(t), t.Context()
	none, one, two, city, email := versions()
	const n = 2*buildStep + 3 // steps end at the last entry, and within
	update(t, db, func(tx *shale.Txn) error {
		for i := range uint64(n) {
			if err := none.Put(tx, i, user{fmt.Sprint(i), fmt.Sprint(i % 7), nil}); err != nil {
				return err
			}
		}
		return nil
	})
	put := func(m *Map[uint64, user]) error {
		return db.Update(ctx, func(tx *shale.Txn) error { return m.Put(tx, 1, user{"1", "1", nil}) })
	}
	if err := put(one); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), `the store has none, the program ["city"]: call Build`) {
		t.Errorf("Put with an index that is not built = %v", err)
	}
	if _, err := all(city.Scan(db, Range[string]{})); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Scan of an index that is not built = %v", err)
	}
	for _, m := range []*Map[uint64, user]{one, two, one, none, two} {
		if err := errors.Join(m.Build(ctx, db), m.Check(ctx, db), put(m)); err != nil {
			t.Fatal(err)
		}
		for _, other := range []*Map[uint64, user]{none, one, two} {
			if len(other.indexes) != len(m.indexes) {
				if err := put(other); !errors.Is(err, ErrNotBuilt) || !strings.HasPrefix(err.Error(), `typed: map "m": `) {
					t.Errorf("Put of a program with %d indexes into a store with %d = %v", len(other.indexes), len(m.indexes), err)
				}
			}
		}
		if keys := strings.Count(dump(t, db), "\n"); keys != n*(1+len(m.indexes))+min(1, len(m.indexes)) {
			t.Errorf("%d keys of %d entries with %d indexes", keys, n, len(m.indexes))
		}
	}
	if err := none.Put(db, 1, user{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Put on a DB whose map has indexes = %v", err)
	}
	if s, err := all(city.Scan(db, Range[string]{KeysOnly: true})); err != nil || strings.Count(s, "{") != 3*n {
		t.Errorf("%d found, %v; want %d", strings.Count(s, "{")/3, err, n)
	}
	if key, _, err := email.Get(db, "777"); key != 777 || err != nil {
		t.Errorf("Get = %d, %v", key, err)
	}
}

// A Build that is stopped after any step goes on, also in another version of the program.
func TestBuild_Stopped(t *testing.T) {
	for stop := 1; ; stop++ {
		db, ctx := open(t), t.Context()
		none, one, two, city, _ := versions()
		update(t, db, func(tx *shale.Txn) error {
			for i := range uint64(buildStep + 1) {
				if err := none.Put(tx, i, user{fmt.Sprint(i), fmt.Sprint(i % 7), nil}); err != nil {
					return err
				}
			}
			return nil
		})
		done := false
		for i := 0; i < stop && !done; i++ {
			update(t, db, func(tx *shale.Txn) (err error) { done, err = two.BuildStep(tx); return err })
		}
		if _, err := all(city.Scan(db, Range[string]{})); errors.Is(err, ErrNotBuilt) == done {
			t.Errorf("done %v: %v", done, err)
		}
		if !done { // entries behind and before the Build, of the program that goes on
			update(t, db, func(tx *shale.Txn) error {
				return errors.Join(two.Put(tx, 0, user{"new", "new", nil}), two.Delete(tx, buildStep), two.Delete(tx, 1))
			})
		}
		next := []*Map[uint64, user]{two, one, none}[stop%3]
		if err := errors.Join(next.Build(ctx, db), next.Check(ctx, db), two.Build(ctx, db), two.Check(ctx, db)); err != nil {
			t.Errorf("after %d steps: %v", stop, err)
		}
		if done {
			if stop < 4 {
				t.Errorf("a Build in %d steps", stop)
			}
			return
		}
	}
}

// A Build stops when its context ends.
func TestBuild_Context(t *testing.T) {
	db := open(t)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, one, _, _, _ := versions(); !errors.Is(one.Build(done, db), context.Canceled) {
		t.Error("Build goes on")
	}
}

// A Build whose cursor was lost, or became other bytes, begins again.
func TestBuild_LostCursor(t *testing.T) {
	for _, lose := range []func(db *shale.DB) error{
		func(db *shale.DB) error { return db.Delete([]byte("m\x00\x04")) },
		func(db *shale.DB) error { return db.Put([]byte("m\x00\x04"), []byte("other")) },
	} {
		db := open(t)
		none, one, _, _, _ := versions()
		update(t, db, func(tx *shale.Txn) error { return errors.Join(none.Put(tx, 1, user{}), one.Reset(tx)) })
		if err := errors.Join(lose(db), one.Build(t.Context(), db), one.Check(t.Context(), db)); err != nil {
			t.Error(err)
		}
	}
}
