package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Package raft panics when its term can't be saved or a committed entry can't be read, and goes on
// after other errors of its stores with a picture of the log that may be wrong. A guarded store
// therefore lets raft see only the errors that it asks for: that an entry or a key is not there. On any
// other error it calls fail, and ends the goroutine that has called, with runtime.Goexit.
//
// That is safe because raft releases what a goroutine holds in deferred calls, holds no mutex when it
// calls a store, and answers requests of other members in deferred calls too. Once fail has begun raft's
// Shutdown, nothing waits for a goroutine that has ended, but for two kinds: the decoder of a pipeline
// waits for the goroutine that replicates, and who has asked for a snapshot waits for the one that takes
// them. These two handle every error of a store without a panic, and so they get it (awaited).

// guard returns s as raft gets it. fail is called with the first error; it must not wait for raft's
// goroutines, since it runs on one of them. From then on, no call succeeds: a store that works again does
// not bring a failed member back.
func guard(s *LogStore, fail func(error)) *guarding { return &guarding{store: s, fail: fail} }

// errGuarded is what guarded returns when a guarded store has ended the goroutine. The cause went to fail.
var errGuarded = errors.New("cluster: the log's store has failed")

// guarded runs fn on a goroutine of its own, and returns its error. It is for calls of package raft
// that use guarded stores, or that panic, on the goroutine of their caller, as NewRaft does.
func guarded(fail func(error), fn func() error) (err error) {
	done := make(chan struct{})
	err = errGuarded
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("cluster: raft can't go on: %v", p)
				fail(err)
			}
		}()
		err = fn()
	}()
	<-done
	return err
}

// A guarding is a guarded store.
//
// After the first error all calls fail with it. Errors for absence are returned as they are,
// because raft compares them by ==.
type guarding struct {
	store *LogStore
	fail  func(error)
	cause atomic.Pointer[error] // the first error
}

// call runs one call of raft's.
//
// The compare-and-swap makes sure that fail gets the first error only, whichever goroutine of raft
// met it. Those that come later end as well, or get the first error.
func (g *guarding) call(fn func() error) error {
	if cause := g.cause.Load(); cause != nil {
		return endUnlessAwaited(*cause)
	}
	err := fn()
	if err == nil || err == raft.ErrLogNotFound || err == ErrKeyNotFound { // raft compares them so
		return err
	}
	if g.cause.CompareAndSwap(nil, &err) {
		g.fail(err)
	}
	return endUnlessAwaited(err)
}

// value runs one call of raft's that has a result.
func value[T any](g *guarding, fn func() (T, error)) (v T, err error) {
	err = g.call(func() error { v, err = fn(); return err })
	return v, err
}

// endUnlessAwaited ends the goroutine, or returns err if others of raft's wait for it.
func endUnlessAwaited(err error) error {
	if !awaited() {
		runtime.Goexit()
	}
	return err
}

// The functions at the bottom of the goroutines that others wait for.
var (
	raftType     = reflect.TypeFor[raft.Raft]().PkgPath() + ".(*Raft)"
	replicate    = raftType + ".replicate"
	runSnapshots = raftType + ".runSnapshots"
)

// awaited reports whether others wait for the goroutine. It is asked only when the store has failed.
//
// It looks at the names of functions on the stack, because package raft does not say what its
// goroutines are. An update of raft that renames one of them would let its callers hang:
// TestGuard_Group finds that.
func awaited() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == replicate || frame.Function == runSnapshots {
			return true
		}
		if !more {
			return false
		}
	}
}

// The methods below are those of raft.LogStore, raft.StableStore and raft.MonotonicLogStore, each
// by call.
func (g *guarding) IsMonotonic() bool { return g.store.IsMonotonic() }

func (g *guarding) FirstIndex() (uint64, error) { return value(g, g.store.FirstIndex) }
func (g *guarding) LastIndex() (uint64, error)  { return value(g, g.store.LastIndex) }

func (g *guarding) GetLog(index uint64, log *raft.Log) error {
	return g.call(func() error { return g.store.GetLog(index, log) })
}

func (g *guarding) StoreLog(log *raft.Log) error {
	return g.call(func() error { return g.store.StoreLog(log) })
}

func (g *guarding) StoreLogs(logs []*raft.Log) error {
	return g.call(func() error { return g.store.StoreLogs(logs) })
}

func (g *guarding) DeleteRange(first, last uint64) error {
	return g.call(func() error { return g.store.DeleteRange(first, last) })
}

func (g *guarding) Set(key, value []byte) error {
	return g.call(func() error { return g.store.Set(key, value) })
}

func (g *guarding) Get(key []byte) ([]byte, error) {
	return value(g, func() ([]byte, error) { return g.store.Get(key) })
}

func (g *guarding) SetUint64(key []byte, value uint64) error {
	return g.call(func() error { return g.store.SetUint64(key, value) })
}

func (g *guarding) GetUint64(key []byte) (uint64, error) {
	return value(g, func() (uint64, error) { return g.store.GetUint64(key) })
}
