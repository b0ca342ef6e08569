package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// A founder that has lost its disk hears that a leader looks for it, also if asking the members at Join takes longer than it
// listens.
func TestFound_SlowToAsk(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	g.agree()
	founder := g.members[0]
	mustNil(t, founder.Close())
	o := founder.opts
	o.Bootstrap, o.foundAfter, o.Join = true, time.Millisecond, []string{"127.0.0.1:1"}
	o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for range 5 { // which of two that are ready comes first is random
		o.FS = vfs.NewMem()
		if n, err := Open(founder.dir, &o); !errors.Is(err, ErrIDTaken) {
			t.Fatalf("Open with an empty disk = %v, %v", n, err)
		}
	}
}

// A member at Join that takes connections and says nothing may have a group: none is founded. One that answers late is heard.
func TestFound_SilentMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	g.write("k", "v")
	member := g.members[0].opts.Listen
	var silent atomic.Bool
	silent.Store(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustNil(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if silent.Load() {
					_, _ = io.Copy(io.Discard, conn)
				} else if to, err := net.Dial("tcp", member); err == nil {
					go func() {
						_, _ = io.Copy(struct{ io.Writer }{to}, conn) // no splice: Go keeps its pipes for the next one
						_ = to.Close()
					}()
					_, _ = io.Copy(struct{ io.Writer }{conn}, to)
				}
			}()
		}
	}()
	o := Options{ID: "new", FS: vfs.NewMem(), Raft: steadyRaft, Bootstrap: true, Join: []string{l.Addr().String()}}
	o.foundAfter = time.Millisecond
	if n, err := Open("d", &o); err == nil || !strings.Contains(err.Error(), o.Join[0]) {
		t.Fatalf("Open next to a silent member = %v, %v", n, err)
	}
	o.foundAfter = time.Minute
	time.AfterFunc(dialTimeout/2, func() { silent.Store(false) })
	m := &testMember{dir: "d", opts: o}
	g.open(m)
	defer func() { mustNil(t, m.Close()) }()
	g.waitVoters(2)
}
