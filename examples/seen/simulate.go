package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom/sketch"
)

// checked has exact sets of the items of each user, for a simulation. It counts where the
// answers of the filters differ from them. Each stripe has one, for its users.
type checked struct {
	users map[string]user

	shown, twice int     // items shown; of these, items that the user had been shown before
	fresh        int     // items that were proposed to a user for the first time
	withheld     int     // of these, items that the filter withheld
	expected     float64 // number of withheld items that the filters' rates predict
	again        int     // later proposals of withheld items
}

// A user is a map of the items that were proposed so far: true for items that were shown,
// and false for items that were withheld. A withheld item is never shown later.
type user map[string]bool

// A checkedRequest is one request of a user. The zero value checks nothing.
type checkedRequest struct {
	*checked
	f    *sketch.Scalable
	user user
	rate float64 // of the filter, at the beginning of the request
	was  int     // value of fresh at the beginning of the request
}

// begin begins a request. Without -simulate the result checks nothing. Requires: the stripe
// is locked until the request ends.
func (c *checked) begin(s *service, name string, f *sketch.Scalable) checkedRequest {
	if s.simulate == 0 {
		return checkedRequest{}
	}
	if c.users == nil {
		c.users = make(map[string]user)
	}
	if c.users[name] == nil {
		c.users[name] = make(user)
	}
	return checkedRequest{checked: c, f: f, user: c.users[name], rate: f.FPR(), was: c.fresh}
}

// answer compares an answer of the filter with the exact set. isShown says whether
// the item is going to be shown.
func (r *checkedRequest) answer(item string, isShown bool) {
	if r.checked == nil {
		return
	}
	before, proposed := r.user[item]
	switch {
	case !proposed:
		r.fresh++
		r.user[item] = isShown
		if !isShown {
			r.withheld++
		}
	case isShown:
		r.twice++
	case !before:
		r.again++
	}
	if isShown {
		r.shown++
	}
}

// end ends the request. The rate of the filter has grown during the request; end
// takes the mean.
func (r *checkedRequest) end() {
	if r.checked != nil {
		r.expected += float64(r.fresh-r.was) * (r.rate + r.f.FPR()) / 2
	}
}

// simulate makes requests of random users, four at a time, and compares all answers with
// exact sets. The store must not have users, because their exact sets would be unknown.
func simulate(ctx context.Context, s *service, out io.Writer) error {
	for _, err := range s.db.Scan(everyUser) {
		if err == nil {
			err = errors.New("the store has users already; use a new store with -simulate")
		}
		return err
	}
	var begun, answered atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		group.Go(func() { // answers requests until there are enough; simulate waits for it
			for failed[i] == nil && ctx.Err() == nil {
				n := begun.Add(1)
				if n > int64(s.simulate) {
					return
				}
				rng := rand.New(rand.NewPCG(s.seed, uint64(n)))
				if _, failed[i] = s.recommend(rng, fmt.Sprintf("user-%d", rng.IntN(s.users)), s.n); failed[i] == nil {
					answered.Add(1)
				}
			}
		})
	}
	group.Wait()
	var sum checked
	for i := range s.stripes {
		c := &s.stripes[i].checked
		sum.shown += c.shown
		sum.twice += c.twice
		sum.fresh += c.fresh
		sum.withheld += c.withheld
		sum.expected += c.expected
		sum.again += c.again
	}
	fmt.Fprintf(out, "%d requests: %d items were shown, %d of them twice.\n", answered.Load(), sum.shown, sum.twice)
	fmt.Fprintf(out, "Of %d items new to a user %d were withheld: %.3f %%, predicted %.3f %%. They stay withheld: they were proposed %d times more.\n",
		sum.fresh, sum.withheld, 100*float64(sum.withheld)/float64(max(sum.fresh, 1)), 100*sum.expected/float64(max(sum.fresh, 1)), sum.again)
	return errors.Join(failed...)
}
