package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
)

// A modelIter does what an Iterator does, over a slice.
type modelIter struct {
	list []entry
	at   int // -1: not on an entry
}

func (m *modelIter) show(at int) *entry {
	if at < 0 || at >= len(m.list) {
		m.at = -1
		return nil
	}
	m.at = at
	return &m.list[at]
}

func (m *modelIter) seekGE(key []byte, seq base.Seq) *entry {
	k := base.NewKey(key, seq, base.KindMax)
	return m.show(sort.Search(len(m.list), func(i int) bool { return base.Compare(m.list[i].key, k) >= 0 }))
}

func (m *modelIter) seekLT(key []byte) *entry {
	return m.show(sort.Search(len(m.list), func(i int) bool {
		return bytes.Compare(m.list[i].key.UserKey, key) >= 0
	}) - 1)
}

// step does one random operation on both.
func (m *modelIter) step(rng *rand.Rand, it base.Iterator, key []byte) (op string, got *base.KV, want *entry) {
	seq := base.Seq(rng.IntN(60))
	if rng.IntN(4) == 0 {
		seq = base.MaxSeq
	}
	s, inSteps := it.(base.StepSeeker)
	switch n := rng.IntN(24); {
	case n == 0:
		return "First", it.First(), m.show(0)
	case n == 1:
		return "Last", it.Last(), m.show(len(m.list) - 1)
	case n >= 20 && n < 22 && inSteps:
		for step := range base.SeekSteps {
			s.SeekStep(step, key, seq)
		}
		return fmt.Sprintf("SeekGE(%q, %d) in steps", key, seq), s.SeekEnd(key, seq), m.seekGE(key, seq)
	case n >= 22 && inSteps:
		for step := range base.SeekSteps {
			s.SeekLTStep(step, key)
		}
		return fmt.Sprintf("SeekLT(%q) in steps", key), s.SeekLTEnd(key), m.seekLT(key)
	case n < 5:
		return fmt.Sprintf("SeekGE(%q, %d)", key, seq), it.SeekGE(key, seq), m.seekGE(key, seq)
	case n < 8:
		return fmt.Sprintf("SeekLT(%q)", key), it.SeekLT(key), m.seekLT(key)
	case m.at < 0:
		return "Next", it.Next(), nil
	case n < 14:
		return "Next", it.Next(), m.show(m.at + 1)
	}
	return "Prev", it.Prev(), m.show(m.at - 1)
}

// nearKey is randomKey, but mostly a key that is a few entries from where m stands.
func (m *modelIter) nearKey(rng *rand.Rand) []byte {
	if m.at < 0 || rng.IntN(3) == 0 {
		return randomKey(rng, m.list)
	}
	at := min(max(m.at+rng.IntN(61)-30, 0), len(m.list)-1)
	return randomKey(rng, m.list[at:at+1])
}

// TestIterator_Model runs random operations, with changes of direction and
// seeks near and far, against a slice. The index leaves memory and comes back meanwhile.
// Of every other table, the source now and then can't read without waiting, or not at all.
func TestIterator_Model(t *testing.T) {
	testenv.SkipRace(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	options := []WriterOptions{
		{Codec: &SnappyCodec, BlockSize: 100},
		{Codec: nil, BlockSize: 300, IndexPartition: 150},
		{Codec: &SnappyCodec},
		{Codec: &SnappyCodec, BlockSize: 200, IndexPartition: 150},
		{Codec: &SnappyCodec, BlockSize: 200},
	}
	for name, list := range shapes() {
		for n, o := range options {
			r := newTable(t, o, list)
			if n > 1 {
				r.try = &moodySource{r.src, rng}
				r.cache = cache.New(int64(n-2) * 10_000)
			}
			if rng.IntN(2) == 0 {
				r.DropIndex()
			}
			it := r.NewIteratorWith(nil, IterOptions{NoFill: n == 1, Readahead: n % 2 * (4 - n) * 250})
			m := &modelIter{list: list, at: -1}
			history := []string{name}
			for range 1500 {
				if rng.IntN(200) == 0 && !r.DropIndex() {
					if err := r.LoadIndex(); err != nil {
						t.Fatal(err)
					}
				}
				op, got, want := m.step(rng, it, m.nearKey(rng))
				history = append(history, op)
				if (got == nil) != (want == nil) || got != nil && !sameEntry(got, *want) {
					t.Fatalf("%v = %v, want %v", history[max(0, len(history)-8):], got, want)
				}
				if it.Err() != nil {
					t.Fatalf("%v: Err() = %v", op, it.Err())
				}
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// randomKey returns a key of the list, often changed a little.
func randomKey(rng *rand.Rand, list []entry) []byte {
	if len(list) == 0 || rng.IntN(20) == 0 {
		return []byte{byte(rng.IntN(256))}
	}
	k := bytes.Clone(list[rng.IntN(len(list))].key.UserKey)
	switch rng.IntN(5) {
	case 0:
		k = append(k, byte(rng.IntN(256)))
	case 1:
		k = k[:rng.IntN(len(k)+1)]
	case 2:
		if len(k) > 0 {
			k[rng.IntN(len(k))]++
		}
	}
	return k
}
