package parquet

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

var _ bloom.Adder = (*Filter)(nil)

// AddKeys is Add for each of keys. It stops at the first error; the keys before that one
// have been added.
func (f *Filter) AddKeys(keys [][]byte) error { return form.AddKeys(f, keys) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Filter) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [64]uint64
	for len(keys) > 0 && len(out) > 0 {
		n := min(len(keys), len(out), len(hashes))
		for i, key := range keys[:n] {
			hashes[i] = Hash(key)
		}
		f.MayContainMany(hashes[:n], out[:n])
		keys, out = keys[n:], out[n:]
	}
	f.MayContainMany(nil, out)
}
