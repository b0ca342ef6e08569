package tree

import (
	"bytes"
	"errors"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Estimates are what a caller has worked out from the ranges of keys of all tables,
// newest run first. A version keeps them, because they do not change.
type Estimates struct {
	LiveShares []float64 // see compaction.LiveShares
	KeyShares  []float64 // see filterplan.KeySpread
	// Largest says which run the KeyShares are shares of, counted from the last run, which is 1. A
	// run keeps its number when newer runs come or go. 0: there is none.
	Largest int
	// Partial says that filters, indexes or samples were still being read. Such estimates are not kept.
	Partial bool
}

// last returns the estimates of the last n runs.
func (e Estimates) last(n int) Estimates {
	e.LiveShares, e.KeyShares = e.LiveShares[len(e.LiveShares)-n:], e.KeyShares[len(e.KeyShares)-n:]
	return e
}

// A passedOn is what a version knows of the estimates of earlier versions: those of its last
// runs, as far as few of their tables have changed since.
//
// The estimates look at 64 tables of a run. So they are no worse if a table in driftShare has
// changed, and a run of as many tables pays for new ones with as many compactions.
type passedOn struct {
	Estimates
	drift []int // how many tables of each of these runs have changed since it was estimated
}

// driftShare: see passedOn. Of a run with fewer tables all estimates are of the run itself.
const driftShare = 128

// Estimates returns what compute has returned for v. It calls compute the first time, and
// may do so again if several goroutines are first. known are the estimates of the last runs
// that need not be computed again. The caller must not change the result.
func (v *Version) Estimates(compute func(known Estimates) Estimates) *Estimates {
	if e := v.estimates.Load(); e != nil {
		return e
	}
	e := compute(v.known.Estimates)
	if !e.Partial {
		v.estimates.Store(&e)
	}
	return &e
}

// knownFor returns what is known for next, the version after v, before anybody asks for it.
func (v *Version) knownFor(next *Version) passedOn {
	known := v.known
	if e := v.estimates.Load(); e != nil {
		// What was known before is in e as it was, and its drift goes on.
		known = passedOn{*e, append(make([]int, len(v.Runs)-len(known.drift)), known.drift...)}
	}
	n := 0
	var drift []int // of the last runs of next, last run first
	for n < min(len(known.drift), len(next.Runs)) {
		old, now := v.Runs[len(v.Runs)-1-n], next.Runs[len(next.Runs)-1-n]
		changed := known.drift[len(known.drift)-1-n]
		if now != old {
			changed += now.changed
		}
		if now.Level != old.Level || now.id != old.id || changed*driftShare > len(now.Tables) {
			break
		}
		drift = append(drift, changed)
		n++
	}
	slices.Reverse(drift)
	return passedOn{known.last(n), drift}
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
