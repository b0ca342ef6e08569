package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// A result is what the requests have cost.
type result struct {
	queries   int64
	notFound  int
	took      time.Duration
	intercept Metrics
}

// requests returns the ids to ask for, always the same ones, and how many are of no user.
func requests(c config) (ids []string, absent int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range c.requests {
		if rng.Float64() < c.absent {
			ids = append(ids, fmt.Sprint("nobody", rng.IntN(1_000_000_000)))
			absent++
		} else {
			ids = append(ids, fmt.Sprint("user", rng.IntN(c.users)))
		}
	}
	return ids, absent
}

// measure sends the same requests to a server without a filter and to one with, and prints
// what they have cost.
func measure(ctx context.Context, c config, out io.Writer) (err error) {
	u, remove, err := tempUsers(ctx, c.users)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ids, err := NewIDs(ctx, u)
	if err != nil {
		return err
	}
	asked, absent := requests(c)
	fmt.Fprintf(out, "%d requests for %d users; %d are for users who do not exist.\n", len(asked), c.users, absent)
	fmt.Fprintf(out, "%-10s %10s %12s %8s\n", "", "queries", "answers 404", "time")
	var r result
	for _, way := range []string{"without", "with"} {
		set := ids
		if way == "without" {
			set = nil
		}
		if r, err = ask(ctx, u, set, asked); err != nil {
			return err
		}
		if r.notFound != absent {
			return fmt.Errorf("%s the filter, %d requests were answered with 404, want %d", way, r.notFound, absent)
		}
		fmt.Fprintf(out, "%-10s %10d %12d %8v\n", way, r.queries, r.notFound, r.took.Round(10*time.Millisecond))
	}
	fmt.Fprintf(out, "The filter of %d bytes stopped %d of the %d.\n", r.intercept.SetBytes, r.intercept.Stopped, absent)
	return nil
}

// ask starts a server and asks it for ids, one after the other.
func ask(ctx context.Context, u *users, ids *IDs, asked []string) (r result, err error) {
	s, handler := newServer(u, ids)
	address, stop, err := start("127.0.0.1:0", handler)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	before, begin := u.queries.Load(), time.Now()
	for _, id := range asked {
		status, _, err := get(ctx, client, "http://"+address+"/users/"+id)
		switch {
		case err != nil:
			return r, err
		case status == http.StatusNotFound:
			r.notFound++
		case status != http.StatusOK:
			return r, fmt.Errorf("%s: status %d", id, status)
		}
	}
	r.took, r.queries = time.Since(begin), u.queries.Load()-before
	if s.guard != nil {
		r.intercept = s.guard.Metrics()
	}
	return r, nil
}

// get returns the status and the body of an answer.
func get(ctx context.Context, client *http.Client, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close() // read to its end
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
