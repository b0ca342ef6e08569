package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/raft"
)

// A RaftStore is what raft keeps a log and its own values in: a LogStore, or another one such as that of
// raft-boltdb.
type RaftStore interface {
	raft.LogStore
	raft.StableStore
}

// The keys of raft's own values.
var (
	numberKeys = []string{"CurrentTerm", "LastVoteTerm"}
	vote       = "LastVoteCand"
)

// copyAtOnce is how many entries CopyLog stores together.
const copyAtOnce = 256

// CopyLog copies the log of a member that is stopped, and its term and vote, into a store that is empty:
// from raft-boltdb to a LogStore, or back. If the log has gaps, which raft-boltdb allows, it copies what is
// behind the last one: raft does not need more. If it fails, or ctx ends it, remove the new store and begin
// again. Keys that the program itself has set are not copied.
func CopyLog(ctx context.Context, to, from RaftStore) error {
	if err := checkEmpty(to); err != nil {
		return err
	}
	first, last, err := lastRun(ctx, from)
	if err != nil {
		return err
	}
	var logs []*raft.Log
	for i := first; i <= last && last > 0; i++ {
		l := new(raft.Log)
		if err := from.GetLog(i, l); err != nil {
			return fmt.Errorf("cluster: copy entry %d: %w", i, err)
		}
		if logs = append(logs, l); len(logs) < copyAtOnce && i < last {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := to.StoreLogs(logs); err != nil {
			return fmt.Errorf("cluster: copy entries up to %d: %w", i, err)
		}
		logs = logs[:0]
	}
	// The vote comes before the term that it is for, and the term last: it says that all is there.
	if v, err := from.Get([]byte(vote)); err == nil {
		if err := to.Set([]byte(vote), v); err != nil {
			return err
		}
	} else if !isNotFound(err) {
		return fmt.Errorf("cluster: copy %s: %w", vote, err)
	}
	for i := len(numberKeys) - 1; i >= 0; i-- {
		key := []byte(numberKeys[i])
		n, err := from.GetUint64(key)
		switch {
		case err == nil:
			if err := to.SetUint64(key, n); err != nil {
				return err
			}
		case !isNotFound(err):
			return fmt.Errorf("cluster: copy %s: %w", key, err)
		}
	}
	return nil
}

// checkEmpty returns an error if a store has entries or values of raft's.
func checkEmpty(s RaftStore) error {
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if last > 0 {
		return fmt.Errorf("cluster: the store to copy to has entries up to %d already: take a new one", last)
	}
	for _, key := range append([]string{vote}, numberKeys...) {
		if v, err := s.Get([]byte(key)); err == nil && len(v) > 0 {
			return fmt.Errorf("cluster: the store to copy to has a %s already: take a new one", key)
		} else if err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

// isNotFound reports whether err is what a StableStore returns for an absent key. Stores have errors of
// their own for that, which raft knows by their text.
func isNotFound(err error) bool { return err != nil && err.Error() == ErrKeyNotFound.Error() }

// lastRun returns the bounds of the entries up to the last one that have no gap between them.
func lastRun(ctx context.Context, s raft.LogStore) (first, last uint64, err error) {
	lowest, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if last == math.MaxUint64 {
		return 0, 0, fmt.Errorf("cluster: the log to copy has an entry %d", last)
	}
	for first = last; first > lowest; first-- {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		err := s.GetLog(first-1, new(raft.Log))
		if err == raft.ErrLogNotFound {
			break
		}
		if err != nil {
			return 0, 0, fmt.Errorf("cluster: copy entry %d: %w", first-1, err)
		}
	}
	return first, last, nil
}
