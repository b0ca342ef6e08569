package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// A request is one of a client: for a user, or to sign up as one.
type request struct {
	name   string
	signUp bool
	there  bool // the right answer
}

// A load is the requests of each client, in their order. No two clients ask for
// the same new user, so that all answers are known beforehand.
type load struct {
	clients [][]request
	// How many of the requests are for users that are there, for users that are
	// not, and to sign up.
	present, absent, signUps int
}

// newLoad draws the requests: for existing users by a law of Zipf, and for made-up
// ones, which are existing names with a number after them.
func newLoad(ctx context.Context, c config, names []string) (*load, error) {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	order := rand.New(rand.NewPCG(c.seed, 0)).Perm(len(names)) // who is popular
	l := &load{clients: make([][]request, c.clients)}
	for i := range l.clients {
		rng := rand.New(rand.NewPCG(c.seed, uint64(i)+1))
		popular := rand.NewZipf(rng, c.zipf, 1, uint64(len(names)-1))
		signed := 0
		for n := i; n < c.requests; n += c.clients {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			switch draw := rng.Float64(); {
			case draw < c.signUps:
				// Asked for before, it is absent, and there at once after.
				name := fmt.Sprintf("new/%d/%d", i, signed)
				signed++
				if there[name] {
					continue
				}
				l.add(i, request{name: name}, request{name: name, signUp: true}, request{name: name, there: true})
			case draw < c.signUps+c.absent:
				name := names[rng.IntN(len(names))] + strconv.Itoa(rng.IntN(1_000_000))
				if !there[name] {
					l.add(i, request{name: name})
				}
			default:
				l.add(i, request{name: names[order[popular.Uint64()]], there: true})
			}
		}
	}
	return l, nil
}

func (l *load) add(client int, requests ...request) {
	l.clients[client] = append(l.clients[client], requests...)
	for _, r := range requests {
		switch {
		case r.signUp:
			l.signUps++
		case r.there:
			l.present++
		default:
			l.absent++
		}
	}
}

func (l *load) len() int { return l.present + l.absent + l.signUps }
