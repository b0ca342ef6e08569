package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// A request is one request of a client: for a user, or to sign up.
type request struct {
	name   string
	signUp bool
	there  bool // the right answer: the user exists
}

// A load is the requests of each client, in their order. No two clients ask for the same
// new user, so all right answers are known before the load runs.
type load struct {
	clients [][]request
	// The number of requests for users that exist, for users that do not, and to sign up.
	present, absent, signUps int
}

// newLoad draws the requests. Existing users are drawn by Zipf's law. The name of a made-up
// user is an existing name and a number.
func newLoad(ctx context.Context, c config, names []string) (*load, error) {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	order := rand.New(rand.NewPCG(c.seed, 0)).Perm(len(names)) // order of popularity
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
				// The new user is asked for before and right after signing up:
				// absent, then there.
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

// add appends requests to those of a client, and counts them.
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
