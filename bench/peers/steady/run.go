package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/histogram"
	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/bench/peers/internal/usage"
)

// A bench is one run.
type bench struct {
	config
	store stores.Store
	space data.Space
	reads atomic.Int64 // lookups so far
	found atomic.Int64 // that found the key

	puts  recorder
	disk  recorder // probes
	begin time.Time
}

// A recorder counts durations. One goroutine adds; another takes what the last interval had.
type recorder struct {
	mu   sync.Mutex
	part histogram.Histogram // since the last take
	all  histogram.Histogram // before it
}

func (r *recorder) add(d time.Duration) {
	r.mu.Lock()
	r.part.Add(d)
	r.mu.Unlock()
}

// take returns what was added since the last call.
func (r *recorder) take() histogram.Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := r.part
	r.all.Merge(&part)
	r.part = histogram.Histogram{}
	return part
}

// run makes a store, writes to it until the time is over or ctx is done, prints what it has
// measured, and removes the store.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(c.dir, "steady")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{config: c, store: c.kind.New(), space: spaceOf(c)}
	used := usage.Now()
	if err := b.runIn(ctx, dir, out); err != nil {
		return err
	}
	used = usage.Now().Sub(used)
	b.summary(out, &used)
	return nil
}

func spaceOf(c config) data.Space { return data.NewSpace("random", c.n) }

// runIn makes the store in dir, works with it, and closes it.
func (b *bench) runIn(ctx context.Context, dir string, out io.Writer) error {
	o := stores.Options{Memtable: b.memtable, Cache: b.cache, Compactions: true}
	db := filepath.Join(dir, "db")
	if err := os.Mkdir(db, 0o755); err != nil { // not every engine makes it
		return err
	}
	if err := b.store.Open(db, o); err != nil {
		return err
	}
	return errors.Join(b.work(ctx, dir, out), b.store.Close())
}

// work runs the writer, the readers and the probe, and prints a line for each interval.
func (b *bench) work(ctx context.Context, dir string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, b.took)
	defer cancel()
	b.begin = time.Now()
	jobs := []func(context.Context) error{b.write, func(ctx context.Context) error { return b.probeDisk(ctx, dir) }}
	for range b.readers {
		jobs = append(jobs, b.read)
	}
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() {
			if errs[i] = job(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	b.report(ctx, out)
	wg.Wait()
	b.puts.take()
	b.disk.take()
	return errors.Join(errs...)
}

// write puts random keys until ctx is done.
func (b *bench) write(ctx context.Context) error {
	w, err := b.store.Writer()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	values := data.NewValues(b.value, 1)
	var k data.Key
	for i := 0; ctx.Err() == nil; i++ {
		if b.rate > 0 {
			due := b.begin.Add(time.Duration(float64(i) / b.rate * 1e9))
			time.Sleep(time.Until(due))
		}
		key := b.space.Present(&k, random.Uint64N(b.space.N()))
		value := values.Next(key)
		begin := time.Now()
		if err := w.Put(key, value); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		b.puts.add(time.Since(begin))
	}
	return w.Close()
}

// read looks up random keys until ctx is done. A value must be one that the key was given.
func (b *bench) read(ctx context.Context) error {
	r, err := b.store.Reader(stores.Fresh)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(2, rand.Uint64()))
	var k data.Key
	for ctx.Err() == nil {
		key := b.space.Present(&k, random.Uint64N(b.space.N()))
		size, tag, err := r.Get(key)
		if err != nil {
			return fmt.Errorf("get: %w", err)
		}
		if size != stores.Absent {
			if size != b.value || tag != data.Tag(key) {
				return fmt.Errorf("get: key %x has a wrong value of %d bytes", key, size)
			}
			b.found.Add(1)
		}
		b.reads.Add(1)
	}
	return r.Close()
}

// probeDisk overwrites and syncs a block of a file of its own, now and then.
func (b *bench) probeDisk(ctx context.Context, dir string) error {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return err
	}
	tick := time.NewTicker(b.probe)
	defer tick.Stop()
	block := make([]byte, 4096)
	for ctx.Err() == nil {
		begin := time.Now()
		if _, err = f.WriteAt(block, 0); err == nil {
			err = f.Sync()
		}
		if err != nil {
			break
		}
		b.disk.add(time.Since(begin))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, f.Close())
}
