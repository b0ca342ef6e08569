package cluster

import (
	"errors"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A program that always sets Bootstrap stays in the group that it has founded.
func TestFound_Again(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	m := g.members[0]
	m.opts.Bootstrap = true
	g.write("k", "v")
	group := m.group()
	for range 2 {
		mustNil(t, m.Close())
		g.open(m)
		if v, err := m.get(short(t), "k"); v != "v" || err != nil || m.group() != group {
			t.Errorf("after a start with Bootstrap: %q, %v, group %s, was %s", v, err, m.group(), group)
		}
	}
}

// The founder of a group has lost its disk, and its program still sets Bootstrap. It does not found a second group, at its old
// address or, if it knows other members, at another one.
func TestFound_LostDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ moved, alone bool }{
		"at its address":                   {},
		"at its address, without a leader": {alone: true},
		"at another address":               {moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 3, func(o *Options) { o.Raft = steadyRaft }) // a busy candidate is as late as the founder is patient
			g.write("k", "v")
			g.agree()
			founder, last := g.members[0], g.members[2]
			founder.opts.FS, founder.opts.Bootstrap, founder.opts.foundAfter = vfs.NewMem(), true, 0
			mustNil(t, founder.Close())
			if c.alone {
				mustNil(t, last.Close())
			}
			if !c.moved {
				for range 2 {
					if n, err := Open(founder.dir, &founder.opts); !errors.Is(err, ErrIDTaken) {
						t.Fatalf("Open with an empty disk = %v, %v", n, err)
					}
				}
				if files := founder.opts.FS.(*vfs.Mem).OpenFiles(); files != 0 {
					t.Errorf("%d files are left open", files)
				}
			}
			founder.opts.Listen, founder.opts.Join = "", []string{"127.0.0.1:1", g.members[1].opts.Listen}
			g.open(founder)
			if s := founder.Stats(); s.Members != 0 || s.Term != 0 {
				t.Fatalf("it is in a group: %+v", s)
			}
			if c.alone {
				g.open(last)
			}
			g.remove(founder.opts.ID)
			g.waitVoters(3)
			g.agree()
		})
	}
}

// Bootstrap with members at Join that have no group yet, or don't run, founds one.
func TestFound_KnowsOthers(t *testing.T) {
	t.Parallel()
	other := &testMember{dir: "d", opts: Options{ID: "other", FS: vfs.NewMem(), Raft: fastRaft}}
	g := newGroup(t, 1, func(o *Options) {
		if o.Bootstrap {
			(&testGroup{t: t}).open(other)
			o.Join = []string{"127.0.0.1:1", other.Address()}
		}
	})
	defer func() { _ = other.Close() }()
	g.write("k", "v")
	g.led("it gets a vote", func() error { return g.leader().AddVoter(short(t), "other", other.Address()) })
	g.waitVoters(2)
}
