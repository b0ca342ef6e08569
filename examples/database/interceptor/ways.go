package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A lookup returns the profile of a user, and sql.ErrNoRows if there is none.
type lookup func(ctx context.Context, id string) (profile string, err error)

// denying returns a lookup that asks next for those ids only that may be there.
func denying(mayContain func(id string) bool, next lookup) lookup {
	return func(ctx context.Context, id string) (string, error) {
		if !mayContain(id) {
			return "", sql.ErrNoRows
		}
		return next(ctx, id)
	}
}

// How long a cache keeps an answer. That there is no such user must not be kept for long: somebody may take the
// name meanwhile.
const (
	presentFor = time.Minute
	absentFor  = time.Second
)

// A cache keeps answers, those that found nobody too. Any number of goroutines may use it.
type cache struct {
	next lookup
	now  func() time.Time

	mu      sync.Mutex
	answers map[string]answer
	sweepAt int // number of answers at which the old ones are removed
}

type answer struct {
	profile string
	err     error
	until   time.Time
}

func newCache(next lookup, now func() time.Time) *cache {
	return &cache{next: next, now: now, answers: make(map[string]answer), sweepAt: 1024}
}

func (c *cache) find(ctx context.Context, id string) (string, error) {
	c.mu.Lock()
	a, ok := c.answers[id]
	c.mu.Unlock()
	if now := c.now(); ok && now.Before(a.until) {
		return a.profile, a.err
	}
	profile, err := c.next(ctx, id)
	switch {
	case err == nil:
		c.keep(id, answer{profile, nil, c.now().Add(presentFor)})
	case errors.Is(err, sql.ErrNoRows):
		c.keep(id, answer{"", sql.ErrNoRows, c.now().Add(absentFor)})
	}
	return profile, err
}

func (c *cache) keep(id string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers[id] = a; len(c.answers) >= c.sweepAt {
		now := c.now()
		maps.DeleteFunc(c.answers, func(_ string, a answer) bool { return !now.Before(a.until) })
		c.sweepAt = max(1024, 2*len(c.answers))
	}
}

// compare prints how many queries in vain each way leaves to the database, if 1000 requests come a second and nine
// in ten are for users who do not exist: for another id each time, or for the same hundred.
func compare(ctx context.Context, u *users, ids *IDs, requests, n int, out io.Writer) error {
	before, set := heap(), make(map[string]struct{})
	if err := u.each(ctx, func(id string) error { set[id] = struct{}{}; return nil }); err != nil {
		return err
	}
	setBytes := heap() - before
	vain, now := 0, time.Unix(0, 0)
	var table lookup = func(ctx context.Context, id string) (string, error) {
		profile, err := u.find(ctx, id)
		if errors.Is(err, sql.ErrNoRows) {
			vain++
		}
		return profile, err
	}
	inSet := func(id string) bool { _, ok := set[id]; return ok }
	kept := newCache(table, func() time.Time { return now })
	fmt.Fprintf(out, "\nQueries in vain:          other ids  the same 100      memory\n")
	for _, way := range []struct {
		name   string
		find   lookup
		memory string
	}{
		{"no guard", table, "-"},
		{"answers kept a second", kept.find, "-"},
		{"set of all ids", denying(inSet, table), fmt.Sprint(max(setBytes, 0), " B")},
		{"filter of all ids", denying(ids.MayContain, table), fmt.Sprint(ids.current.Load().SizeBytes(), " B")},
	} {
		var counts [2]int
		for attack, absentIDs := range []int{1_000_000_000, 100} {
			rng := rand.New(rand.NewPCG(3, uint64(attack)))
			vain = 0
			for range requests {
				id, want := fmt.Sprint("user", rng.IntN(n)), error(nil)
				if rng.Float64() < 0.9 {
					id, want = fmt.Sprint("nobody", rng.IntN(absentIDs)), sql.ErrNoRows
				}
				if _, err := way.find(ctx, id); !errors.Is(err, want) {
					return fmt.Errorf("%s: %s: %v, want %v", way.name, id, err, want)
				}
				now = now.Add(time.Millisecond)
			}
			counts[attack] = vain
		}
		fmt.Fprintf(out, "%-22s %12d %13d  %10s\n", way.name, counts[0], counts[1], way.memory)
	}
	runtime.KeepAlive(set)
	return nil
}

// heap returns the bytes of all objects on the heap that are in use. Pools need two collections to become empty.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// outage prints what filters answer while neither cache nor database does. One was filled by the answers that were
// given before, as a filter of what the cache had. It denies users for whom nobody has asked yet. The other is the
// filter of the table.
func outage(ids *IDs, requests, n int, out io.Writer) error {
	hasher := bloom.Must(bloom.NewHasher(bloom.HashSipHash, rand.Uint64()))
	asked, err := bloom.NewFilter(bloom.FilterOptions{Keys: uint64(n), Hasher: hasher})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(5, 6))
	popular := rand.NewZipf(rng, 1.1, 10, uint64(n-1))
	present, wrongAsked, wrongAll, vain := 0, 0, 0, 0
	for i := range 2 * requests {
		id, exists := fmt.Sprint("nobody", rng.IntN(1_000_000_000)), rng.Float64() < 0.1
		if exists {
			id = fmt.Sprint("user", popular.Uint64())
		}
		switch down := i >= requests; {
		case !down && exists:
			if err := asked.AddString(id); err != nil {
				return err
			}
		case down && exists:
			present++
			if !asked.MayContainString(id) {
				wrongAsked++
			}
			if !ids.MayContain(id) {
				wrongAll++
			}
		case down && ids.MayContain(id):
			vain++
		}
	}
	fmt.Fprintf(out, "\nWhile cache and database are down, the filter denies %d of %d users who do not exist, and %d of %d who do.\n"+
		"A filter of the users who were asked for before denies %d of these.\n", requests-present-vain, requests-present, wrongAll, present, wrongAsked)
	return nil
}
