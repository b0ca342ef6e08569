package shale

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

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
	group    []*commitRequest
	payloads [][]byte
	claims   claims
	together int // writers that were under way at the end of the last group that was synced here
	gather   gathering
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
func (db *DB) commit(ctx context.Context, r *commitRequest) error {
	if r.sync && !db.syncsFirst() {
		db.queue.syncs.writers.Add(1)
		defer db.queue.syncs.writers.Add(-1)
	}
	if err := db.takeTurn(ctx, r); err != nil || r.log == nil {
		return err
	}
	if err := r.log.SyncTogether(r.end, &db.queue.syncs); err != nil {
		return db.syncFailed(r.log, fmt.Errorf("shale: sync log: %w", err))
	}
	return nil
}

// takeTurn waits until r is committed, or leads the queue to commit it.
func (db *DB) takeTurn(ctx context.Context, r *commitRequest) error {
	q := &db.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	q.pending = append(q.pending, r)
	if q.led {
		q.mu.Unlock()
		if lead, err := db.awaitTurn(ctx, r); err != nil || !lead {
			return err
		}
	} else {
		q.led = true
		q.mu.Unlock()
	}
	return db.lead(ctx, r)
}

// awaitTurn waits until r is done (lead is false and err its outcome), or is
// to lead, or ctx ends.
func (db *DB) awaitTurn(ctx context.Context, r *commitRequest) (lead bool, err error) {
	select {
	case lead = <-r.wake:
	case <-ctx.Done():
		if db.queue.withdraw(r) {
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

// lead is the leader's turn. r is the first request in the queue.
func (db *DB) lead(ctx context.Context, r *commitRequest) error {
	q := &db.queue
	finished := false
	// However the turn ends, somebody leads afterwards or may: else all writes
	// to come, and Close, would wait for ever.
	defer q.handOver(r)
	defer func() {
		if !finished {
			db.leaderFailed()
		}
	}()
	var err error
	if r.exclusive == nil {
		err = db.makeRoom(ctx)
	}
	if err != nil {
		q.take(1)
		r.err = err
	} else {
		if r.sync && db.syncsFirst() {
			q.gatherSynced()
		}
		db.commitGroup(q.takeGroup())
	}
	finished = true
	return r.err
}

// leaderFailed gives the group of a leader that panics or exits its outcome.
// What of it is in the log is unknown. Requires: the caller leads.
func (db *DB) leaderFailed() {
	q := &db.queue
	if len(q.group) == 0 {
		q.take(1)
	}
	err := db.health.logFailed(errors.New("shale: a write ended amid the commit, by a panic or runtime.Goexit"))
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
	q.group = q.group[:0] // the next leader's, once the lock is free
}

// syncsFirst says whether writes are durable before anybody sees them.
func (db *DB) syncsFirst() bool { return db.opts.Durability == SyncEach }

// gatherSynced lets the writers of the last group, which were woken just now,
// come back before the next group is taken: else two groups of half the writers
// would take turns, each with a sync of its own. Requires: the caller leads.
func (q *commitQueue) gatherSynced() {
	q.gather.await(q.together, func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.pending)
	})
}

// take moves the first n requests into the group.
func (q *commitQueue) take(n int) {
	q.mu.Lock()
	q.takeLocked(n)
	q.mu.Unlock()
}

func (q *commitQueue) takeLocked(n int) {
	clear(q.group)
	q.group = append(q.group[:0], q.pending[:n]...)
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
}

// takeGroup moves the requests that can be committed together into the group:
// the first, and more up to maxGroupBytes. An exclusive request is a group of
// its own.
func (q *commitQueue) takeGroup() []*commitRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.pending) {
		p := q.pending[n]
		if n > 0 && (p.exclusive != nil || bytes+p.batch.Size() > maxGroupBytes) {
			break
		}
		n++
		if p.exclusive != nil {
			break
		}
		bytes += p.batch.Size()
	}
	q.takeLocked(n)
	return q.group
}

// claims are the keys that a group writes, as far as a conditional request comes
// after them: they are not in the memtable yet. It keeps hashes, by a function
// that nobody else uses; two keys with one hash only make a claim lose that is
// then made again.
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
func (db *DB) commitGroup(group []*commitRequest) {
	if group[0].exclusive != nil {
		group[0].err = group[0].exclusive()
		return
	}
	if err := db.writeGroup(group); err != nil {
		for _, r := range group {
			r.err = err
		}
	}
}

func (db *DB) writeGroup(group []*commitRequest) error {
	q := &db.queue
	q.payloads = q.payloads[:0]
	wantSync := false
	first := db.lastSeq + 1
	seq := first
	var bytes, ops uint64
	q.claims.begin(group)
	for _, r := range group {
		if r.ifAbsent && (q.claims.written(r.key) || db.writtenSince(r.key, r.readSeq)) {
			r.lost = true
			continue
		}
		q.claims.add(r.batch)
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
		return db.health.logFailed(fmt.Errorf("shale: sequence numbers are used up"))
	}
	// From here on the numbers are burnt: should the write fail, its bytes may
	// be in the log all the same, and nothing else may bear their numbers.
	db.lastSeq = seq - 1
	if err := db.logGroup(q.payloads, wantSync); err != nil {
		return db.health.logFailed(err)
	}
	if wantSync && !db.syncsFirst() {
		w := db.logs.current.Load()
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
	db.applyGroup(group)
	db.visible.Store(uint64(db.lastSeq))
	db.counters.writes.Add(ops)
	db.counters.writtenBytes.Add(bytes)
	return nil
}

// logGroup appends the payloads to the log. If a sync is wanted, and writes are
// durable before they are seen, it syncs them too.
func (db *DB) logGroup(payloads [][]byte, wantSync bool) error {
	if len(payloads) > 0 {
		end, err := db.logs.append(payloads, db.lastSeq, wantSync)
		if err != nil {
			return err
		}
		db.nudgeSync(end)
	}
	if wantSync && db.syncsFirst() {
		if err := db.logs.current.Load().Sync(); err != nil {
			return fmt.Errorf("shale: sync log: %w", err)
		}
	}
	return nil
}

// applyGroup puts the operations into the memtable.
func (db *DB) applyGroup(group []*commitRequest) {
	mem := db.view.Load().mem
	mem.BeginWrite()
	for _, r := range group {
		if !r.lost {
			applyBatch(mem, r.batch)
		}
	}
	mem.EndWrite()
}

// writtenSince tells whether key may have been written after seq. The caller
// read the tables at seq; what came later is in the memtables, unless a flush
// took it meanwhile: then the answer is a cautious yes.
func (db *DB) writtenSince(key []byte, seq base.Seq) bool {
	v := db.view.Load()
	if db.flushedSeq.Load() > uint64(seq) {
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
	if newer(v.mem) {
		return true
	}
	for _, imm := range v.imms {
		if newer(imm.mem) {
			return true
		}
	}
	return false
}
