package shale

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// A commitQueue orders the writes of a store. Writers put their requests into
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
type commitQueue struct {
	commitEnv
	_ [64]byte

	// visible is the last sequence number that readers may see. They load it without a
	// lock, so it has a cache line of its own. It is written by the leader.
	visible atomic.Uint64
	_       [64]byte

	mu      sync.Mutex
	pending []*commitRequest
	led     bool // somebody leads
	closed  bool

	// requests are kept for use again, each queue's by itself: their channels
	// may not leave the bubble of testing/synctest that a store lives in.
	requests sync.Pool

	// syncs makes those writers share syncs that wait outside the queue.
	syncs syncSharing

	// The rest is owned by the leader.
	lastSeq  base.Seq // the last number given out, visible or burnt
	group    []*commitRequest
	payloads [][]byte
	claims   claims
	together int // writers that were under way at the end of the last group that was synced here
	gather   gathering
}

// A commitEnv is what a commitQueue needs from the store. The leader calls its functions.
type commitEnv struct {
	syncFirst bool // writes are durable before anybody sees them

	// makeRoom returns when the memtable takes another group.
	makeRoom func(ctx context.Context) error
	// append appends payloads to the log, the last of which has the number last;
	// syncNext says that a sync follows.
	append   func(payloads [][]byte, last base.Seq, syncNext bool) error
	log      func() *wal.Writer // the current one
	memtable func() *memtable.Memtable
	// writtenSince says whether key may have been written after seq.
	writtenSince func(key []byte, seq base.Seq) bool
	// failed refuses writes because of err, an error of the log, and returns what the
	// writer at hand gets.
	failed     func(err error) error
	syncFailed func(w *wal.Writer, err error) error // the same of a sync outside the queue
	wrote      func(ops, bytes uint64)
}

// alone runs fn between two groups, as the leader. ctx ends the waiting for a turn.
func (q *commitQueue) alone(ctx context.Context, fn func() error) error {
	r := q.newRequest()
	defer r.free()
	r.exclusive = fn
	return q.commit(ctx, r)
}

