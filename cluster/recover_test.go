package cluster

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// lostMajority returns members of a group whose others are gone. All are closed.
func lostMajority(t *testing.T, survivors int) *testGroup {
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	g.agree()
	for _, m := range g.members {
		mustNil(t, m.Close())
	}
	g.members = g.members[3-survivors:]
	return g
}

// addTail adds entries to the log of a closed member, as from a leader of this term. Entry i of a term is the same for all.
func addTail(t *testing.T, m *testMember, terms uint64, n int) {
	t.Helper()
	o := LogStoreOptions()
	o.FS = m.opts.FS
	db, err := shale.Open(m.dir+"/log", o)
	mustNil(t, err)
	log := NewLogStore(db)
	last, err := log.LastIndex()
	term, e := log.GetUint64(currentTermKey)
	err = errors.Join(err, e, log.SetUint64(currentTermKey, term+terms))
	for i := range n {
		b := new(shale.Batch)
		err = errors.Join(err, b.Put(fmt.Appendf(nil, "tail %d.%d", terms, i), nil))
		data, e := encodeWrite(b)
		err = errors.Join(err, e, log.StoreLog(&raft.Log{Index: last + uint64(i) + 1, Term: term + terms, Type: raft.LogCommand, Data: data}))
	}
	mustNil(t, errors.Join(err, db.Close()))
}

// survivorsOf reads all members, as commands on their machines print it and take it.
func survivorsOf(t *testing.T, members ...*testMember) (list []Survivor) {
	t.Helper()
	for _, m := range members {
		s, err := ReadSurvivor(m.dir, &m.opts)
		if err == nil {
			s, err = ParseSurvivor(s.String())
		}
		mustNil(t, err)
		list = append(list, s)
	}
	return list
}

