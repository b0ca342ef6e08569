package memtable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// model is a sorted slice that answers like a memtable.
type model []base.KV

func (s *model) add(kv base.KV) {
	i, _ := slices.BinarySearchFunc(*s, kv.InternalKey, compareKV)
	*s = slices.Insert(*s, i, kv)
}

func compareKV(kv base.KV, k base.InternalKey) int { return base.Compare(kv.InternalKey, k) }

// at returns what a reader at seq may see.
func (s model) at(seq base.Seq) model {
	var seen model
	for _, kv := range s {
		if kv.Seq() <= seq {
			seen = append(seen, kv)
		}
	}
	return seen
}

// seekGE returns the place of the first entry at or after (key, seq).
func (s model) seekGE(key []byte, seq base.Seq) int {
	i, _ := slices.BinarySearchFunc(s, base.NewKey(key, seq, base.KindMax), compareKV)
	return i
}

// seekLT returns the place of the last entry before key.
func (s model) seekLT(key []byte) int { return s.seekGE(key, base.MaxSeq) - 1 }

// randomKey prefers keys that are prefixes of each other, that hold zeros,
// and that differ before, at and behind the 16 bytes of an entry.
func randomKey(r *rand.Rand) []byte {
	key := bytes.Repeat([]byte{"a\x00"[r.IntN(2)]}, []int{0, 1, 7, 8, 9, 15, 16, 17, 24, 40}[r.IntN(10)])
	for range r.IntN(3) {
		key = append(key, "\x00a\xff"[r.IntN(3)])
	}
	return key
}

// A rig is a memtable and its model.
type rig struct {
	t     *testing.T
	r     *rand.Rand
	m     *Memtable
	model model
	seq   base.Seq
}

func newRig(t *testing.T, seed uint64) *rig {
	t.Logf("seed %d", seed)
	return &rig{t: t, r: rand.New(rand.NewPCG(seed, 0)), m: New(Options{Size: 1 << 14})}
}

// write adds a group of n entries.
func (g *rig) write(n int) {
	g.m.BeginWrite()
	for range n {
		g.seq++
		key, kind := randomKey(g.r), base.KindPut
		value := bytes.Repeat([]byte{byte(g.seq)}, g.r.IntN(40))
		if g.r.IntN(4) == 0 {
			kind, value = base.KindDelete, []byte{}
		}
		g.model.add(base.KV{InternalKey: base.NewKey(slices.Clone(key), g.seq, kind), Value: slices.Clone(value)})
		g.m.Add(g.seq, kind, key, value)
		clear(key) // the memtable must have copied key and value
		clear(value)
	}
	g.m.EndWrite()
}

func (g *rig) checkGet(key []byte, seq base.Seq) {
	g.t.Helper()
	want := ""
	if i := g.model.seekGE(key, seq); i < len(g.model) && bytes.Equal(g.model[i].UserKey, key) {
		want = describe(&g.model[i])
	}
	got := ""
	if value, kind, found, s := g.m.Get(key, seq); found {
		got = describe(&base.KV{InternalKey: base.NewKey(key, s, kind), Value: value})
	}
	if got != want {
		g.t.Fatalf("Get(%q, %d) = %q, want %q", key, seq, got, want)
	}
	if want != "" && !g.m.MayContain(key) {
		g.t.Fatalf("MayContain denies %q", key)
	}
}

func describe(kv *base.KV) string {
	if kv == nil {
		return ""
	}
	return fmt.Sprintf("%q#%d,%s=%q", kv.UserKey, kv.Seq(), kv.Kind(), kv.Value)
}

// A cursor is an iterator and its place in the model at one sequence number. Like a reader,
// it hides newer entries.
type cursor struct {
	it   base.Iterator
	seq  base.Seq
	seen model
	i    int
}

func (g *rig) cursor() *cursor {
	return &cursor{it: g.m.NewIterator(), seq: g.seq, seen: g.model.at(g.seq), i: -2}
}

