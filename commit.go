package shale

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/mutant"
	"github.com/shaledb/shale/memtable"
)

// A commitQueue orders the writes of a store. Writers put their requests into
// it; the first becomes the leader, takes all that wait as one group, writes
// the group to the log, syncs once if anybody asked for it, applies it to the
// memtable and publishes the last sequence number. Then it hands the lead to
// the first writer that came meanwhile. So there is one writer of log and
// memtable at any time, without a goroutine of its own and, for a lone writer,
// without a hand-over.
type commitQueue struct {
	mu      sync.Mutex
	pending []*commitRequest
	led     bool // somebody leads
	closed  bool

	// requests are kept for use again, each queue's by itself: their channels
	// may not leave the bubble of testing/synctest that a store lives in.
	requests sync.Pool

	// The rest is owned by the leader.
	group    []*commitRequest
	payloads [][]byte
	together int // writers that were under way at the end of the last synced group
	patience int // how often gather yields for them
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
	// key was written after sequence number readSeq. hash is the key's.
	ifAbsent bool
	readSeq  base.Seq
	key      []byte
	hash     uint64
	lost     bool // the condition did not hold

	err   error
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

// commit runs r through the queue. ctx ends the waiting for a turn, not the
// writing.
func (db *DB) commit(ctx context.Context, r *commitRequest) error {
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
	var err error
	if r.exclusive == nil {
		err = db.makeRoom(ctx)
	}
	if err != nil {
		q.take(1)
		r.err = err
	} else {
		if r.sync {
			q.gather()
		}
		db.commitGroup(q.takeGroup())
	}
	group := q.group
	q.mu.Lock()
	if r.sync {
		q.together = len(group) + len(q.pending)
	}
	if len(q.pending) > 0 {
		q.pending[0].leads = true
		q.pending[0].wake <- true
	} else {
		q.led = false
	}
	err = r.err
	// group is the next leader's to overwrite from here on, so wake the
	// followers before letting go of the lock.
	for _, member := range group {
		if member != r {
			member.wake <- false
		}
	}
	q.mu.Unlock()
	return err
}

// maxPatience is how often a leader lets others run: for some microseconds, where
// a sync takes a hundred.
const maxPatience = 64

// gather lets the writers of the last group, which were woken just now, come back
// before the next group is taken: else two groups of half the writers would take
// turns, each with a sync of its own. It is for synced writes, and tries less
// when the writers have other things to do. Requires: the caller leads.
func (q *commitQueue) gather() {
	if q.together <= 1 {
		return
	}
	q.patience = max(q.patience, 1)
	for range q.patience {
		q.mu.Lock()
		n := len(q.pending)
		q.mu.Unlock()
		if n >= q.together {
			q.patience = min(2*q.patience, maxPatience)
			return
		}
		runtime.Gosched()
	}
	q.patience /= 2
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
// its own. A conditional one can share a group only with requests before it
// that do not write its key.
func (q *commitQueue) takeGroup() []*commitRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	conditional := false
	for n < len(q.pending) {
		p := q.pending[n]
		if p.exclusive != nil && n > 0 {
			break
		}
		conditional = conditional || p.ifAbsent
		if n > 0 && (bytes+p.batch.Size() > maxGroupBytes || conditional && p.ifAbsent && q.groupWrites(n, p.hash)) {
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

// groupWrites tells whether one of the first n pending requests may write a
// key with the given hash. Batches of many operations are not looked into:
// they may.
func (q *commitQueue) groupWrites(n int, hash uint64) bool {
	for _, p := range q.pending[:n] {
		if p.batch.count != 1 || p.batch.firstHash() == hash {
			return true
		}
	}
	return false
}

// firstHash returns the hash of the key of the first operation.
func (b *Batch) firstHash() uint64 {
	for op := range b.Ops() {
		return bloom.Hash(op.Key)
	}
	return 0
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
	for _, r := range group {
		if r.ifAbsent && !mutant.LostClaim && db.writtenSince(r.key, r.hash, r.readSeq) {
			r.lost = true
			continue
		}
		wantSync = wantSync || r.sync
		if r.batch.count == 0 {
			continue
		}
		q.payloads = append(q.payloads, r.batch.setSeq(seq))
		seq += base.Seq(r.batch.count)
		ops += uint64(r.batch.count)
		if mutant.SplitBatch {
			q.payloads = splitLast(q.payloads)
		}
		bytes += uint64(r.batch.payload)
	}
	if seq > base.MaxSeq {
		return db.becomeReadOnly(fmt.Errorf("shale: sequence numbers are used up"))
	}
	// From here on the numbers are burnt: should the write fail, its bytes may
	// be in the log all the same, and nothing else may bear their numbers.
	db.lastSeq = seq - 1
	if err := db.logGroup(q.payloads, wantSync); err != nil {
		if mutant.SeqReused {
			db.lastSeq = first - 1
		}
		return db.becomeReadOnly(err)
	}
	if seq == first {
		return nil
	}
	if mutant.VisibleEarly {
		db.visible.Store(uint64(db.lastSeq))
		mutant.Pause()
	}
	db.applyGroup(group)
	db.visible.Store(uint64(db.lastSeq))
	db.counters.writes.Add(ops)
	db.counters.writtenBytes.Add(bytes)
	return nil
}

// logGroup appends the payloads to the log and makes them durable if asked.
func (db *DB) logGroup(payloads [][]byte, wantSync bool) error {
	if len(payloads) > 0 {
		end, err := db.wal.AppendBatch(payloads, db.lastSeq, wantSync)
		if err != nil {
			return fmt.Errorf("shale: write log: %w", err)
		}
		db.nudgeSync(end)
	}
	if wantSync && !mutant.AckBeforeSync {
		if err := db.wal.Sync(); err != nil {
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
		if r.lost || r.batch.count == 0 {
			continue
		}
		db.applyBatch(mem, r.batch)
	}
	mem.EndWrite()
}

// writtenSince tells whether key may have been written after seq. The caller
// read the tables at seq; what came later is in the memtables, unless a flush
// took it meanwhile: then the answer is a cautious yes.
func (db *DB) writtenSince(key []byte, hash uint64, seq base.Seq) bool {
	v := db.view.Load()
	if db.flushedSeq.Load() > uint64(seq) {
		return true
	}
	newer := func(m *memtable.Memtable) bool {
		if !m.MayContain(hash) {
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
