package sstable

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// An expirySample collects when the expiring entries of a table are over. It keeps the times of a
// part of the keys, those whose hash has low bits of zero, so that a pattern in the keys does not
// matter and equal tables give equal samples.
type expirySample struct {
	n     uint64
	first int64 // the earliest time of all
	last  int64
	mask  uint64
	times []sampledExpiry
}

type sampledExpiry struct {
	hash uint64
	ms   int64
}

// maxExpirySample is how many times are kept: a quantile is off by some hundredths of the entries.
const maxExpirySample = 2048

// add counts an entry. The low byte of the hash is its tag, which does not matter here.
func (s *expirySample) add(hash uint64, stored []byte) {
	ms, _ := base.CutExpiry(stored)
	if s.n == 0 || ms < s.first {
		s.first = ms
	}
	s.n++
	s.last = max(s.last, ms)
	if hash&s.mask != 0 {
		return
	}
	s.times = append(s.times, sampledExpiry{hash, ms})
	for len(s.times) > maxExpirySample && s.mask != ^uint64(0) {
		s.mask = s.mask<<1 | 1
		s.times = slices.DeleteFunc(s.times, func(t sampledExpiry) bool { return t.hash&s.mask != 0 })
	}
}

// quantiles returns when the first of the entries is over, when each eighth is, and when all are. The
// first and the last are exact.
func (s *expirySample) quantiles() (q [9]int64) {
	if s.n == 0 {
		return q
	}
	times := make([]uint64, len(s.times)) // none is below 0
	for i, t := range s.times {
		times[i] = uint64(t.ms)
	}
	slices.Sort(times)
	for i := range q {
		q[i] = s.last
		if n := len(times); i > 0 && n > 0 {
			q[i] = int64(times[(i*n-1)/(len(q)-1)])
		}
	}
	q[0], q[len(q)-1] = s.first, s.last
	return q
}