func (c *cursor) skip(kv *base.KV, step func() *base.KV) *base.KV {
	for kv != nil && kv.Seq() > c.seq {
		kv = step()
	}
	return kv
}

// move makes one random movement and returns what it was and what it gave.
func (c *cursor) move(r *rand.Rand) (what string, got *base.KV) {
	valid := c.i >= 0 && c.i < len(c.seen)
	op := r.IntN(20)
	if op >= 4 && !valid {
		op %= 4
	}
	key, seq := randomKey(r), base.Seq(r.Uint64N(uint64(c.seq)+2))
	switch {
	case op == 0:
		c.i = 0
		return "First", c.skip(c.it.First(), c.it.Next)
	case op == 1:
		c.i = len(c.seen) - 1
		return "Last", c.skip(c.it.Last(), c.it.Prev)
	case op == 2:
		c.i = c.seen.seekGE(key, seq)
		return fmt.Sprintf("SeekGE(%q, %d)", key, seq), c.skip(c.it.SeekGE(key, seq), c.it.Next)
	case op == 3:
		c.i = c.seen.seekLT(key)
		return fmt.Sprintf("SeekLT(%q)", key), c.skip(c.it.SeekLT(key), c.it.Prev)
	case op < 12:
		c.i++
		return "Next", c.skip(c.it.Next(), c.it.Next)
	}
	c.i--
	return "Prev", c.skip(c.it.Prev(), c.it.Prev)
}

func (c *cursor) want() *base.KV {
	if c.i < 0 || c.i >= len(c.seen) {
		return nil
	}
	return &c.seen[c.i]
}

// TestModel_HeldIterators writes while iterators of many sequence numbers walk back and
// forth. It goes on reading after Freeze and Pack.
func TestModel_HeldIterators(t *testing.T) {
	testenv.SkipRace(t)
	for seed := range uint64(8) {
		g := newRig(t, seed)
		var cursors []*cursor
		for round := range 80 {
			switch {
			case round < 60:
				g.write(g.r.IntN(20))
				cursors = append(cursors, g.cursor())
			case round == 60:
				g.m.Freeze()
			case round == 70:
				g.m.Pack()
			}
			for range 10 {
				g.checkGet(randomKey(g.r), base.Seq(g.r.Uint64N(uint64(g.seq)+2)))
			}
			for n, c := range cursors {
				for range 8 {
					what, got := c.move(g.r)
					if got, want := describe(got), describe(c.want()); got != want {
						t.Fatalf("round %d, iterator %d at %d: %s = %s, want %s", round, n, c.seq, what, got, want)
					}
				}
			}
		}
		if g.m.Len() != len(g.model) {
			t.Fatalf("Len() = %d, want %d", g.m.Len(), len(g.model))
		}
	}
}

// TestModel_LongWalks walks through more entries than the longest run has, both ways, and
// turns around at every place near the ends of runs.
func TestModel_LongWalks(t *testing.T) {
	testenv.SkipRace(t)
	g := newRig(t, 7)
	g.write(400)
	c := g.cursor()
	c.i = 0
	check := func(what string, got *base.KV) {
		t.Helper()
		if got, want := describe(got), describe(c.want()); got != want {
			t.Fatalf("%s to %d = %s, want %s", what, c.i, got, want)
		}
	}
	check("First", c.it.First())
	for c.i < len(c.seen) {
		c.i++
		check("Next", c.it.Next())
	}
	check("Next at the end", c.it.Next())
	check("Prev at the end", c.it.Prev())
	c.i = len(c.seen) - 1
	check("Last", c.it.Last())
	for c.i >= 0 {
		c.i--
		check("Prev", c.it.Prev())
	}
	check("Prev at the front", c.it.Prev())
	check("Next at the front", c.it.Next())
	for turn := range len(c.seen) {
		c.i = 0
		check("First", c.it.First())
		for c.i < turn {
			c.i++
			check("Next", c.it.Next())
		}
		for c.i >= max(0, turn-20) {
			c.i--
			check("Prev", c.it.Prev())
		}
	}
}
