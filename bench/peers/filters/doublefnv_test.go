package main

import (
	"hash/fnv"
	"strconv"
	"testing"

	"github.com/riobard/go-bloom"
	"github.com/shaledb/shale/bloom/hashes"
)

// asked is how many keys are asked for in each comparison, those that were added first.
const asked = 100_000

func key(i int) []byte { return strconv.AppendInt([]byte("key-"), int64(i), 10) }

// doubleFNV is written from the standard library, as in the tests of the peer.
func doubleFNV(key []byte) (h1, h2 uint64) {
	one, a := fnv.New64(), fnv.New64a()
	_, _ = one.Write(key)
	_, _ = a.Write(key)
	return one.Sum64(), a.Sum64()
}

// A bit array made with package hashes answers as a filter of the peer, whose bits cannot
// be seen.
func TestDoubleFNV(t *testing.T) {
	for _, c := range []struct {
		keys   int
		fpr    float64
		probes int // the peer rounds down
	}{{10, 0.1, 3}, {1000, 0.01, 6}, {20_000, 0.001, 9}, {50_000, 1e-6, 19}} {
		theirs := bloom.New(c.keys, c.fpr, doubleFNV)
		bits := make([]byte, theirs.Size())
		for i := range c.keys {
			theirs.Add(key(i))
			h1, h2 := hashes.DoubleFNV(key(i))
			for x := range hashes.Positions(h1, h2, 8*uint64(len(bits)), c.probes) {
				bits[x/8] |= 1 << (x % 8)
			}
		}
		yes, differing := 0, 0
		for i := range asked {
			may := true
			h1, h2 := hashes.DoubleFNV(key(i))
			for x := range hashes.Positions(h1, h2, 8*uint64(len(bits)), c.probes) {
				may = may && bits[x/8]&(1<<(x%8)) != 0
			}
			if may {
				yes++
			}
			if may != theirs.Test(key(i)) {
				differing++
			}
		}
		if differing > 0 || yes < c.keys {
			t.Errorf("%d keys: %d of %d answers differ, %d are yes", c.keys, differing, asked, yes)
		}
	}
}
