package bip37

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
func (f *Filter) MayContainKeys(keys [][]byte, out []bool) { form.MayContainKeys(f, keys, out) }
