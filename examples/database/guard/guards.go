package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
)

// A guard knows, without the database, that most made-up users do not exist. Any number of
// goroutines may ask it and add to it.
type guard interface {
	// mayContain returns false only for names that were never added.
	mayContain(name string) bool
	// add adds a name. It must return before the row is written. A name that is
	// added and then not written costs a query; a name that is written and not
	// added gets a wrong answer.
	add(name string) error
	// rate is the share of absent names that are expected to pass.
	rate() float64
	// bytes is the memory of the filters.
	bytes() int64
	close() error
}

// ways are the ways to answer, in the order of the table.
var ways = []struct {
	name       string
	keepAbsent bool // the cache keeps answers for absent users too
	open       func(ctx context.Context, u *users, dir string) (guard, error)
}{
	{"cache alone", false, openNone},
	{"cache of absent users too", true, openNone},
	{"cache and filter", false, openFilter},
	{"cache and shale", false, openStore},
}

// none is a guard that lets every name pass.
type none struct{}

func openNone(context.Context, *users, string) (guard, error) { return none{}, nil }

func (none) mayContain(string) bool { return true }
func (none) add(string) error       { return nil }
func (none) rate() float64          { return 1 }
func (none) bytes() int64           { return 0 }
func (none) close() error           { return nil }

// A filter is a guard in memory. It is loaded from the table when the program
// starts. Strangers choose the names, so its hash function has a secret. Otherwise
// they could find names that pass.
type filter struct{ bits *bloom.AtomicBlocked }

// The filter has room for half as many users again as there are. With that number 1 %
// of absent names pass, and 3 % with twice as many users as at the start. Each start of
// the program makes a new filter.
const (
	room       = 1.5
	bitsPerKey = 10
)

// openFilter makes a filter of all names in the table. No request may come before
// it returns.
func openFilter(ctx context.Context, u *users, _ string) (guard, error) {
	n, err := u.count(ctx)
	if err != nil {
		return nil, err
	}
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err
	}
	bits, err := bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(float64(n) * room), BitsPerKey: bitsPerKey, Hasher: hasher})
	if err != nil {
		return nil, err
	}
	f := &filter{bits}
	for name, err := range u.names(ctx) {
		if err != nil {
			return nil, err
		}
		if err := f.add(name); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *filter) mayContain(name string) bool { return f.bits.MayContainString(name) }

func (f *filter) add(name string) error { return f.bits.AddString(name) }

// rate measures the rate with random hashes. The hashes of absent names are random too.
func (f *filter) rate() float64 {
	const asked = 1 << 20
	passed := 0
	for range asked {
		if f.bits.MayContainHash(rand.Uint64()) {
			passed++
		}
	}
	return float64(passed) / asked
}

func (f *filter) bytes() int64 { return int64(f.bits.SizeBytes()) }
func (f *filter) close() error { return nil }

// A store is a guard with the names as keys of shale. Its filters survive a restart and
// grow with it. They forget deleted names when tables are merged.
type store struct {
	db *shale.DB
}

// openStore opens the store in dir, and loads the names of the table.
func openStore(ctx context.Context, u *users, dir string) (_ guard, err error) {
	// With the default durability, a name is on disk before its row is.
	db, err := shale.Open(dir, &shale.Options{FilterHash: shale.SipHash})
	if err != nil {
		return nil, err
	}
	s := &store{db}
	if err := s.load(ctx, u); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// load adds the names that the table has, and makes them durable together.
func (s *store) load(ctx context.Context, u *users) error {
	var b shale.Batch
	b.SetDurability(shale.SyncManual)
	for name, err := range u.names(ctx) {
		if err == nil {
			err = b.Put([]byte(name), nil)
		}
		if err == nil && b.Size() >= 1<<20 {
			err = s.write(ctx, &b)
		}
		if err != nil {
			return err
		}
	}
	if err := s.write(ctx, &b); err != nil {
		return err
	}
	return s.db.Flush(ctx)
}

// write writes a batch, and empties it for the next one.
func (s *store) write(ctx context.Context, b *shale.Batch) error {
	err := s.db.Write(ctx, b)
	b.Reset()
	b.SetDurability(shale.SyncManual)
	return err
}

func (s *store) mayContain(name string) bool { return s.db.MayContain([]byte(name)) }
func (s *store) add(name string) error       { return s.db.Put([]byte(name), nil) }
func (s *store) rate() float64               { return s.db.Metrics().PredictedFPR() }
func (s *store) bytes() int64                { return s.db.Metrics().FilterMemory }
func (s *store) close() error                { return s.db.Close() }
