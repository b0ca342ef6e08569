package sstable

import (
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// Ahead names the block that Get looks into, if the index has one level. It reads nothing.
func TestReader_Ahead(t *testing.T) {
	for name, list := range shapes() {
		for _, partition := range []int{0, 120} {
			r := newTable(t, WriterOptions{BlockSize: 200, IndexPartition: partition}, list)
			for _, e := range list {
				for _, seq := range []base.Seq{e.key.Seq(), base.MaxSeq} {
					reads := r.stats.BlockReads.Load()
					a := r.Ahead(e.key.UserKey, seq)
					a.Block()
					if r.stats.BlockReads.Load() != reads {
						t.Fatalf("%s: Ahead(%q) has read a block", name, e.key)
					}
					var v Value
					var trace Trace
					if found, err := r.Get(e.key.UserKey, bloom.Hash(e.key.UserKey), seq, &v, &trace); !found || err != nil {
						t.Fatalf("%s: Get(%q) = %v, %v", name, e.key, found, err)
					}
					v.Release()
					last := trace.Reads[len(trace.Reads)-1]
					if want := r.foot.levels == 1; (a.r == r) != want || want && a.h.offset != last.Offset {
						t.Fatalf("%s: Ahead(%q) names %+v; Get has looked into %+v", name, e.key, a.h, last)
					}
					a.Block() // now it is in the cache
				}
			}
		}
	}
}
