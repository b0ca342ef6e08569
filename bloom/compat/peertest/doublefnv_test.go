package peertest

import (
	"hash/fnv"
	"testing"

	"github.com/riobard/go-bloom"
	"github.com/shaledb/shale/bloom/hashes"
)

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
		sameAnswers(t, "double FNV", func(key []byte) bool {
			h1, h2 := hashes.DoubleFNV(key)
			for x := range hashes.Positions(h1, h2, 8*uint64(len(bits)), c.probes) {
				if bits[x/8]&(1<<(x%8)) == 0 {
					return false
				}
			}
			return true
		}, theirs.Test)
	}
}
