package bbolt

import (
	"sync/atomic"
	"time"
)

// This file has the methods of TxStats that programs read single counters with.

// GetPageCount returns PageCount.
func (s *TxStats) GetPageCount() int64 { return atomic.LoadInt64(&s.PageCount) }

// IncPageCount adds to PageCount, and returns it.
func (s *TxStats) IncPageCount(delta int64) int64 { return atomic.AddInt64(&s.PageCount, delta) }

// GetPageAlloc returns PageAlloc.
func (s *TxStats) GetPageAlloc() int64 { return atomic.LoadInt64(&s.PageAlloc) }

// IncPageAlloc adds to PageAlloc, and returns it.
func (s *TxStats) IncPageAlloc(delta int64) int64 { return atomic.AddInt64(&s.PageAlloc, delta) }

// GetCursorCount returns CursorCount.
func (s *TxStats) GetCursorCount() int64 { return atomic.LoadInt64(&s.CursorCount) }

// IncCursorCount adds to CursorCount, and returns it.
func (s *TxStats) IncCursorCount(delta int64) int64 { return atomic.AddInt64(&s.CursorCount, delta) }

// GetNodeCount returns NodeCount.
func (s *TxStats) GetNodeCount() int64 { return atomic.LoadInt64(&s.NodeCount) }

// IncNodeCount adds to NodeCount, and returns it.
func (s *TxStats) IncNodeCount(delta int64) int64 { return atomic.AddInt64(&s.NodeCount, delta) }

// GetNodeDeref returns NodeDeref.
func (s *TxStats) GetNodeDeref() int64 { return atomic.LoadInt64(&s.NodeDeref) }

// IncNodeDeref adds to NodeDeref, and returns it.
func (s *TxStats) IncNodeDeref(delta int64) int64 { return atomic.AddInt64(&s.NodeDeref, delta) }

// GetRebalance returns Rebalance.
func (s *TxStats) GetRebalance() int64 { return atomic.LoadInt64(&s.Rebalance) }

// IncRebalance adds to Rebalance, and returns it.
func (s *TxStats) IncRebalance(delta int64) int64 { return atomic.AddInt64(&s.Rebalance, delta) }

// GetRebalanceTime returns RebalanceTime.
func (s *TxStats) GetRebalanceTime() time.Duration {
	return time.Duration(atomic.LoadInt64((*int64)(&s.RebalanceTime)))
}

// IncRebalanceTime adds to RebalanceTime, and returns it.
func (s *TxStats) IncRebalanceTime(delta time.Duration) time.Duration {
	return time.Duration(atomic.AddInt64((*int64)(&s.RebalanceTime), int64(delta)))
}

// GetSplit returns Split.
func (s *TxStats) GetSplit() int64 { return atomic.LoadInt64(&s.Split) }

// IncSplit adds to Split, and returns it.
func (s *TxStats) IncSplit(delta int64) int64 { return atomic.AddInt64(&s.Split, delta) }

// GetSpill returns Spill.
func (s *TxStats) GetSpill() int64 { return atomic.LoadInt64(&s.Spill) }

// IncSpill adds to Spill, and returns it.
func (s *TxStats) IncSpill(delta int64) int64 { return atomic.AddInt64(&s.Spill, delta) }

// GetSpillTime returns SpillTime.
func (s *TxStats) GetSpillTime() time.Duration {
	return time.Duration(atomic.LoadInt64((*int64)(&s.SpillTime)))
}

// IncSpillTime adds to SpillTime, and returns it.
func (s *TxStats) IncSpillTime(delta time.Duration) time.Duration {
	return time.Duration(atomic.AddInt64((*int64)(&s.SpillTime), int64(delta)))
}

// GetWrite returns Write.
func (s *TxStats) GetWrite() int64 { return atomic.LoadInt64(&s.Write) }

// IncWrite adds to Write, and returns it.
func (s *TxStats) IncWrite(delta int64) int64 { return atomic.AddInt64(&s.Write, delta) }

// GetWriteTime returns WriteTime.
func (s *TxStats) GetWriteTime() time.Duration {
	return time.Duration(atomic.LoadInt64((*int64)(&s.WriteTime)))
}

// IncWriteTime adds to WriteTime, and returns it.
func (s *TxStats) IncWriteTime(delta time.Duration) time.Duration {
	return time.Duration(atomic.AddInt64((*int64)(&s.WriteTime), int64(delta)))
}
