package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// This file has the steps of programs that are written down to come by something certain. Such a
// program is a Script: it draws its writes from a Source, and adds steps one after the other.

// A Script is a program in the making.
type Script struct {
	*Source
	Program
}

// NewScript returns an empty script whose choices the seed decides.
func NewScript(seed uint64) *Script {
	s := NewSource(ShortKeys)
	s.Reseed(seed)
	return &Script{Source: s, Program: Program{Seed: seed}}
}

func (s *Script) add(step Step) { s.Steps = append(s.Steps, step) }

// Do adds a step that is one in the life of the store.
func (s *Script) Do(name string, do func(l *Life) error) { s.add(Step{Name: name, Life: do}) }

// Write adds n batches of a few operations, some of them transactions. Each k-th is synced, with 0 none. Every third
// leaves it to the store how durable it is.
func (s *Script) Write(n, k int) {
	for i := range n {
		w := s.Source.Write(s.IntN(6))
		w.Own, w.Durability = s.IntN(3) > 0, shale.SyncManual
		switch {
		case k > 0 && i%k == k-1:
			w.Own, w.Durability = true, shale.SyncEach
		case s.IntN(3) == 0:
			w.Durability = shale.SyncPeriodic
		}
		if len(w.Ops) > 0 && s.IntN(4) == 0 {
			s.add(drawTransaction(s.Source, "write in a transaction", w))
		} else {
			s.add(drawWrite("write", w))
		}
	}
}

// Ingest adds an ingestion of some entries.
func (s *Script) Ingest() {
	puts := s.Sorted(30)
	s.add(Step{Name: "ingest", Args: fmt.Sprint(len(puts)), Do: func(s *Side) string { return ErrText(s.Ingest(puts)) }})
}

// Sync adds a sync of the log.
func (s *Script) Sync() { s.add(drawSync(s.Source)) }

// Flush adds a flush of the memtable.
func (s *Script) Flush() { s.add(drawFlush(s.Source)) }

// Compact adds a compaction of all keys.
func (s *Script) Compact() {
	s.add(Step{Name: "compact", Do: func(s *Side) string { return ErrText(s.Compact(shale.Range{})) }})
}

// Checkpoint adds a checkpoint in a directory of its own.
func (s *Script) Checkpoint() {
	s.copies++
	dir := copyDir(s.copies)
	s.add(Step{Name: "checkpoint", Args: dir, Do: func(s *Side) string { return ErrText(s.Checkpoint(dir)) }})
}

// Reopen closes the store and opens it, from now on with change applied to what is drawn; nil: with
// the last change that a script made.
func (s *Script) Reopen(change func(o *shale.Options)) {
	s.Do("reopen", func(l *Life) error {
		if change != nil {
			l.Change = change
		}
		return l.Reopen()
	})
}

// Jump has the system's clock jump.
func (s *Script) Jump(d time.Duration) {
	s.passed += d
	s.Do(fmt.Sprint("clock ", d), func(l *Life) error { return l.Jump(d) })
}

// Kill ends the process that has the store, and goes on with what it wrote.
func (s *Script) Kill() { s.Do("kill", (*Life).Kill) }

// Crash crashes the store and goes on with what that leaves.
func (s *Script) Crash(c vfs.CrashConfig) {
	s.Do(fmt.Sprint("crash ", c), func(l *Life) error { return l.Crash(c) })
}

// Idle waits until nothing is left to flush or to compact.
func (s *Script) Idle() {
	s.Do("idle", func(l *Life) error { return WaitIdle(l.DB) })
}

// RollManifest makes the next edit begin a new manifest.
func (s *Script) RollManifest() {
	s.Do("rollManifest", func(l *Life) error {
		TreeOf(l.DB).RenewManifest()
		return nil
	})
}

// RebuildFilters rebuilds filters, of which some must lack.
func (s *Script) RebuildFilters() {
	s.Do("rebuildFilters", func(l *Life) error {
		r, err := l.DB.Inspect().RebuildFilters(context.Background())
		if err == nil && r.Rebuilt == 0 {
			err = fmt.Errorf("RebuildFilters: %+v: the script means filters to be rebuilt", r)
		}
		return err
	})
}
