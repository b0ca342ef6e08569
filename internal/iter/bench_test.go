package iter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// sliceIter is the cheapest child there can be.
type sliceIter struct {
	kvs []base.KV
	i   int
}

func (s *sliceIter) at(i int) *base.KV {
	s.i = i
	if uint(i) < uint(len(s.kvs)) {
		return &s.kvs[i]
	}
	return nil
}

func (s *sliceIter) First() *base.KV { return s.at(0) }
func (s *sliceIter) Last() *base.KV  { return s.at(len(s.kvs) - 1) }
func (s *sliceIter) Next() *base.KV  { return s.at(s.i + 1) }
func (s *sliceIter) Prev() *base.KV  { return s.at(s.i - 1) }
func (s *sliceIter) Err() error      { return nil }
func (s *sliceIter) Close() error    { return nil }
func (s *sliceIter) SeekGE(key []byte, seq base.Seq) *base.KV {
	return s.at(seekGE(s.kvs, key, seq))
}
func (s *sliceIter) SeekLT(key []byte) *base.KV { return s.at(seekGE(s.kvs, key, base.MaxSeq) - 1) }

// benchHands deals 100,000 ascending keys to k children, in stretches of burst
// keys. Real levels hold neighbouring keys, and a large level has most of the keys.
func benchHands(k, burst int, key func(i int) []byte) []base.Iterator {
	r := rand.New(rand.NewPCG(6, 6))
	hands := make([]*sliceIter, k)
	for i := range hands {
		hands[i] = &sliceIter{}
	}
	for i := 0; i < 100_000; {
		h := hands[r.IntN(k)]
		for range burst {
			h.kvs = append(h.kvs, base.KV{InternalKey: base.NewKey(key(i), base.Seq(i+1), base.KindPut)})
			i++
		}
	}
	var children []base.Iterator
	for _, h := range hands {
		h.kvs = slices.Clip(h.kvs)
		children = append(children, h)
	}
	return children
}

var benchShapes = []struct {
	name string
	key  func(i int) []byte
}{
	{"uint64", func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }},
	{"user12d", func(i int) []byte { return fmt.Appendf(nil, "user%012d", i) }},
	{"url", func(i int) []byte { return fmt.Appendf(nil, "https://example.org/%08x", i) }},
}

// A oneTable is a run whose tables are all the same, and take no time to open.
type oneTable struct{ it sliceIter }

func (o *oneTable) Bounds(i int) (smallest, largest []byte) { return nil, nil }
func (o *oneTable) Open(i int) (base.Iterator, error)       { return &o.it, nil }

func TestAllocations_None(t *testing.T) {
	merged := NewMerging(benchHands(5, 3, benchShapes[1].key)...)
	concat := NewConcat(10, &oneTable{it: *benchHands(1, 1, benchShapes[0].key)[0].(*sliceIter)})
	key := []byte("user000000000777")
	for _, it := range []base.Iterator{merged, concat} {
		it.First()
		n := testing.AllocsPerRun(1000, func() {
			it.Next()
			it.Next()
			it.SeekLT(key)
			it.Prev()
			it.SeekGE(key, 9)
			it.Next()
			it.First()
		})
		if n != 0 {
			t.Errorf("%T: %v allocations, want 0", it, n)
		}
	}
}
