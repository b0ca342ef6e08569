package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/input"
)

// A service recommends items. Any number of goroutines may call it at once.
//
// A request reads the user's filter from the store, changes it, and writes it back. Two
// requests of one user at the same time would both read the old filter, and the items of
// one would be lost. So a request holds the lock of the user's stripe. Requests of users in
// different stripes run in parallel.
type service struct {
	config
	db    *shale.DB
	items []string
	sums  []float64 // sums[i] is the popularity of items 0 to i

	// stripes has the locks, one for many users.
	stripes [64]stripe
}

// A stripe is what the users with the same hash share.
type stripe struct {
	sync.Mutex
	checked // guarded by the mutex
}

// maxN is the largest number of items that a request may ask for.
const maxN = 1000

// newService returns a service that recommends items, the most popular of which
// is the first.
func newService(c config, db *shale.DB, items []string) *service {
	s := &service{config: c, db: db, items: items, sums: make([]float64, len(items))}
	sum := 0.0
	for rank := range items {
		sum += 1 / float64(rank+1)
		s.sums[rank] = sum
	}
	return s
}

// propose draws an item by its popularity, which is 1/r for rank r. A better
// recommender would take its place.
func (s *service) propose(rng *rand.Rand) string {
	i := sort.SearchFloat64s(s.sums, rng.Float64()*s.sums[len(s.sums)-1])
	return s.items[min(i, len(s.items)-1)]
}

// recommend returns up to n items that user was never shown. They count as shown from then
// on: the store has them before the caller can show them.
func (s *service) recommend(rng *rand.Rand, user string, n int) (items []string, err error) {
	st := s.stripe(user)
	st.Lock()
	defer st.Unlock()
	f, err := s.filter(user)
	if err != nil {
		return nil, err
	}
	check := st.begin(s, user, f)
	for tries := 50 * n; len(items) < n && tries > 0; tries-- {
		item := s.propose(rng)
		shown, err := f.CheckAndAdd([]byte(item))
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", user, err)
		}
		check.answer(item, !shown)
		if !shown {
			items = append(items, item)
		}
	}
	value, err := f.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", user, err)
	}
	if err := s.db.Put(userKey(user), value); err != nil {
		return nil, err
	}
	check.end()
	return items, nil
}

// stripe returns the stripe of a user. The same user always has the same one.
func (s *service) stripe(user string) *stripe {
	h := fnv.New64a()
	_, _ = h.Write([]byte(user)) // never fails
	return &s.stripes[h.Sum64()%uint64(len(s.stripes))]
}

// filter returns the filter of the items that the user was shown. It returns an error for a
// filter that cannot be read. A new filter in its place would show everything again.
func (s *service) filter(user string) (*sketch.Scalable, error) {
	value, err := s.db.Get(userKey(user))
	if errors.Is(err, shale.ErrNotFound) {
		return sketch.NewScalable(sketch.ScalableOptions{Capacity: s.capacity, FPR: s.fpr})
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

// prefix begins the key of each user.
const prefix = "seen/"

var everyUser = shale.Prefix(prefix)

func userKey(user string) []byte { return []byte(prefix + user) }

// serve answers requests, one a line: a user, and the number of items unless it
// is the usual one.
func serve(ctx context.Context, s *service, r io.Reader, out *bufio.Writer) error {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	lines := bufio.NewScanner(input.Interruptible(ctx, r, out.Flush))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		n := s.n
		if len(words) > 1 {
			var err error
			if n, err = strconv.Atoi(words[1]); err != nil || n < 1 || n > maxN || len(words) > 2 {
				fmt.Fprintf(out, "%q is not a user and a number from 1 to %d\n", lines.Text(), maxN)
				continue
			}
		}
		items, err := s.recommend(rng, words[0], n)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", words[0], strings.Join(items, " "))
	}
	return lines.Err()
}

// summary prints what the store has of all users, from this run and from earlier ones.
func (s *service) summary(out io.Writer) error {
	users, bytes, shown, rates := 0, 0, 0, 0.0
	for e, err := range s.db.Scan(everyUser) {
		if err != nil {
			return err
		}
		f := new(sketch.Scalable)
		if err := f.UnmarshalBinary(e.Value); err != nil {
			return fmt.Errorf("user %q: %w", e.Key[len(prefix):], err)
		}
		users++
		bytes += len(e.Value)
		shown += int(f.Count())
		rates += f.FPR()
	}
	if users == 0 {
		_, err := fmt.Fprintln(out, "No user was shown an item, so there is no filter and nothing is saved.")
		return err
	}
	each := 1 / float64(users)
	fmt.Fprintf(out, "%d users were shown %.1f items each; %.2f %% of the items that they have not seen are withheld now.\n", users, each*float64(shown), 100*each*rates)
	saves := fmt.Sprintf("saves %.0f %% of", 100-100*float64(bytes)/float64(8*shown))
	if bytes >= 8*shown {
		saves = "saves nothing yet beside"
	}
	_, err := fmt.Fprintf(out, "A user's filter has %.0f bytes and %s a list of ids of 8 bytes, which has %.0f.\n", each*float64(bytes), saves, 8*each*float64(shown))
	return err
}
