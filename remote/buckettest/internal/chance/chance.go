// Package chance is how a bucket and a proxy with faults choose these, and what the faults do to bytes. It is for
// tests only.
package chance

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Even returns the rates with which each of the faults from 1 to last happens equally often, and all together to
// a part of the calls, from 0 to 1.
func Even[F ~int](last F, part float64) map[F]float64 {
	rates := make(map[F]float64)
	for f := F(1); f <= last; f++ {
		rates[f] = part / float64(last)
	}
	return rates
}

// Choose returns the fault of the n-th call, from 1 to last, or 0 for none. The same seed and rates choose the
// same faults.
func Choose[F ~int](seed uint64, n int64, last F, rates map[F]float64) F {
	x := rand.New(rand.NewPCG(seed, uint64(n))).Float64()
	for f := F(1); f <= last; f++ {
		if x < rates[f] {
			return f
		}
		x -= rates[f]
	}
	return 0
}

// Numbers are random numbers, the same each time. The zero value is ready.
type Numbers struct{ x uint64 }

// Next returns the next number, of 31 bits.
func (n *Numbers) Next() uint64 {
	n.x = n.x*6364136223846793005 + 1442695040888963407
	return n.x >> 33
}

// Cut returns data without some bytes at its end.
func Cut(data []byte, random uint64) []byte {
	if len(data) == 0 {
		return data
	}
	return data[:random%uint64(len(data))]
}

// Flip returns a copy of data with one bit changed.
func Flip(data []byte, random uint64) []byte {
	data = slices.Clone(data)
	if len(data) > 0 {
		data[random/8%uint64(len(data))] ^= 1 << (random % 8)
	}
	return data
}

// Wait waits for d, or for the end of ctx, whose error it returns.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
