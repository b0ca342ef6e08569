package cache

import (
	"math"
	"testing"
)

// Blocks of a few files, one after the other, must spread evenly over shards
// and over the places in a table, whatever their size and numbers are.
func TestHash_Spreads(t *testing.T) {
	const buckets, perBucket = 64, 512
	for _, c := range []struct {
		name        string
		files, step uint64
	}{
		{"one file, 4 KiB blocks", 1, 4096},
		{"one file, blocks that are not aligned", 1, 1777},
		{"many files, one block each", buckets * perBucket, 0},
		{"eight files, 64 KiB blocks", 8, 65536},
	} {
		var shards, places [buckets]int
		for i := range uint64(buckets * perBucket) {
			h := Key{File: 1 + i%c.files, Offset: i / c.files * c.step}.hash()
			if h == 0 {
				t.Fatal("a hash is 0, which marks an empty slot")
			}
			shards[h>>1%buckets]++
			places[h>>58]++
		}
		limit := int(6 * math.Sqrt(perBucket)) // six standard deviations
		for i := range buckets {
			if n := shards[i] - perBucket; n > limit || n < -limit {
				t.Errorf("%s: shard %d gets %d keys, want about %d", c.name, i, shards[i], perBucket)
			}
			if n := places[i] - perBucket; n > limit || n < -limit {
				t.Errorf("%s: place %d gets %d keys, want about %d", c.name, i, places[i], perBucket)
			}
		}
	}
}
