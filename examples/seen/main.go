// Command seen recommends items that a user has not been shown before. The store has a value
// for each user: a filter of the items that the user was shown. Each request reads the filter,
// asks it, adds to it and writes it back. It is an example of sketch.Scalable, which grows with
// the number of items that a user has seen.
//
//	go run ./examples/seen
//
// makes 20,000 requests of 1,000 users for ten items each, compares the answers with exact sets,
// and prints
//
//	200000 items were shown, 0 of them twice.
//	Of the items that users have not seen, 0.41 % are withheld, predicted 0.41 %.
//	A user's filter has 566 bytes, a list of ids of 8 bytes would have 1600, and a set of names takes 10814.
//
// An item that a user was shown is never shown to this user again. A few items that were not
// shown are taken for shown, and are never shown either. Nobody misses them if there are more
// items than anybody can see.
package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/sketch"
)

// A service recommends items, which are numbered by their popularity. Any number of goroutines
// may call it at once.
//
// Two requests of one user at the same time would both read the old filter, and the items of one
// would be lost. So a request holds the lock of the user, which some other users have too. That
// is enough, because only one process can have the store open.
type service struct {
	db    *shale.DB
	items int
	seed  maphash.Seed
	locks [64]sync.Mutex
}

// propose draws an item, a popular one more often. A better recommender would take its place.
func (s *service) propose() []byte {
	return fmt.Appendf(nil, "item-%d", int(float64(s.items)*math.Pow(rand.Float64(), 4)))
}

// recommend returns up to n items that were never shown to user. It records them in the store as
// shown before it returns.
func (s *service) recommend(user string, n int) (items []string, err error) {
	lock := &s.locks[maphash.String(s.seed, user)%uint64(len(s.locks))]
	lock.Lock()
	defer lock.Unlock()
	f, err := s.filter(user)
	if err != nil {
		return nil, err
	}
	for tries := 50 * n; len(items) < n && tries > 0; tries-- {
		item := s.propose()
		shown, err := f.CheckAndAdd(item)
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", user, err)
		}
		if !shown {
			items = append(items, string(item))
		}
	}
	value, err := f.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", user, err)
	}
	return items, s.db.Put([]byte(user), value)
}

// filter returns the filter of the items that the user was shown. It returns an error for a
// filter that cannot be read. A new filter in its place would show everything again.
func (s *service) filter(user string) (*sketch.Scalable, error) {
	value, err := s.db.Get([]byte(user))
	if errors.Is(err, shale.ErrNotFound) {
		return sketch.NewScalable(sketch.ScalableOptions{Capacity: 100, FPR: 0.01}) // grows after 100 items
	}
	if err != nil {
		return nil, err
	}
	f := new(sketch.Scalable)
	if err := f.UnmarshalBinary(value); err != nil {
		return nil, fmt.Errorf("user %q: %w", user, err)
	}
	return f, nil
}

// simulate makes requests of random users for ten items each, four at a time, and compares the
// answers with exact sets.
func simulate(s *service, requests, users int, out io.Writer) error {
	var mu sync.Mutex // guards what follows
	seen := make(map[string]map[string]bool)
	shown, twice := 0, 0
	request := func(user string) error {
		items, err := s.recommend(user, 10)
		mu.Lock()
		defer mu.Unlock()
		if seen[user] == nil {
			seen[user] = make(map[string]bool)
		}
		for _, item := range items {
			shown++
			if seen[user][item] {
				twice++
			}
			seen[user][item] = true
		}
		return err
	}
	var group sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		group.Go(func() { // simulate waits for it
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for n := i; n < requests && failed[i] == nil; n += len(failed) {
				failed[i] = request(fmt.Sprintf("user-%d", rng.IntN(users)))
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d items were shown, %d of them twice.\n", shown, twice)
	return report(s, seen, shown, out)
}

// report prints how many of the items that users have not seen are withheld, and what the
// filters take.
func report(s *service, seen map[string]map[string]bool, shown int, out io.Writer) error {
	size, fresh, withheld, predicted, sets := 0, 0, 0, 0.0, bytesOfSets(seen)
	for user, items := range seen {
		f, err := s.filter(user)
		if err != nil {
			return err
		}
		value, err := f.AppendBinary(nil)
		if err != nil {
			return err
		}
		size += len(value)
		for i := range s.items {
			item := fmt.Sprintf("item-%d", i)
			if items[item] {
				continue
			}
			fresh++
			predicted += f.FPR()
			if f.MayContainString(item) {
				withheld++
			}
		}
	}
	fmt.Fprintf(out, "Of the items that users have not seen, %.2f %% are withheld, predicted %.2f %%.\n",
		100*float64(withheld)/float64(max(fresh, 1)), 100*predicted/float64(max(fresh, 1)))
	fmt.Fprintf(out, "A user's filter has %d bytes, a list of ids of 8 bytes would have %d, and a set of names takes %d.\n",
		size/len(seen), 8*shown/len(seen), sets/len(seen))
	return nil
}

// bytesOfSets returns the memory of sets of names, as a cache would hold them: one for each user.
func bytesOfSets(seen map[string]map[string]bool) int {
	before := heap()
	copies := make([]map[string]struct{}, 0, len(seen))
	for _, items := range seen {
		set := make(map[string]struct{})
		for item := range items {
			set[strings.Clone(item)] = struct{}{}
		}
		copies = append(copies, set)
	}
	bytes := heap() - before
	runtime.KeepAlive(copies)
	return int(bytes)
}

// heap returns the bytes of all objects on the heap that are in use. Pools need two collections to become empty.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// run simulates in a store in dir.
func run(dir string, requests, users int, out io.Writer) (err error) {
	// A power cut may undo the writes of the last tenth of a second. The items of these requests
	// may be shown again. SyncEach would prevent that, at the cost of an fsync for each request.
	db, err := shale.Open(dir, &shale.Options{Durability: shale.SyncPeriodic})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return simulate(&service{db: db, items: 10_000, seed: maphash.MakeSeed()}, requests, users, out)
}

func main() {
	dir, err := os.MkdirTemp("", "seen")
	if err == nil {
		err = errors.Join(run(dir, 20_000, 1000, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}
