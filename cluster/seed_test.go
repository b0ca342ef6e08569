package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

// A group that was seeded has the store's keys on all members, also on those that join later, and
// skips none of its own first writes, although the store was that of a longer log.
func TestSeed_Group(t *testing.T) {
	t.Parallel()
	old := newGroup(t, 1, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 100 {
		mustNil(t, old.members[0].Put(ctx, fmt.Appendf(nil, "old%02d", i), []byte("x")))
	}
	fsys := old.members[0].opts.FS
	mustNil(t, old.members[0].Checkpoint("backup"))
	first := &testMember{dir: "seeded", opts: Options{ID: "m0", FS: fsys, Raft: fastRaft}}
	mustNil(t, Seed(first.dir, "backup", &first.opts))
	if err := Seed(first.dir, "backup", &first.opts); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Seed of a member's directory: %v", err)
	}
	g := &testGroup{t: t}
	t.Cleanup(g.close)
	g.open(first)
	first.opts.Listen = first.Address()
	g.members = append(g.members, first)
	g.waitVoters(1)
	for i := range 10 {
		mustNil(t, first.Put(ctx, fmt.Appendf(nil, "new%d", i), []byte("y")))
	}
	g.add()
	g.add()
	g.waitVoters(3)
	for _, m := range g.members {
		n := 0
		err := m.Read(ctx, func(r shale.Reader) error {
			for _, err := range r.Scan(shale.Range{}) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil || n != 110 {
			t.Errorf("member %s has %d keys, want 110: %v", m.opts.ID, n, err)
		}
	}
	// It comes back as itself.
	mustNil(t, first.Close())
	g.open(first)
	if err := first.Read(ctx, func(r shale.Reader) error { _, err := r.Get([]byte("old99")); return err }); err != nil {
		t.Error(err)
	}
}

// Any store can be the seed, but for one with keys of the group's own.
func TestSeed_AnyStore(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	fsys := g.members[0].opts.FS
	for name, key := range map[string]string{"plain": "k", "reserved": string(reservedKey) + "x"} {
		db, err := shale.Open(name, &shale.Options{FS: fsys})
		mustNil(t, err)
		mustNil(t, errors.Join(db.Put([]byte(key), []byte("v")), db.Close()))
		err = Seed(name+"-seeded", name, &Options{ID: "x", FS: fsys})
		if reserved := name == "reserved"; errors.Is(err, ErrReservedKey) != reserved || !reserved && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	db, err := shale.Open("plain", &shale.Options{FS: fsys})
	mustNil(t, err)
	if err := Seed("other", "plain", &Options{ID: "x", FS: fsys}); !errors.Is(err, shale.ErrLocked) {
		t.Errorf("Seed of a store that is open: %v", err)
	}
	mustNil(t, db.Close())
	if err := Seed("other", "nothing", &Options{ID: "x", FS: fsys}); err == nil {
		t.Error("a seed that is no store was taken")
	}
	if err := Seed("other", "plain", &Options{ID: "a b", FS: fsys}); err == nil {
		t.Error("an id that is none was taken")
	}
}
