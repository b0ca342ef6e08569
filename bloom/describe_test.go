package bloom_test

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// These are the tables that filters print, one for each form of them.
func TestString_Transcript(t *testing.T) {
	filter := bloom.New(1000, 0.01)
	cuckoo := get(sketch.NewCuckoo(sketch.CuckooOptions{Keys: 1000}))
	var hashes []uint64
	for i := range 1000 {
		key := fmt.Appendf(nil, "key-%d", i)
		must(filter.Add(key), cuckoo.Add(key))
		hashes = append(hashes, bloom.Hash(key))
	}
	fuse := get(bloom.OpenFuse(get(bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 12}))))
	if got := filter.Clone().String(); got != filter.String() {
		t.Errorf("a copy prints as\n%s", got)
	}
	got := fmt.Sprintf("%v\n%v\n%v\n%v\n", filter, cuckoo, fuse, get(sketch.NewBitset(sketch.BitsetOptions{})))
	const want = `bloom.Filter:
  keys                   1000
  keys planned           1000
  bits                   9600
  probes                    7
  bits set               4937
  fill ratio           51.4 %
  false maybes        0.997 %
  rate planned            1 %
sketch.Cuckoo:
  keys                   1000
  bits                  12672
  places taken           1000
  fill ratio           94.7 %
  false maybes        0.184 %
bloom.Fuse:
  keys                   1000
  bits                  11328
  false maybes        0.391 %
sketch.Bitset:
  keys                      0
  bits                      0
  bits set                  0
  fill ratio            0.0 %
  false maybes            0 %
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
