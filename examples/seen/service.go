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
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/input"
)

// A service recommends. Any number of goroutines may ask it at once.
type service struct {
	config
	db    *shale.DB
	items []string
	sums  []float64 // of the popularities of the items up to each

	// Two requests of one user at a time would both read the filter that knows
	// nothing of the other, and one's items would be forgotten. So each user has
	// one of these.
	stripes [64]stripe
}

// A stripe is what some users share.
type stripe struct {
	sync.Mutex
	checked // guarded by it
}

// maxN bounds what a request may ask for.
const maxN = 1000

func newService(c config, db *shale.DB, items []string) *service {
	s := &service{config: c, db: db, items: items, sums: make([]float64, len(items))}
	sum := 0.0
	for rank := range items {
		sum += 1 / float64(rank+1)
		s.sums[rank] = sum
	}
	return s
}

// propose returns an item, by its popularity: that of rank r is proposed in
// proportion to 1/r. A recommender of a better kind goes here.
func (s *service) propose(rng *rand.Rand) string {
	i := sort.SearchFloat64s(s.sums, rng.Float64()*s.sums[len(s.sums)-1])
	return s.items[min(i, len(s.items)-1)]
}

// recommend returns up to n items that user was never shown. From then on they
// count as shown: they are on record before anybody sees them.
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
		isNew, err := f.Add([]byte(item))
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", user, err)
		}
		check.answer(item, isNew)
		if isNew {
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

func (s *service) stripe(user string) *stripe {
	h := fnv.New64a()
	_, _ = h.Write([]byte(user)) // never fails
	return &s.stripes[h.Sum64()%uint64(len(s.stripes))]
}

// filter returns what the user was shown. A filter that cannot be read is an
// error: a new one in its place would show everything again.
func (s *service) filter(user string) (*bloom.Scalable, error) {
	value, err := s.db.Get(userKey(user))
	if errors.Is(err, shale.ErrNotFound) {
		return bloom.NewScalable(s.capacity, s.fpr, bloom.ScalableOptions{})
	}
	if err != nil {
		return nil, err
	}
	f := new(bloom.Scalable)
	if err := f.UnmarshalBinary(value); err != nil {
		return nil, fmt.Errorf("user %q: %w", user, err)
	}
	return f, nil
}

const prefix = "seen/"

var everyUser = shale.Prefix(prefix)

func userKey(user string) []byte { return []byte(prefix + user) }

// serve answers requests, one a line: a user, and how many items if not the usual
// number.
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
				fmt.Fprintf(out, "%q: want a user and a number from 1 to %d\n", lines.Text(), maxN)
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

// summary tells what the store has of all users, of this run and of earlier ones.
func (s *service) summary(out io.Writer) error {
	users, bytes, shown, rates := 0, 0, 0, 0.0
	for e, err := range s.db.Scan(everyUser) {
		if err != nil {
			return err
		}
		f := new(bloom.Scalable)
		if err := f.UnmarshalBinary(e.Value); err != nil {
			return fmt.Errorf("user %q: %w", e.Key[len(prefix):], err)
		}
		users++
		bytes += len(e.Value)
		shown += int(f.Count())
		rates += f.FPR()
	}
	if users == 0 {
		_, err := fmt.Fprintln(out, "Nobody was shown anything: no filter, and nothing saved.")
		return err
	}
	each := 1 / float64(users)
	fmt.Fprintf(out, "%d users were shown %.1f items each; of what they have not seen, %.2f %% is withheld now.\n", users, each*float64(shown), 100*each*rates)
	saves := fmt.Sprintf("saves %.0f %% of", 100-100*float64(bytes)/float64(8*shown))
	if bytes >= 8*shown {
		saves = "saves nothing yet beside"
	}
	_, err := fmt.Fprintf(out, "A user's filter has %.0f bytes and %s a list of ids of 8 bytes, which has %.0f.\n", each*float64(bytes), saves, 8*each*float64(shown))
	return err
}
