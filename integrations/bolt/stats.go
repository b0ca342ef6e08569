package bbolt

import (
	"os"
	"sync/atomic"
	"time"
)

// This file has what is counted. Counters of pages, nodes and free lists are there for programs that read them, and 0.

// Stats are counters of a DB.
type Stats struct {
	TxStats TxStats // of the transactions that have ended

	FreePageN, PendingPageN, FreeAlloc, FreelistInuse int // 0

	TxN     int // transactions that have begun to read
	OpenTxN int // and have not ended
}

// Stats returns the counters since Open.
func (db *DB) Stats() Stats {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.stats == nil {
		return Stats{}
	}
	return *db.stats
}

// An Info is what some programs of bbolt ask for, to multiply it with a number of pages.
type Info struct {
	Data     uintptr // 0
	PageSize int     // of the system
}

// Info returns an Info. There are no pages.
func (db *DB) Info() *Info { return &Info{PageSize: os.Getpagesize()} }

// Sub returns what was counted since other; OpenTxN is 0.
func (s *Stats) Sub(other *Stats) Stats {
	if other == nil {
		return *s
	}
	return Stats{TxStats: s.TxStats.Sub(&other.TxStats), TxN: s.TxN - other.TxN}
}

// TxStats are counters of a transaction. Its methods read and add to them atomically.
type TxStats struct {
	PageCount, PageAlloc int64 // 0

	CursorCount int64 // cursors that were made

	NodeCount, NodeDeref, Rebalance int64         // 0
	RebalanceTime                   time.Duration // 0
	Split, Spill                    int64         // 0
	SpillTime                       time.Duration // 0

	Write     int64         // commits that have written something
	WriteTime time.Duration // and what they took
}

// both returns the counters of s and o, in pairs.
func (s *TxStats) both(o *TxStats) [12][2]*int64 {
	return [12][2]*int64{
		{&s.PageCount, &o.PageCount}, {&s.PageAlloc, &o.PageAlloc}, {&s.CursorCount, &o.CursorCount},
		{&s.NodeCount, &o.NodeCount}, {&s.NodeDeref, &o.NodeDeref}, {&s.Rebalance, &o.Rebalance},
		{(*int64)(&s.RebalanceTime), (*int64)(&o.RebalanceTime)}, {&s.Split, &o.Split}, {&s.Spill, &o.Spill},
		{(*int64)(&s.SpillTime), (*int64)(&o.SpillTime)}, {&s.Write, &o.Write}, {(*int64)(&s.WriteTime), (*int64)(&o.WriteTime)},
	}
}

func (s *TxStats) add(o *TxStats) {
	for _, p := range s.both(o) {
		atomic.AddInt64(p[0], atomic.LoadInt64(p[1]))
	}
}

// Sub returns what was counted since other.
func (s *TxStats) Sub(other *TxStats) TxStats {
	var diff TxStats
	diff.add(s)
	for _, p := range diff.both(other) {
		*p[0] -= atomic.LoadInt64(p[1])
	}
	return diff
}