// Two survivors of any relation of term and index come to one state: that of the one which is further. Whoever is
// told twice does no harm.
func TestRecover_AnyTwoSurvivors(t *testing.T) {
	t.Parallel()
	type tail struct {
		terms   uint64
		entries int
	}
	g := lostMajority(t, 2)
	both := slices.Clone(g.members)
	var disks []*vfs.Mem
	for _, m := range both {
		disks = append(disks, m.opts.FS.(*vfs.Mem))
	}
	tails := []tail{{0, 0}, {1, 2}, {1, 6}, {2, 2}, {2, 6}}
	for i, a := range tails {
		for j, b := range tails {
			if testing.Short() && (i+j)%3 != 1 {
				continue
			}
			t.Run(fmt.Sprint(a, b), func(t *testing.T) {
				for k, m := range both {
					m.opts.FS = disks[k].Crash(vfs.CrashConfig{})
				}
				g.members = both
				addTail(t, g.members[0], a.terms, a.entries)
				addTail(t, g.members[1], b.terms, b.entries)
				list := survivorsOf(t, g.members...)
				var leads []bool
				for range 2 {
					leads = nil
					for k, m := range g.members {
						yes, err := Recover(m.dir, slices.Clone(list), &m.opts)
						if err != nil {
							t.Fatalf("member %d: %v", k, err)
						}
						leads = append(leads, yes)
					}
				}
				best, want := 0, a
				if i < j {
					best, want = 1, b
				}
				if i == j && leads[1] {
					best = 1
				}
				if !leads[best] || leads[1-best] {
					t.Fatalf("of %v, leads = %v", list, leads)
				}
				first, second := g.members[best], g.members[1-best]
				first.opts.Join, first.opts.Raft = nil, lonelyRaft
				g.open(first)
				g.members = []*testMember{first}
				g.write("new", "v")
				mustNil(t, first.Close())
				if yes, err := Recover(first.dir, list, &first.opts); !yes || err != nil {
					t.Fatalf("Recover, again: %v, %v", yes, err)
				}
				second.opts.Join, first.opts.Raft = []string{first.opts.Listen}, fastRaft
				g.open(first)
				g.open(second)
				g.members = []*testMember{first, second}
				g.waitVoters(2)
				got := strings.Join(g.agree(), "\n")
				for _, c := range tails[1:] {
					if n := strings.Count(got, fmt.Sprintf("tail %d.", c.terms)); c.terms == want.terms && n != want.entries || c.terms != want.terms && n > 0 {
						t.Errorf("%d entries of the tail %d:\n%s", n, c.terms, got)
					}
				}
				if !strings.Contains(got, `"k"="v"`) || !strings.Contains(got, `"new"="v"`) {
					t.Errorf("the state is\n%s", got)
				}
				if names, err := second.opts.FS.List(second.dir + "/lost"); len(names) != 1 || err != nil {
					t.Errorf("the old files: %v, %v", names, err)
				}
				if _, err := Recover(second.dir, list, &second.opts); err == nil {
					t.Error("a member of the new group was recovered while it ran")
				}
				if err := errors.Join(second.Close(), first.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A member that was lost and comes back, or a survivor that was not told, is of another group.
func TestRecover_OldMembersStayOut(t *testing.T) {
	t.Parallel()
	g := lostMajority(t, 2)
	m, old := g.members[0], g.members[1]
	if yes, err := Recover(m.dir, survivorsOf(t, m), &m.opts); !yes || err != nil {
		t.Fatalf("Recover = %v, %v", yes, err)
	}
	m.opts.Join = nil
	g.open(m)
	g.open(old)
	g.members = []*testMember{m}
	defer func() { _ = old.Close() }()
	g.write("k", "w")
	if err := m.AddVoter(short(t), old.opts.ID, old.Address()); !errors.Is(err, ErrOtherGroup) {
		t.Errorf("AddVoter of an old member: %v", err)
	}
	if members, err := m.Members(); len(members) != 1 || err != nil {
		t.Errorf("members: %v, %v", members, err)
	}
}

// What does not fit together changes nothing.
func TestRecover_Refusals(t *testing.T) {
	t.Parallel()
	g := lostMajority(t, 2)
	m := g.members[0]
	list := survivorsOf(t, g.members...)
	with := func(change func(*Survivor)) []Survivor {
		l := slices.Clone(list)
		change(&l[0])
		return l
	}
	for want, bad := range map[string][]Survivor{
		"is empty":        nil,
		"names \"m2\" tw": append(slices.Clone(list), list[1]),
		"must have":       with(func(s *Survivor) { s.Index++ }),
		"must have m1":    list[1:],
		"two groups":      with(func(s *Survivor) { s.Group = "other" }),
		"is of group":     {{ID: "x", server: "x/1", Group: "other"}},
	} {
		if _, err := Recover(m.dir, bad, &m.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Recover with %v: %v, want %q", bad, err, want)
		}
	}
	for _, bad := range []string{"", "a", "a/1:g:1", "a/1:g:x:1", ":g:1:1", "a/1::1:1"} {
		if s, err := ParseSurvivor(bad); err == nil {
			t.Errorf("ParseSurvivor(%q) = %v", bad, s)
		}
	}
	if s, err := ReadSurvivor("nowhere", &m.opts); err == nil {
		t.Errorf("ReadSurvivor of nothing = %v", s)
	}
	if got := survivorsOf(t, g.members...); fmt.Sprint(got) != fmt.Sprint(list) {
		t.Errorf("survivors = %v, want %v", got, list)
	}
	for _, m := range g.members {
		g.open(m)
	}
	g.agree()
}

// Two survivors have the same log, and the state of one of them differs. The other one goes on, whatever their names are.
func TestRecover_NotTheOneThatDiffers(t *testing.T) {
	t.Parallel()
	for differs := range 2 {
		g := lostMajority(t, 2)
		m := g.members[differs]
		id, err := readIdentity(m.opts.FS, m.dir)
		mustNil(t, err)
		id.Differs = "two of three voters agree"
		mustNil(t, storeIdentity(m.opts.FS, m.dir, id))
		var list []Survivor
		for _, s := range survivorsOf(t, g.members...) {
			read, err := ParseSurvivor(s.String())
			if err != nil || read.Differs != s.Differs || s.Differs != (s.ID == m.opts.ID) {
				t.Errorf("%v is read as %v, %v", s, read, err)
			}
			list = append(list, read)
		}
		for i, other := range g.members {
			if leads, err := Recover(other.dir, list, &other.opts); err != nil || leads != (i != differs) {
				t.Errorf("%s differs: Recover of %s = %v, %v", m.opts.ID, other.opts.ID, leads, err)
			}
		}
	}
}

// The machine of the survivor that leads, or of one that does not, loses its power at any moment. The same commands again
// lead to the same end.
func TestRecover_CrashAnywhere(t *testing.T) {
	t.Parallel()
	g := lostMajority(t, 2)
	first, second := g.members[1], g.members[0]
	addTail(t, first, 1, 3)
	list := survivorsOf(t, g.members...)
	images := func(m *testMember, fn func()) []*vfs.Mem {
		disk := m.opts.FS.(*vfs.Mem)
		return append(crashesOf(disk, fn), disk)
	}
	recoverIt := func(m *testMember, want bool) {
		t.Helper()
		if yes, err := Recover(m.dir, list, &m.opts); yes != want || err != nil {
			t.Fatalf("Recover of %s = %v, %v", m.opts.ID, yes, err)
		}
	}
	first.opts.Join, first.opts.Raft = nil, lonelyRaft
	g.members = []*testMember{first}
	disks := images(first, func() {
		recoverIt(first, true)
		g.open(first)
		g.write("k", "w")
		mustNil(t, first.Close())
	})
	step := 1
	if testing.Short() || testenv.Race {
		step = 7
	}
	t.Logf("%d and more operations", len(disks))
	for i := len(disks) - 1; i >= 0; i -= step {
		first.opts.FS = disks[i]
		recoverIt(first, true)
		g.open(first)
		g.write("k", "x")
		if v, err := first.Local().Get([]byte("tail 1.2")); err != nil {
			t.Errorf("after a crash at operation %d: the end of the log has %q, %v", i, v, err)
		}
		if s := first.Stats(); s.Members != 1 {
			t.Errorf("after a crash at operation %d: %+v", i, s)
		}
		mustNil(t, first.Close())
	}
	disks = images(second, func() { recoverIt(second, false) })
	for i, d := range disks {
		second.opts.FS, second.opts.Bootstrap = d, false
		if names, err := d.List(second.dir); err == nil && !slices.Contains(names, memberFile) && slices.Contains(names, logDir) {
			if n, err := Open(second.dir, &second.opts); err == nil {
				t.Errorf("after a crash at operation %d: opened as %s", i, n.server)
			}
		}
		recoverIt(second, false)
		names, err := d.List(second.dir)
		if slices.Contains(names, logDir) || slices.Contains(names, memberFile) || !slices.Contains(names, lostDir) || err != nil {
			t.Errorf("after a crash at operation %d: the directory has %v, %v", i, names, err)
		}
	}
}

// The newest snapshot of the survivor is damaged, and the log behind it does not reach as far: it goes on with what is left, also
// when it is opened again.
func TestRecover_DamagedSnapshot(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	m := g.members[0]
	for _, value := range []string{"1", "2"} {
		g.write("k", value)
		mustNil(t, errors.Join(m.View(func(db *shale.DB) error { return db.Flush(t.Context()) }), m.Snapshot(short(t))))
	}
	newest, older := m.snapshots.list[0].store(), m.snapshots.list[1].store()
	first, err := m.log.FirstIndex()
	last, e := m.log.LastIndex()
	// As after the leader has sent the snapshot.
	err = errors.Join(err, e, m.Close())
	mustNil(t, err)
	o := LogStoreOptions()
	o.FS = m.opts.FS
	db, err := shale.Open(filepath.Join(m.dir, logDir), o)
	if err == nil {
		err = errors.Join(NewLogStore(db).DeleteRange(first, last), db.Close())
	}
	mustNil(t, err)
	for name := range files(t, m.opts.FS, newest) {
		_, err := m.opts.FS.Stat(filepath.Join(older, filepath.Base(name)))
		if strings.HasSuffix(name, ".sst") && err != nil { // the older one does not have it
			damage(t, m.opts.FS, name)
		}
	}
	mustNil(t, m.opts.FS.Remove(filepath.Join(m.dir, "state-1", "CURRENT")))
	if _, err := Open(m.dir, &m.opts); !errors.Is(err, ErrLost) {
		t.Fatalf("Open before the recovery: %v", err)
	}
	if leads, err := Recover(m.dir, survivorsOf(t, m), &m.opts); !leads || err != nil {
		t.Fatalf("Recover = %v, %v", leads, err)
	}
	for range 3 {
		g.open(m)
		g.eventually("it leads", func() error { _, err := m.get(short(t), "k"); return err })
		if v, err := m.get(short(t), "k"); v != "1" || err != nil {
			t.Errorf("k = %q, %v", v, err)
		}
		mustNil(t, m.Close())
	}
}

// ReadSurvivor changes nothing, not even what an interrupted member has left behind.
func TestReadSurvivor_ChangesNothing(t *testing.T) {
	t.Parallel()
	g := lostMajority(t, 1)
	m := g.members[0]
	for _, name := range []string{"state-2.tmp/000001.sst", "snapshots/7.tmp/store/CURRENT", "MEMBER.tmp"} {
		name = filepath.Join(m.dir, name)
		mustNil(t, m.opts.FS.MkdirAll(filepath.Dir(name)))
		putFile(t, m.opts.FS, name, "half")
	}
	before := files(t, m.opts.FS, m.dir)
	survivorsOf(t, m)
	if after := files(t, m.opts.FS, m.dir); !maps.Equal(after, before) {
		t.Errorf("the directory has %q, and had %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
}
