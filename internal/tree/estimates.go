package tree

import (
	"bytes"
	"errors"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Estimates are what a caller has worked out from the ranges of keys of all tables,
// newest run first. A version keeps them, because they do not change.
type Estimates struct {
	LiveShares []float64 // see compaction.LiveShares
	KeyShares  []float64 // see filterplan.KeySpread
	// Partial says that filters, indexes or samples were still being read. Such estimates are not kept.
	Partial bool
}

// Estimates returns what compute has returned for v. It calls compute the first time, and
// may do so again if several goroutines are first. The caller must not change the result.
func (v *Version) Estimates(compute func() Estimates) *Estimates {
	if e := v.estimates.Load(); e != nil {
		return e
	}
	e := compute()
	if !e.Partial {
		v.estimates.Store(&e)
	}
	return &e
}

// MayHold implements compaction.Holds with the filters in memory. It does not count as a lookup.
func (r *Run) MayHold(key []byte) (maybe bool, rate float64) {
	t := r.Find(key)
	if t == nil {
		return false, 0
	}
	f := t.Filter()
	return f == nil || f.MayContainHash(f.Hasher().Hash(key)), t.PredictedFPR()
}

// SampleKeys returns some keys of n blocks of the table, as far as they are in the system's memory.
// later says that the others have been asked for, and will be there soon.
func (t *Table) SampleKeys(n int) (keys [][]byte, later bool) {
	const every, most = 8, 4 // of a block
	at := 0
	err := t.Reader.TrySample(n, func(kv *base.KV, first bool) error {
		if first {
			at = 0
		}
		if at%every == 0 && at < every*most {
			keys = append(keys, bytes.Clone(kv.UserKey))
		}
		at++
		return nil
	})
	return keys, errors.Is(err, vfs.ErrWouldWait)
}
