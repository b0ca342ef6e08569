package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
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

// Values of the store expire in the group too, and those that were over in a group do not come back in one that its backup is
// the seed of.
func TestSeed_Expiring(t *testing.T) {
	t.Parallel()
	var offset atomic.Int64
	g := &testGroup{t: t}
	t.Cleanup(g.close)
	fsys := vfs.NewMem()
	open := func(from string, id int) *testMember {
		t.Helper()
		m := &testMember{dir: from + "-seeded", opts: Options{ID: fmt.Sprintf("m%d", id), FS: fsys, Raft: lonelyRaft}}
		m.opts.clock = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
		mustNil(t, Seed(m.dir, from, &m.opts))
		g.open(m)
		g.members = append(g.members, m)
		eventually(t, "it leads", func() error { return m.Put(short(t), []byte("k"), nil) })
		return m
	}
	has := func(m *testMember, key, want string) {
		t.Helper()
		if v, err := m.get(short(t), key); err != nil || v != want {
			t.Errorf("%s on %s = %q, %v; want %q", key, m.opts.ID, v, err, want)
		}
	}

	db, err := shale.Open("store", &shale.Options{FS: fsys})
	mustNil(t, err)
	mustNil(t, db.PutTTL([]byte("hour"), []byte("v"), time.Hour))
	mustNil(t, db.PutTTL([]byte("lasts"), []byte("v"), 100*time.Hour))
	ends, err := db.ExpiresAt([]byte("lasts"))
	mustNil(t, errors.Join(err, db.Close()))
	first := open("store", 0)
	has(first, "hour", "v")
	offset.Store(int64(2 * time.Hour))
	has(first, "hour", "")
	has(first, "lasts", "v")
	if at, err := first.Local().ExpiresAt([]byte("lasts")); err != nil || !at.Equal(ends) {
		t.Errorf("it ends at %v, %v; in the store at %v", at, err, ends)
	}

	// The clock of the new group's member is behind the old group's time.
	mustNil(t, first.Checkpoint("backup"))
	offset.Store(0)
	second := open("backup", 1)
	has(second, "hour", "")
	has(second, "lasts", "v")
	mustNil(t, second.PutTTL(short(t), []byte("next"), []byte("v"), time.Millisecond))
	eventually(t, "the next value is gone", func() error {
		if v, err := second.get(short(t), "next"); err != nil || v != "" {
			return fmt.Errorf("%q, %v", v, err)
		}
		return nil
	})
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

// A store that keeps tables elsewhere seeds no group, whose members need all of them, and the error says where they are.
func TestSeed_Elsewhere(t *testing.T) {
	fsys := vfs.NewMem()
	db, err := shale.Open("from", &shale.Options{FS: fsys})
	mustNil(t, err)
	put := db.Put([]byte("k"), []byte("v"))
	mustNil(t, errors.Join(put, db.Flush(t.Context()), shale.ShippingOf(db).Elsewhere("the attic")))
	table := db.Inspect().Tables()[0].Number
	mustNil(t, errors.Join(db.Close(), fsys.Remove(filepath.Join("from", base.TableName(base.FileNum(table))))))
	if err := Seed("member", "from", &Options{ID: "m0", FS: fsys}); !errors.Is(err, shale.ErrElsewhere) || !strings.Contains(err.Error(), "the attic") {
		t.Error(err)
	}
}
