package sstable

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// TestDataSeek compares seeks in one block with a search in a slice. The blocks have few or
// many entries, short suffixes, many keys with the same first eight bytes, or many versions
// of a key.
func TestDataSeek(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 9))
	part := func(n int) []byte { return bytes.Repeat([]byte{"\x00a\xff"[rng.IntN(3)]}, rng.IntN(n)) }
	randomKey := func() []byte { return slices.Concat(part(10), part(3), part(10)) }
	seeks := 0
	for range 200 {
		var keys []base.InternalKey
		prefix, versions := part(6), 1+rng.IntN(20)
		for range 1 + rng.IntN(1<<rng.IntN(9)) {
			keys = append(keys, base.NewKey(append(slices.Clone(prefix), randomKey()...), base.Seq(rng.IntN(versions)), base.KindPut))
		}
		slices.SortFunc(keys, base.Compare)
		keys = slices.CompactFunc(keys, func(a, b base.InternalKey) bool { return base.Compare(a, b) == 0 })
		var b dataBuilder
		for _, k := range keys {
			b.add(k, part(20), 0)
		}
		payload := b.finish()
		if err := checkData(payload); err != nil {
			t.Fatal(err)
		}
		d := viewData(payload)
		for range 100 {
			target := base.NewKey(append(slices.Clone(prefix), randomKey()...), base.Seq(rng.IntN(versions+1)), base.KindMax)
			if rng.IntN(2) == 0 {
				target.UserKey = slices.Clone(keys[rng.IntN(len(keys))].UserKey)
			}
			want := sort.Search(len(keys), func(i int) bool { return base.Compare(keys[i], target) >= 0 })
			lo := 0
			if want > 0 {
				lo = rng.IntN(want + 1)
			}
			if got := d.seek(target.UserKey, target.Trailer, lo); got != want {
				t.Fatalf("seek(%v) from %d = %d of %d, want %d; prefix %q", target, lo, got, d.n, want, d.prefix)
			}
			seeks++
		}
	}
	t.Logf("%d seeks", seeks)
}
