// Package commit orders the writes of a store: it gives them their sequence numbers, puts
// them into the log and the memtable in groups, and makes them visible.
package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// A Pipeline orders the writes of a store. Writers put their requests into
// it. The first becomes the leader, takes all that wait as one group, writes
// the group to the log, applies it to the memtable and publishes the last
// sequence number. Then it hands the lead to the first writer that came
// meanwhile. So one goroutine at a time writes log and memtable, the store
// needs no goroutine for it, and a lone writer needs no hand-over.
//
// When the group is synced depends on Options.Durability. With SyncEach the
// leader syncs the log before it applies the group, so that nobody sees what
// is not durable. Else readers see writes before they are durable anyway; then
// the leader hands the lead over first, and each writer that asked for a sync
// waits for one outside the queue, where it holds nobody up.
type Pipeline struct {
	env Env
	_   [64]byte

	// visible is the last sequence number that readers may see. They load it without a
	// lock, so it has a cache line of its own. It is written by the leader.
	visible atomic.Uint64
	_       [64]byte

	mu      sync.Mutex
	pending []*Request
	led     bool // somebody leads
	closed  bool

	// requests are kept for use again, each queue's by itself: their channels
	// may not leave the bubble of testing/synctest that a store lives in.
	requests sync.Pool

	// syncs makes those writers share syncs that wait outside the queue.
	syncs syncSharing

	// The rest is owned by the leader.
	lastSeq  base.Seq // the last number given out, visible or burnt
	group    []*Request
	payloads [][]byte
	claims   claims
	together int // writers that were under way at the end of the last group that was synced here
	gather   gathering
}

// An Env is what a Pipeline needs from the store. The leader calls its functions.
type Env struct {
	SyncFirst bool // writes are durable before anybody sees them

	// MakeRoom returns when the memtable takes another group.
	MakeRoom func(ctx context.Context) error
	// Append appends payloads to the log, the last of which has the number last;
	// syncNext says that a sync follows.
	Append   func(payloads [][]byte, last base.Seq, syncNext bool) error
	Log      func() *wal.Writer // the current one
	Memtable func() *memtable.Memtable
	// WrittenSince says whether key may have been written after seq.
	WrittenSince func(key []byte, seq base.Seq) bool
	// Failed refuses writes because of err, an error of the log, and returns what the
	// writer at hand gets.
	Failed     func(err error) error
	SyncFailed func(w *wal.Writer, err error) error // the same of a sync outside the queue
	Wrote      func(ops, bytes uint64)
}

// Init makes the zero Pipeline ready for use.
func (q *Pipeline) Init(env Env) { q.env = env }

// Visible returns the last sequence number that readers may see.
func (q *Pipeline) Visible() base.Seq { return base.Seq(q.visible.Load()) }

// Publish lets readers see what is numbered up to seq. Requires: the caller leads the
// queue, or nobody writes yet.
func (q *Pipeline) Publish(seq base.Seq) { q.visible.Store(uint64(seq)) }

// Last returns the last number given out, visible or not. Requires: the caller leads the
// queue, or nobody writes yet.
func (q *Pipeline) Last() base.Seq { return q.lastSeq }

// Skip makes all later numbers higher than seq, which an earlier handle has given out.
// Requires: nobody writes yet.
func (q *Pipeline) Skip(seq base.Seq) { q.lastSeq = max(q.lastSeq, seq) }

// Take gives out the next number, to somebody who publishes it, or burns it. Requires: the
// caller leads the queue.
func (q *Pipeline) Take() (base.Seq, error) {
	if q.lastSeq+1 > base.MaxSeq {
		return 0, q.env.Failed(errUsedUp)
	}
	q.lastSeq++
	return q.lastSeq, nil
}

// Waiting returns how many requests wait for their turn.
func (q *Pipeline) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending)
}

var errUsedUp = errors.New("shale: sequence numbers are used up")

// A Batch is what a writer commits: operations in the form that the log stores. Several
// batches are committed together.
type Batch interface {
	Size() int                        // bytes in the log, at least
	Count() int                       // operations
	Payload() int                     // bytes of keys and values
	SetSeq(first base.Seq) []byte     // numbers the operations, and returns what the log stores
	Apply(mem *memtable.Memtable)     // adds the operations, which are numbered, to mem
	Keys(yield func(key []byte) bool) // of the operations
}

// Alone runs fn between two groups, as the leader. ctx ends the waiting for a turn.
func (q *Pipeline) Alone(ctx context.Context, fn func() error) error {
	r := q.NewRequest()
	defer r.Free()
	r.exclusive = fn
	return q.Commit(ctx, r)
}

