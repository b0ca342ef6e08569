package memqueue

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/memtable"
)

// A flushing knows how far the flushes are. The oldest memtable goes first, one at a time, because
// a newer run of level 0 must hold newer data, and because the manifest says with one number which
// logs are still needed.
type flushing struct {
	turn lockorder.Mutex[lockorder.Flusher] // held during a flush
	wake chan struct{}                      // there may be something to flush

	// flushedSeq is the highest sequence number that is in a table, or about to be. Raise writes
	// it. A flush raises it before the memtable leaves the view.
	flushedSeq atomic.Uint64

	mu       lockorder.Mutex[lockorder.Leaf] // guards what follows
	underWay bool                            // it is somebody's turn
	failure  error                           // why the last flush failed; nil if it succeeded
	past     float64                         // speed in bytes a second; the last flush counts half
	bytes    int64                           // of the memtable that is being flushed; 0: none is
	begin    time.Time                       // of its flush
}

// WakeFlusher says that there may be something to flush.
func (q *Queue) WakeFlusher() { base.Wake(q.wake) }

// FlusherWoken receives after WakeFlusher.
func (q *Queue) FlusherWoken() <-chan struct{} { return q.wake }

// BeginFlush waits for the caller's turn, and returns the oldest immutable memtable. After Flushed
// the caller gives its turn back with EndFlush. nil: there is nothing to flush, and the caller has
// no turn. The memtable is the one of the turn: another goroutine may just have flushed the one
// that the caller has seen.
func (q *Queue) BeginFlush() *Immutable {
	q.turn.Lock()
	imm := q.View().Oldest()
	if imm == nil {
		q.turn.Unlock()
		return nil
	}
	q.flushing.mu.Lock()
	defer q.flushing.mu.Unlock()
	q.underWay, q.bytes, q.begin = true, imm.Mem.Taken(), time.Now()
	return imm
}

// Flushed notes how the flush has ended. One that Close has ended counts as no failure, because
// the log has all its writes. A failed one says nothing about the speed. Requires: it is the
// caller's turn.
func (q *Queue) Flushed(err error) {
	q.flushing.mu.Lock()
	defer q.flushing.mu.Unlock()
	if err == nil {
		rate := ratePerSecond(q.bytes, time.Since(q.begin))
		if q.past > 0 {
			rate = (rate + q.past) / 2
		}
		q.past = rate
	}
	q.bytes = 0
	if !errors.Is(err, base.ErrClosed) {
		q.failure = err
	}
}

// EndFlush gives the turn back.
func (q *Queue) EndFlush() {
	q.flushing.mu.Lock()
	q.underWay = false
	q.flushing.mu.Unlock()
	q.turn.Unlock()
}

// Flushing reports whether a flush is under way, until EndFlush.
func (q *Queue) Flushing() bool {
	q.flushing.mu.Lock()
	defer q.flushing.mu.Unlock()
	return q.underWay
}

// FlushFailure returns why the last flush failed, or nil if it succeeded.
func (q *Queue) FlushFailure() error {
	q.flushing.mu.Lock()
	defer q.flushing.mu.Unlock()
	return q.failure
}

// firstFlushRate is the assumed rate, in bytes a second, before there was a flush.
const firstFlushRate = 16 << 20

// FlushRate returns how fast memtables are flushed, in bytes a second. A flush that takes longer
// than those before it lowers the rate while it is under way. So writers never catch up with it.
func (q *Queue) FlushRate() float64 {
	q.flushing.mu.Lock()
	defer q.flushing.mu.Unlock()
	rate := q.past
	if rate == 0 {
		rate = firstFlushRate
	}
	if q.bytes > 0 {
		rate = min(rate, ratePerSecond(q.bytes, time.Since(q.begin)))
	}
	return rate
}

func ratePerSecond(bytes int64, d time.Duration) float64 {
	return float64(bytes) / max(d, time.Microsecond).Seconds()
}

// Raise notes that all entries up to seq are in tables or about to be. It needs no
// compare-and-swap, because its callers are never two at a time: a flush in its turn, and Ingest,
// which leads the commit queue when nothing is left to flush.
func (q *Queue) Raise(seq base.Seq) {
	if uint64(seq) > q.flushedSeq.Load() {
		q.flushedSeq.Store(uint64(seq))
	}
}

// FlushedSeq returns the highest sequence number that is in a table, or about to be.
func (q *Queue) FlushedSeq() base.Seq { return base.Seq(q.flushedSeq.Load()) }

// WrittenSince reports whether key may have been written after seq. PutIfAbsent has read the
// store at seq or later. What was written after seq is in the memtables, unless a flush has
// brought it into tables meanwhile: then the answer is a cautious yes, and PutIfAbsent reads
// again. Requires: the caller leads the commit queue.
func (q *Queue) WrittenSince(key []byte, seq base.Seq) bool {
	// The view comes before flushedSeq. A flush raises flushedSeq before its memtable leaves the
	// view, so a memtable that is not in v is covered by the number. In the other order, a flush
	// that ends between the two loads would be missed.
	v := q.View()
	if q.FlushedSeq() > seq {
		return true
	}
	newer := func(m *memtable.Memtable) bool {
		if !m.MayContain(key) {
			return false
		}
		if !m.Pin() {
			return true // flushed just now
		}
		defer m.Unpin()
		_, _, found, at := m.Get(key, base.MaxSeq)
		return found && at > seq
	}
	if newer(v.Mem) {
		return true
	}
	for _, imm := range v.Imms {
		if newer(imm.Mem) {
			return true
		}
	}
	return false
}
