package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Members that take the same commands in batches of any size, through restarts and by snapshots have the same sums
// wherever they can be compared, and they can. One command of another content shows in all sums that follow.
func TestDigest_SameCommandsSameSums(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	const entries = 1000
	h := newHistory(t, entries, seed)
	other := append(history(nil), h...)
	changed := uint64(200 + r.IntN(100))
	for h[changed-1].Type != raft.LogCommand {
		changed++
	}
	e := *h[changed-1]
	b := new(shale.Batch)
	mustNil(t, b.Put([]byte("key 00"), []byte("another")))
	e.Data, _ = encodeWrite(b)
	other[changed-1] = &e
	// run takes all entries, and remembers what it could tell after each piece.
	run := func(h history) (told [][]digest, m *machine) {
		disk := vfs.NewMem()
		m = mustStart(t, disk)
		for at := uint64(0); at < entries; {
			next := min(at+1+uint64(r.IntN(40)), entries)
			m.mustApply(h, at, next, 1+r.IntN(10))
			at = next
			told = append(told, m.state.current.Load().digests.last())
			switch r.IntN(8) {
			case 0:
				m.close()
				m = mustStart(t, disk)
			case 1:
				mustNil(t, m.snapshot(h, at))
				fresh := mustStart(t, vfs.NewMem())
				mustNil(t, fresh.receive(m))
				m.close()
				m, disk = fresh, fresh.snaps.fs.(*vfs.Mem)
			}
			if _, err := m.apply(h, m.state.current.Load().at.index, at, 5); err != nil { // what raft sends again
				t.Fatal(err)
			}
		}
		return told, m
	}
	for _, c := range []struct {
		h    history
		same bool
	}{{h, true}, {other, false}} {
		told, m := run(h)
		again, m2 := run(c.h)
		known := 0
		for _, a := range told {
			for _, b := range again {
				for _, x := range a {
					for _, y := range b {
						if x.Index != y.Index {
							continue
						}
						known++
						if want := c.same || x.Index < changed; (x.Sum == y.Sum) != want {
							t.Fatalf("sums at %d: %+v and %+v, the same command at %d: %v", x.Index, x, y, changed, c.same)
						}
					}
				}
			}
		}
		d, d2 := &m.state.current.Load().digests, &m2.state.current.Load().digests
		if same, ok := d.compare(d2.last()); !ok || same != c.same {
			t.Errorf("in the end: same %v, known %v", same, ok)
		}
		if d.now.Index < entries-10 || known < 5 {
			t.Errorf("%d comparisons, the last of %+v", known, d.now)
		}
		m.close()
		m2.close()
	}
}

// spoilState changes the state of a running member beneath it, and lets all members find out: the answers to deletions differ.
func spoilState(t *testing.T, g *testGroup, m *testMember) {
	t.Helper()
	g.write("spoiled", "v")
	g.agree()
	mustNil(t, m.state.current.Load().db.Delete([]byte("spoiled")))
	g.led("a deletion", func() error {
		_, err := g.leader().DeletePresent(short(t), []byte("spoiled"))
		return err
	})
}

// mustDiffer waits until a member has stopped, and only that one.
func (g *testGroup) mustDiffer(bad *testMember) {
	g.t.Helper()
	g.eventually(bad.opts.ID+" stops", func() error {
		if !errors.Is(bad.Err(), ErrDiffers) {
			return fmt.Errorf("Err = %v", bad.Err())
		}
		return nil
	})
	for _, m := range g.members {
		if m != bad && m.Node != nil && m.Err() != nil {
			g.t.Errorf("%s has stopped too: %v", m.opts.ID, m.Err())
		}
	}
	if err := bad.Close(); err != nil {
		g.t.Error(err)
	}
	if n, err := Open(bad.dir, &bad.opts); !errors.Is(err, ErrDiffers) {
		g.t.Errorf("Open of a member that differs = %v, %v", n, err)
	}
}

// A member of three that has come to another state stops, also if it leads, and the others go on. It comes back by the
// documented procedure.
func TestDiffer_MajorityDecides(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("it leads: ", leads), func(t *testing.T) {
			g := newGroup(t, 3, nil)
			bad := g.follower()
			if leads {
				bad = g.leader()
			}
			spoilState(t, g, bad)
			g.mustDiffer(bad)
			bad.opts.Join = nil
			for _, m := range g.members {
				if m != bad {
					bad.opts.Join = append(bad.opts.Join, m.opts.Listen)
				}
			}
			g.remove(bad.opts.ID)
			bad.opts.FS = vfs.NewMem()
			g.open(bad)
			g.waitVoters(3)
			g.agree()
		})
	}
}

// With one of three down, nobody can tell which of two is right: the leader says that they differ, until the third comes back.
func TestDiffer_UndecidedUntilAMajorityAnswers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	down := g.follower()
	mustNil(t, down.Close())
	l := g.leader()
	var bad *testMember
	for _, m := range g.members {
		if m != down && m != l {
			bad = m
		}
	}
	all := g.members
	g.members = []*testMember{l, bad}
	spoilState(t, g, bad)
	g.eventually("the difference is known", func() error {
		for _, m := range g.members {
			if s := m.Stats(); len(s.Differing) == 1 {
				return nil
			}
		}
		return errors.New("to nobody")
	})
	if err := errors.Join(l.Err(), bad.Err()); err != nil {
		t.Fatalf("one has stopped: %v", err)
	}
	g.open(down)
	g.members = all
	g.mustDiffer(bad)
}

// Of two members that differ the leader goes on, as far as it can.
func TestDiffer_OfTwo(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2, nil)
	l, f := g.leader(), g.follower()
	spoilState(t, g, f)
	g.eventually("one stops", func() error {
		if l.Err() == nil && f.Err() == nil {
			return errors.New("none does")
		}
		return nil
	})
	for _, m := range g.members {
		if err := m.Err(); err != nil && (!errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "1 of 2 voters")) {
			t.Errorf("%s: %v", m.opts.ID, err)
		}
	}
}