// close lets no more writers in, and is for the leader.
func (q *commitQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// maxGroupBytes bounds the log bytes of one group, and with them how long the
// first of a group waits for the others.
const maxGroupBytes = 1 << 20

// A commitRequest is one writer's batch on its way through the queue.
type commitRequest struct {
	queue *commitQueue
	batch *Batch
	sync  bool

	// exclusive asks to run fn alone between two groups, with no batch:
	// for rotations and for Close.
	exclusive func() error

	// ifAbsent makes the batch, of one Put, conditional: it is dropped if its
	// key was written after sequence number readSeq.
	ifAbsent bool
	readSeq  base.Seq
	key      []byte
	lost     bool // the condition did not hold, or may not

	err error
	// log, if not nil, has to be synced up to end before the write is
	// acknowledged.
	log *wal.Writer
	end int64

	leads bool      // was told to lead; guarded by the queue's lock
	wake  chan bool // true: lead; false: done
}

// newRequest returns a request for this queue, to be freed when it is done.
func (q *commitQueue) newRequest() *commitRequest {
	if r, ok := q.requests.Get().(*commitRequest); ok {
		return r
	}
	return &commitRequest{queue: q, wake: make(chan bool, 1)}
}

// free forgets all but the channel.
func (r *commitRequest) free() {
	*r = commitRequest{queue: r.queue, wake: r.wake}
	r.queue.requests.Put(r)
}

// commit runs r through the queue, and waits until its writes are as durable as
// it asks. ctx ends the waiting for a turn, not the writing.
func (q *commitQueue) commit(ctx context.Context, r *commitRequest) error {
	if r.sync && !q.syncFirst {
		q.syncs.writers.Add(1)
		defer q.syncs.writers.Add(-1)
	}
	if err := q.takeTurn(ctx, r); err != nil || r.log == nil {
		return err
	}
	if err := r.log.SyncTogether(r.end, &q.syncs); err != nil {
		return q.syncFailed(r.log, fmt.Errorf("shale: sync log: %w", err))
	}
	return nil
}

// takeTurn waits until r is committed, or leads the queue to commit it.
func (q *commitQueue) takeTurn(ctx context.Context, r *commitRequest) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
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
func (q *commitQueue) awaitTurn(ctx context.Context, r *commitRequest) (lead bool, err error) {
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
func (q *commitQueue) withdraw(r *commitRequest) bool {
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
func (q *commitQueue) lead(ctx context.Context, r *commitRequest, queued bool) error {
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
		r.err = q.makeRoom(ctx)
	}
	if r.err != nil {
		q.takeFirst()
	} else {
		gathers := r.sync && q.syncFirst
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
func (q *commitQueue) leaderFailed() {
	q.takeFirst()
	err := q.failed(errors.New("shale: a write ended amid the commit, by a panic or runtime.Goexit"))
	for _, r := range q.group {
		if r.err == nil {
			r.err = err
		}
	}
}

// handOver ends the turn of r's goroutine: it wakes the members of the group, and
// lets the next writer lead, if there is one.
func (q *commitQueue) handOver(r *commitRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.sync {
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
func (q *commitQueue) gatherSynced() {
	q.gather.await(q.together, func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.group) + len(q.pending)
	})
}

// takeFirst makes the leader's request the group, if the group is empty.
func (q *commitQueue) takeFirst() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.group) == 0 {
		q.takeLocked(1)
	}
}

// takeLocked moves the first n requests that wait into the group. Requires: mu is held.
func (q *commitQueue) takeLocked(n int) {
	q.group = append(q.group, q.pending[:n]...)
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
}

// takeGroup moves the requests into the group that can be committed together: the
// first, and more up to maxGroupBytes. An exclusive request is a group of its own.
func (q *commitQueue) takeGroup() {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := 0
	for _, r := range q.group {
		bytes += r.batch.Size()
	}
	n := 0
	for n < len(q.pending) {
		p := q.pending[n]
		first := len(q.group)+n == 0
		if !first && (p.exclusive != nil || bytes+p.batch.Size() > maxGroupBytes) {
			break
		}
		n++
		if p.exclusive != nil {
			break
		}
		bytes += p.batch.Size()
	}
	q.takeLocked(n)
}

// claims are the keys that a group writes, as far as a conditional request comes
// after them: they are not in the memtable yet. It keeps hashes, by a function
// that nobody else uses; two keys with one hash only make a claim lose that is
// then made again. A group of one request needs no claims.
type claims struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	left   int // conditional requests of the group that are still to come
}

// begin forgets the last group, and counts the conditional requests of this one.
func (c *claims) begin(group []*commitRequest) {
	if len(c.hashes) > 0 { // a large map that is empty takes long to clear
		clear(c.hashes)
	}
	c.left = 0
	for _, r := range group {
		if r.ifAbsent {
			c.left++
		}
	}
	if c.left > 0 && c.hashes == nil {
		c.seed, c.hashes = maphash.MakeSeed(), make(map[uint64]struct{})
	}
}

// written reports whether a batch that was added may write key.
func (c *claims) written(key []byte) bool {
	c.left--
	_, ok := c.hashes[maphash.Bytes(c.seed, key)]
	return ok
}

// add adds what b writes, if somebody is still going to ask.
func (c *claims) add(b *Batch) {
	if c.left == 0 {
		return
	}
	for op := range b.Ops() {
		c.hashes[maphash.Bytes(c.seed, op.Key)] = struct{}{}
	}
}

// commitGroup writes, applies and publishes the group, and sets the outcome of
// each of its members. Requires: the caller leads.
func (q *commitQueue) commitGroup(group []*commitRequest) {
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

func (q *commitQueue) writeGroup(group []*commitRequest) error {
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
		if r.ifAbsent && (several && q.claims.written(r.key) || q.writtenSince(r.key, r.readSeq)) {
			r.lost = true
			continue
		}
		if several {
			q.claims.add(r.batch)
		}
		wantSync = wantSync || r.sync
		if r.batch.count == 0 {
			continue
		}
		q.payloads = append(q.payloads, r.batch.setSeq(seq))
		seq += base.Seq(r.batch.count)
		ops += uint64(r.batch.count)
		bytes += uint64(r.batch.payload)
	}
	if seq > base.MaxSeq {
		return q.failed(fmt.Errorf("shale: sequence numbers are used up"))
	}
	// From here on the numbers are burnt: should the write fail, its bytes may
	// be in the log all the same, and nothing else may bear their numbers.
	q.lastSeq = seq - 1
	if err := q.logGroup(q.payloads, wantSync); err != nil {
		return q.failed(err)
	}
	if wantSync && !q.syncFirst {
		w := q.log()
		for _, r := range group {
			if r.sync && !r.lost {
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
	q.wrote(ops, bytes)
	return nil
}

// logGroup appends the payloads to the log. If a sync is wanted, and writes are
// durable before they are seen, it syncs them too.
func (q *commitQueue) logGroup(payloads [][]byte, wantSync bool) error {
	if len(payloads) > 0 {
		if err := q.append(payloads, q.lastSeq, wantSync); err != nil {
			return err
		}
	}
	if wantSync && q.syncFirst {
		if err := q.log().Sync(); err != nil {
			return fmt.Errorf("shale: sync log: %w", err)
		}
	}
	return nil
}

// applyGroup puts the operations into the memtable.
func (q *commitQueue) applyGroup(group []*commitRequest) {
	mem := q.memtable()
	mem.BeginWrite()
	for _, r := range group {
		if !r.lost {
			applyBatch(mem, r.batch)
		}
	}
	mem.EndWrite()
}
