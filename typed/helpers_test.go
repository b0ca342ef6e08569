package typed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t testing.TB) *shale.DB {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual, MemtableSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, shale.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

// update runs fn in a transaction, which must succeed.
func update(t testing.TB, db *shale.DB, fn func(tx *shale.Txn) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

// A user has a city, an email that no other user has, and tags.
type user struct {
	Email, City string
	Tags        []string
}

// users is a map with all kinds of indexes.
type users struct {
	*Map[uint64, user]
	email, city, tag *Index[uint64, user, string]
}

func newUsers(name string) users {
	m := NewMap(name, Uint64, JSON[user]())
	return users{m,
		NewIndex(m, "email", String, func(u user) string { return u.Email }).Unique(),
		NewIndex(m, "city", String, func(u user) string { return u.City }),
		NewMultiIndex(m, "tag", String, func(u user) []string { return u.Tags })}
}

// all returns what a loop yields, each as fmt prints it, and the error.
func all[T any](seq iter.Seq2[T, error]) (string, error) {
	var list []string
	for e, err := range seq {
		if err != nil {
			return strings.Join(list, " "), err
		}
		list = append(list, fmt.Sprint(e))
	}
	return strings.Join(list, " "), nil
}

// want checks what a loop yields.
func want[T any](t testing.TB, what string, seq iter.Seq2[T, error], want string) {
	t.Helper()
	if got, err := all(seq); err != nil || got != want {
		t.Errorf("%s: %s, %v; want %s", what, got, err, want)
	}
}

// dump returns keys and values of a store, one a line.
func dump(t testing.TB, r shale.Reader) string {
	t.Helper()
	var b strings.Builder
	for e, err := range r.Scan(shale.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%q = %q\n", e.Key, e.Value)
	}
	return b.String()
}