// Close lets no more writers in, and is for the leader.
func (q *Pipeline) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// maxGroupBytes bounds the log bytes of one group, and with them how long the
// first of a group waits for the others.
const maxGroupBytes = 1 << 20

// A Request is one writer's batch on its way through the queue.
type Request struct {
	Batch Batch
	Sync  bool // the write is durable when Commit returns

	// IfAbsent makes the batch, of one Put, conditional: it is dropped if its
	// key was written after sequence number ReadSeq.
	IfAbsent bool
	ReadSeq  base.Seq
	Key      []byte
	Lost     bool // the result: the condition did not hold, or may not

	// exclusive asks to be called between two groups, with no batch.
	exclusive func() error

	queue *Pipeline
	err   error
	// log, if not nil, has to be synced up to end before the write is
	// acknowledged.
	log *wal.Writer
	end int64

	leads bool      // was told to lead; guarded by the queue's lock
	wake  chan bool // true: lead; false: done
}

// NewRequest returns a request for this queue, which is empty. The caller frees it when it
// is done.
func (q *Pipeline) NewRequest() *Request {
	if r, ok := q.requests.Get().(*Request); ok {
		return r
	}
	return &Request{queue: q, wake: make(chan bool, 1)}
}

// Free gives r back. Requires: no Commit of r is under way.
func (r *Request) Free() {
	*r = Request{queue: r.queue, wake: r.wake}
	r.queue.requests.Put(r)
}

// Commit runs r through the queue, and waits until its writes are as durable as
// it asks. ctx ends the waiting for a turn, not the writing.
func (q *Pipeline) Commit(ctx context.Context, r *Request) error {
	if r.Sync && !q.env.SyncFirst {
		q.syncs.writers.Add(1)
		defer q.syncs.writers.Add(-1)
	}
	if err := q.takeTurn(ctx, r); err != nil || r.log == nil {
		return err
	}
	if err := r.log.SyncTo(r.end, &q.syncs); err != nil {
		return q.env.SyncFailed(r.log, fmt.Errorf("shale: sync log: %w", err))
	}
	return nil
}

// takeTurn waits until r is committed, or leads the queue to commit it.
func (q *Pipeline) takeTurn(ctx context.Context, r *Request) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return base.ErrClosed
	}
	if !q.led { // then nobody waits
		q.led = true
		q.mu.Unlock()
		q.group = append(q.group[:0], r)
		return q.lead(ctx, r, false)
	}
	q.pending = append(q.pending, r)
	q.mu.Unlock()
	if lead, err := q.awaitTurn(ctx, r); err != nil || !lead {
		return err
	}
	return q.lead(ctx, r, true)
}

// awaitTurn waits until r is done (lead is false and err its outcome), or is
// to lead, or ctx ends.
func (q *Pipeline) awaitTurn(ctx context.Context, r *Request) (lead bool, err error) {
	select {
	case lead = <-r.wake:
	case <-ctx.Done():
		if q.withdraw(r) {
			return false, ctx.Err()
		}
		lead = <-r.wake // somebody has taken it already: it will be written
	}
	return lead, r.err
}

// withdraw takes r out of the queue, unless it is in a group or leads.
func (q *Pipeline) withdraw(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.pending {
		if p == r && !r.leads {
			q.pending = append(q.pending[:i], q.pending[i+1:]...)
			return true
		}
	}
	return false
}

// lead is the leader's turn. r is the first request in the queue; or it is not queued,
// because it did not have to wait, and is the group.
func (q *Pipeline) lead(ctx context.Context, r *Request, queued bool) error {
	finished := false
	// However the turn ends, somebody leads afterwards or may: else all writes
	// to come, and Close, would wait for ever.
	defer q.handOver(r)
	defer func() {
		if !finished {
			q.leaderFailed()
		}
	}()
	if r.exclusive == nil {
		r.err = q.env.MakeRoom(ctx)
	}
	if r.err != nil {
		q.takeFirst()
	} else {
		gathers := r.Sync && q.env.SyncFirst
		if gathers {
			q.gatherSynced()
		}
		if gathers || queued {
			q.takeGroup()
		}
		q.commitGroup(q.group)
	}
	finished = true
	return r.err
}

// leaderFailed gives the group of a leader that panics or exits its outcome.
// What of it is in the log is unknown. Requires: the caller leads.
func (q *Pipeline) leaderFailed() {
	q.takeFirst()
	err := q.env.Failed(errors.New("shale: a write ended amid the commit, by a panic or runtime.Goexit"))
	for _, r := range q.group {
		if r.err == nil {
			r.err = err
		}
	}
}

