package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A result is what one way did with the load.
type result struct {
	way                            string
	queries, vain, stopped, cached int64 // counters of the service
	wrong                          int64
	p50, p99                       time.Duration
	took                           time.Duration // of all requests
	rate                           float64       // share of absent names that are expected to pass
	bytes                          int64         // of the filters
}

// measureAll runs the same load for each way, on a copy of the same table, in dir.
func measureAll(ctx context.Context, c config, dir string, names []string, l *load) ([]*result, error) {
	file := filepath.Join(dir, "users.sqlite")
	u, err := openUsers(ctx, file, 1)
	if err != nil {
		return nil, err
	}
	// close moves everything into the one file that is copied.
	if err := errors.Join(u.fill(ctx, names), u.close()); err != nil {
		return nil, err
	}
	var results []*result
	for i, w := range ways {
		sub := filepath.Join(dir, fmt.Sprint("way", i))
		if err := os.Mkdir(sub, 0o777); err != nil {
			return nil, err
		}
		r, err := measure(ctx, c, i, file, sub, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure runs the load for one way, in a directory of its own.
func measure(ctx context.Context, c config, way int, file, dir string, l *load) (_ *result, err error) {
	w := ways[way]
	own := filepath.Join(dir, "users.sqlite")
	if err := copyFile(own, file); err != nil {
		return nil, err
	}
	u, err := openUsers(ctx, own, c.clients)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	g, err := w.open(ctx, u, filepath.Join(dir, "guard"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	s := &service{users: u, guard: g, cache: newCache(c.cache), keepAbsent: w.keepAbsent}
	r := &result{way: w.name}
	return r, r.serve(ctx, s, l)
}

// serve runs the load, with a goroutine for each client. The first error ends all of them.
func (r *result) serve(ctx context.Context, s *service, l *load) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the first error ends all clients
	var (
		wg        sync.WaitGroup
		latencies = make([][]time.Duration, len(l.clients))
		wrong     = make([]int64, len(l.clients))
		errs      = make([]error, len(l.clients))
	)
	begin := time.Now()
	for i, requests := range l.clients {
		wg.Go(func() {
			latencies[i], wrong[i], errs[i] = ask(ctx, s, requests)
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	r.took = time.Since(begin)
	if err := firstCause(errs); err != nil {
		return err
	}
	for _, n := range wrong {
		r.wrong += n
	}
	r.p50, r.p99 = percentiles(slices.Concat(latencies...))
	r.queries, r.vain, r.stopped, r.cached = s.queries.Load(), s.vain.Load(), s.stopped.Load(), s.cached.Load()
	r.rate, r.bytes = s.guard.rate(), s.guard.bytes()
	return nil
}

// ask makes the requests of one client, one after the other, and compares the
// answers. It measures the time of requests for users only, because a guard does not
// change the time of signing up.
func ask(ctx context.Context, s *service, requests []request) (latencies []time.Duration, wrong int64, err error) {
	latencies = make([]time.Duration, 0, len(requests))
	for _, q := range requests {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if q.signUp {
			if err := s.signUp(ctx, q.name, profile(q.name)); err != nil {
				return nil, 0, fmt.Errorf("sign up %q: %w", q.name, err)
			}
			continue
		}
		begin := time.Now()
		got, found, err := s.user(ctx, q.name)
		latencies = append(latencies, time.Since(begin))
		if err != nil {
			return nil, 0, fmt.Errorf("user %q: %w", q.name, err)
		}
		if found != q.there || found && got != profile(q.name) {
			wrong++
		}
	}
	return latencies, wrong, nil
}

// firstCause returns an error that is not the cancellation of the other clients,
// if there is one.
func firstCause(errs []error) (err error) {
	for _, e := range errs {
		if e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return err
}

// percentiles returns the times that 50 % and 99 % of the requests took at most.
func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[(len(d)-1)/2], d[(len(d)-1)*99/100]
}

// copyFile copies a file. The file to is created, or overwritten.
func copyFile(to, from string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // opened for reading
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	_, err = io.Copy(dst, src)
	return err
}
