package tree

// Estimates are what a caller has worked out from the ranges of keys
// of all tables. A version keeps them, because they do not change.
type Estimates struct {
	LiveBytes int64     // see compaction.LiveBytes
	KeyShares []float64 // by run: see filterplan.KeySpread
}

// Estimates returns what compute has returned for v. It calls compute the first time,
// and may do so again if several goroutines are first. The caller must not change the result.
func (v *Version) Estimates(compute func() Estimates) *Estimates {
	if e := v.estimates.Load(); e != nil {
		return e
	}
	e := compute()
	v.estimates.Store(&e)
	return &e
}