// handOver ends the turn of r's goroutine: it wakes the members of the group, and
// lets the next writer lead, if there is one.
func (q *Pipeline) handOver(r *Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Sync {
		q.together = len(q.group) + len(q.pending)
	}
	if len(q.pending) > 0 {
		q.pending[0].leads = true
		q.pending[0].wake <- true
	} else {
		q.led = false
	}
	for _, member := range q.group {
		if member != r {
			member.wake <- false
		}
	}
	clear(q.group)
	q.group = q.group[:0] // the next leader's, once the lock is free
}

// gatherSynced lets the writers of the last group, which were woken just now,
// come back before the next group is taken: else two groups of half the writers
// would take turns, each with a sync of its own. Requires: the caller leads.
func (q *Pipeline) gatherSynced() {
	q.gather.await(q.together, func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.group) + len(q.pending)
	})
}

// takeFirst makes the leader's request the group, if the group is empty.
func (q *Pipeline) takeFirst() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.group) == 0 {
		q.takeLocked(1)
	}
}

// takeLocked moves the first n requests that wait into the group. Requires: mu is held.
func (q *Pipeline) takeLocked(n int) {
	q.group = append(q.group, q.pending[:n]...)
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
}

// takeGroup moves the requests into the group that can be committed together: the
// first, and more up to maxGroupBytes. An exclusive request is a group of its own.
func (q *Pipeline) takeGroup() {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := 0
	for _, r := range q.group {
		bytes += r.Batch.Size()
	}
	n := 0
	for n < len(q.pending) {
		p := q.pending[n]
		first := len(q.group)+n == 0
		if !first && (p.exclusive != nil || bytes+p.Batch.Size() > maxGroupBytes) {
			break
		}
		n++
		if p.exclusive != nil {
			break
		}
		bytes += p.Batch.Size()
	}
	q.takeLocked(n)
}

// commitGroup writes, applies and publishes the group, and sets the outcome of
// each of its members. Requires: the caller leads.
func (q *Pipeline) commitGroup(group []*Request) {
	if group[0].exclusive != nil {
		group[0].err = group[0].exclusive()
		return
	}
	if err := q.writeGroup(group); err != nil {
		for _, r := range group {
			r.err = err
		}
	}
}

func (q *Pipeline) writeGroup(group []*Request) error {
	q.payloads = q.payloads[:0]
	wantSync := false
	first := q.lastSeq + 1
	seq := first
	var bytes, ops uint64
	several := len(group) > 1
	if several {
		q.claims.begin(group)
	}
	for _, r := range group {
		if r.IfAbsent && (several && q.claims.written(r.Key) || q.env.WrittenSince(r.Key, r.ReadSeq)) {
			r.Lost = true
			continue
		}
		if several {
			q.claims.add(r.Batch)
		}
		wantSync = wantSync || r.Sync
		n := r.Batch.Count()
		if n == 0 {
			continue
		}
		q.payloads = append(q.payloads, r.Batch.SetSeq(seq))
		seq += base.Seq(n)
		ops += uint64(n)
		bytes += uint64(r.Batch.Payload())
	}
	if seq > base.MaxSeq {
		return q.env.Failed(errUsedUp)
	}
	// From here on the numbers are burnt: should the write fail, its bytes may
	// be in the log all the same, and nothing else may bear their numbers.
	q.lastSeq = seq - 1
	if err := q.logGroup(q.payloads, wantSync); err != nil {
		return q.env.Failed(err)
	}
	if wantSync && !q.env.SyncFirst {
		w := q.env.Log()
		for _, r := range group {
			if r.Sync && !r.Lost {
				r.log, r.end = w, w.Len()
				q.syncs.logged.Add(1)
			}
		}
	}
	if seq == first {
		return nil
	}
	q.applyGroup(group)
	q.visible.Store(uint64(q.lastSeq))
	q.env.Wrote(ops, bytes)
	return nil
}

// logGroup appends the payloads to the log. If a sync is wanted, and writes are
// durable before they are seen, it syncs them too.
func (q *Pipeline) logGroup(payloads [][]byte, wantSync bool) error {
	if len(payloads) > 0 {
		if err := q.env.Append(payloads, q.lastSeq, wantSync); err != nil {
			return err
		}
	}
	if wantSync && q.env.SyncFirst {
		if err := q.env.Log().Sync(); err != nil {
			return fmt.Errorf("shale: sync log: %w", err)
		}
	}
	return nil
}

// applyGroup puts the operations into the memtable.
func (q *Pipeline) applyGroup(group []*Request) {
	mem := q.env.Memtable()
	mem.BeginWrite()
	for _, r := range group {
		if !r.Lost {
			r.Batch.Apply(mem)
		}
	}
	mem.EndWrite()
}
