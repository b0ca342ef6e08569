// Package commit orders the writes of a store: it gives them sequence numbers, writes
// them to the log and to the memtable in groups, and makes them visible to readers.
package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// A Pipeline orders the writes of a store. It is a queue of requests,
// one for each writer that waits. A write takes these steps:
//
//  1. The writer puts its request into the queue. If nobody leads
//     the queue, the writer becomes the leader. Otherwise it
//     waits until its request is done or it is made the leader.
//  2. The leader waits for room in the memtable (MakeRoom),
//     and takes the waiting requests as one group (takeGroup).
//  3. It numbers the operations of the group, appends them to the log, and asks the gate.
//  4. It applies the group to the memtable, and then publishes the
//     last sequence number. Readers see the group from now on.
//  5. It wakes the writers of the group, and makes the first
//     writer that waits now the next leader (handOver).
//
// So only one goroutine at a time writes the log and the memtable. The store
// needs no goroutine of its own for it, and a writer that is alone wakes nobody.
//
// When a group is synced depends on Options.Durability. With SyncEach the leader syncs the
// log between steps 3 and 4, so that no reader sees a write that is not durable. With the
// other settings readers see writes before they are durable anyway. Then a writer that
// asked for a sync waits for it after step 5, where it does not delay the next groups.
type Pipeline struct {
	env Env
	_   [64]byte

	// visible is the last sequence number that readers may see. They load it
	// without a lock, so it has a cache line of its own. Only the leader writes it.
	visible atomic.Uint64
	_       [64]byte

	// Shown rings when visible has grown.
	Shown base.Bell

	mu      lockorder.Mutex[lockorder.Leaf]
	pending []*Request // the requests that wait, oldest first
	led     bool       // somebody is the leader
	closed  bool

	follower atomic.Pointer[follower] // nil until the first transaction: the tail

	// requests holds requests that can be used again. Each Pipeline has its own pool, because
	// a channel must not leave the bubble of testing/synctest that its store lives in.
	requests sync.Pool

	// syncs lets writers that wait for a sync after step 5 share it.
	syncs syncSharing

	// The leader owns the following fields.
	lastSeq  base.Seq   // the last number given out, whether it was published or not
	group    []*Request // the requests that the leader commits
	payloads [][]byte   // memory for writeGroup
	claims   claims
	torn     bool          // see Torn
	ops      atomic.Uint64 // written since Init: see Written
	bytes    atomic.Uint64
	together int       // number of writers in the group and the queue when the last synced group ended
	gather   gathering // how long to wait for these: see gatherSynced
}

// An Env is what a Pipeline needs from the store: the owners below it, and what to call. Only the
// leader uses it, but for SyncFailed.
type Env struct {
	SyncFirst bool // with SyncEach: writes are durable before any reader sees them

	Log       Log
	Memtables Memtables
	Health    Health

	// MakeRoom returns when the memtable can take another group.
	MakeRoom   func(ctx context.Context) error
	Gate       func(last base.Seq) error            // asked before a group with numbers up to last becomes visible; nil: none
	SyncFailed func(w *wal.Writer, err error) error // Health.LogFailed for a sync of w after step 5

	TailChunk int // bytes of a chunk of the Tail; 0: as many as are good
}

// A Log is where writes go first: logset.Set.
type Log interface {
	// Append appends payloads to the log. last is the last sequence number in them. syncNext says
	// that a sync follows.
	Append(payloads [][]byte, last base.Seq, syncNext bool) error
	Current() *wal.Writer
}

// Memtables are where readers find writes that are in no table: memqueue.Queue.
type Memtables interface {
	Current() *memtable.Memtable
	// WrittenSince reports whether key may have been written after seq.
	WrittenSince(key []byte, seq base.Seq) bool
}

// A Health makes the store refuse writes: health.Health. Its methods return the error for the
// writers of the group.
type Health interface {
	LogFailed(err error) error
	CommitRefused(err error) error // the gate did, with the group in the log
}

// Init prepares the zero Pipeline for use. It is called once.
func (q *Pipeline) Init(env Env) { q.env = env }

// Visible returns the last sequence number that readers may see.
func (q *Pipeline) Visible() base.Seq { return base.Seq(q.visible.Load()) }

// Publish lets readers see all writes with numbers up to seq.
// Requires: the caller is the leader, or nobody writes yet.
func (q *Pipeline) Publish(seq base.Seq) {
	q.visible.Store(uint64(seq))
	q.Shown.Ring()
}

// Last returns the last number given out, whether it was published
// or not. Requires: the caller is the leader, or nobody writes yet.
func (q *Pipeline) Last() base.Seq { return q.lastSeq }

// Skip makes all later numbers higher than seq, because an earlier
// handle has given out numbers up to seq. Requires: nobody writes yet.
func (q *Pipeline) Skip(seq base.Seq) { q.lastSeq = max(q.lastSeq, seq) }

// Take gives out the next number. The caller publishes it,
// or never uses it. Requires: the caller is the leader.
func (q *Pipeline) Take() (base.Seq, error) {
	if q.lastSeq+1 > base.MaxSeq {
		return 0, q.env.Health.LogFailed(errUsedUp)
	}
	q.lastSeq++
	return q.lastSeq, nil
}

// Written returns how many operations were written, and how many bytes of keys and values.
func (q *Pipeline) Written() (ops, bytes uint64) { return q.ops.Load(), q.bytes.Load() }

// Torn reports whether a leader panicked while it applied a group, so that the memtable may
// hold a part of a batch. No reader sees that part, because its numbers were not published. But
// a table made from the memtable would show it. Requires: the caller is the leader.
func (q *Pipeline) Torn() bool { return q.torn }

// Waiting returns how many requests wait in the queue.
func (q *Pipeline) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending)
}

// errUsedUp ends all writes: an internal key has no room for a larger number.
var errUsedUp = errors.New("shale: sequence numbers are used up")

// A Batch is the list of operations that a writer commits, in the form that the log stores.
type Batch interface {
	Size() int                    // number of bytes in the log, at least
	Count() int                   // number of operations
	Payload() int                 // bytes of all keys and values
	SetSeq(first base.Seq) []byte // numbers the operations from first up, and returns the bytes for the log
	Apply(mem *memtable.Memtable) // adds the operations to mem; requires SetSeq
	Visit(v Visitor)              // shows the operations to v, in their order
}

// A Visitor is shown the operations of a batch. It does not keep the slices.
type Visitor interface {
	Key(key []byte)            // of a put or a delete
	Range(lower, upper []byte) // of a range delete; upper nil: there is no bound
}

// Alone calls fn as the leader, between two groups. So no group is being written
// during fn. If ctx ends while Alone waits for its turn, it returns the error of ctx.
func (q *Pipeline) Alone(ctx context.Context, fn func() error) error {
	r := q.NewRequest()
	defer r.Free()
	r.exclusive = fn
	return q.Commit(ctx, r)
}

// Close refuses requests from now on. Requests that wait already
// are still committed. Requires: the caller is the leader.
func (q *Pipeline) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// maxGroupBytes bounds the bytes that one group writes to the log. So it
// also bounds how long the first writer of a group waits for the others.
const maxGroupBytes = 1 << 20

// A Request is the write of one writer, on its way through the queue.
type Request struct {
	Batch Batch
	Sync  bool // the write must be durable when Commit returns

	// IfAbsent makes the batch conditional. The batch is one Put of Key.
	// It is dropped if Key was written after sequence number ReadSeq.
	IfAbsent bool
	ReadSeq  base.Seq
	Key      []byte
	Lost     bool // result: the batch was dropped, because the condition was false or may have been false

	// Reading makes the batch that of a transaction: it is dropped, and Lost, unless Verdict is Passed.
	Reading Condition
	Verdict Verdict

	// exclusive is a function to call between two groups. Such a request has no batch.
	exclusive func() error

	queue *Pipeline
	err   error
	// log is not nil if a sync is still due after step 5: the log
	// must be synced up to byte end before the write is acknowledged.
	log *wal.Writer
	end int64

	leads bool      // the request was made the leader; guarded by the queue's mu
	wake  chan bool // true: lead the queue; false: the request is done
}

// A Condition is a Reading, or nil. It is an interface for the same reason as a follower.
type Condition interface {
	inGroup(visible, last base.Seq) Verdict
}

// NewRequest returns an empty request for this
// queue. The caller calls Free after the last use.
func (q *Pipeline) NewRequest() *Request {
	if r, ok := q.requests.Get().(*Request); ok {
		return r
	}
	return &Request{queue: q, wake: make(chan bool, 1)}
}

// Free gives r back to be used again. Requires: no Commit of r is in progress.
func (r *Request) Free() {
	*r = Request{queue: r.queue, wake: r.wake}
	r.queue.requests.Put(r)
}

// Commit takes r through the queue, and returns when its writes are as durable as r
// asks. If ctx ends while r waits for its turn, or waits for room as the leader, Commit
// returns the error of ctx and nothing is written. After that, ctx has no effect.
func (q *Pipeline) Commit(ctx context.Context, r *Request) error {
	if r.Sync && !q.env.SyncFirst {
		q.syncs.writers.Add(1)
		defer q.syncs.writers.Add(-1)
	}
	if err := q.takeTurn(ctx, r); err != nil || r.log == nil {
		return err
	}
	// The store hears of a failure also if the file system panics or calls runtime.Goexit.
	err := errSyncLeft
	defer func() {
		if err == errSyncLeft {
			_ = q.env.SyncFailed(r.log, err) // there is nobody to return it to
		}
	}()
	if err = r.log.SyncTo(r.end, &q.syncs); err != nil {
		return q.env.SyncFailed(r.log, fmt.Errorf("shale: sync log: %w", err))
	}
	return nil
}

// errSyncLeft is the failure of a sync after step 5 that has not returned.
var errSyncLeft = errors.New("shale: a sync of the log ended by a panic or runtime.Goexit")

// takeTurn returns when r is committed. If r does not have to wait,
// or is made the leader, takeTurn leads the queue to commit it.
func (q *Pipeline) takeTurn(ctx context.Context, r *Request) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return base.ErrClosed
	}
	if !q.led { // in that case the queue is empty
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

// awaitTurn waits until one of three things happens: r is done, r is made the
// leader, or ctx ends. If r is done, lead is false and err is the outcome.
func (q *Pipeline) awaitTurn(ctx context.Context, r *Request) (lead bool, err error) {
	select {
	case lead = <-r.wake:
	case <-ctx.Done():
		if q.withdraw(r) {
			return false, base.ContextError(ctx)
		}
		lead = <-r.wake // it is in a group or leads: it will be written
	}
	return lead, r.err
}

// withdraw takes r out of the queue and reports whether it
// did. It does not if r is in a group or was made the leader.
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

// lead is the turn of a leader. If queued is true, r is the first request
// in the queue. If not, r did not have to wait and is the group already.
func (q *Pipeline) lead(ctx context.Context, r *Request, queued bool) error {
	finished := false
	lockorder.Enter[lockorder.Lead]()
	// handOver must run however the turn ends, even by a panic. Otherwise no
	// later write would ever get its turn, and Close neither. leaderFailed runs
	// before it, because it sets the results that handOver gives to the group.
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

// leaderFailed sets the result of a group whose leader panics or calls
// runtime.Goexit. Nobody knows how much of the group is in the log, so the
// store refuses writes from now on. Requires: the caller is the leader.
func (q *Pipeline) leaderFailed() {
	q.takeFirst()
	err := q.env.Health.LogFailed(errors.New("shale: a write ended amid the commit, by a panic or runtime.Goexit"))
	for _, r := range q.group {
		if r.err == nil {
			r.err = err
		}
	}
}

// handOver ends the turn of r, the leader. It wakes the other writers of the group, and then
// makes the first writer in the queue the next leader. If nobody waits, nobody leads.
//
// It wakes the writers without the lock, which each of them takes to write again. If it held
// the lock meanwhile, thousands of writers would block on it, and be woken once more, one by one.
func (q *Pipeline) handOver(r *Request) {
	lockorder.Leave[lockorder.Lead]()
	if r.Sync {
		q.together = len(q.group) + q.Waiting() // before the writers of the group come back
	}
	for _, member := range q.group {
		if member != r {
			member.wake <- false
		}
	}
	clear(q.group)
	q.group = q.group[:0]
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		q.led = false
		return
	}
	q.pending[0].leads = true
	q.pending[0].wake <- true
}

// gatherSynced waits briefly for the writers of the last synced group, before the
// next group is taken. They were woken just now and are likely to write again.
// Without the wait, two groups with half of the writers each would take turns,
// and each would need a sync of its own. Requires: the caller is the leader.
func (q *Pipeline) gatherSynced() {
	q.gather.await(q.together, func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.group) + len(q.pending)
	})
}

// takeFirst takes the leader's own request as the group, if the group is empty.
func (q *Pipeline) takeFirst() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.group) == 0 {
		q.takeLocked(1)
	}
}

// takeLocked moves the first n requests of the queue into the group. Requires: mu is held.
func (q *Pipeline) takeLocked(n int) {
	q.group = append(q.group, q.pending[:n]...)
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
}

// takeGroup moves requests that can be committed together from the
// queue into the group, up to maxGroupBytes. The group gets one
// request at least. An exclusive request is a group of its own.
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

// commitGroup writes, applies and publishes the group, and sets
// the results of its members. Requires: the caller is the leader.
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

// writeGroup takes steps 3 and 4 of the Pipeline: it numbers the operations,
// writes them to the log and to the memtable, and publishes them. Requests
// that lose their condition are left out. Requires: the caller is the leader.
func (q *Pipeline) writeGroup(group []*Request) error {
	q.payloads = q.payloads[:0]
	wantSync := false
	first := q.lastSeq + 1
	seq := first
	var bytes, ops uint64
	several, tail := len(group) > 1, q.follower.Load()
	tailed := tail != nil && (*tail).begin(q.lastSeq)
	if several {
		q.claims.begin(group)
	}
	for _, r := range group {
		if r.Lost = q.loses(r, several); r.Lost {
			continue
		}
		if several {
			q.claims.add(r.Batch)
		}
		if tailed {
			(*tail).add(seq, r.Batch)
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
		return q.env.Health.LogFailed(errUsedUp)
	}
	// From now on the numbers are used up. If the write to the log
	// fails, its bytes may be in the log all the same. If other
	// operations got the same numbers, a recovery could apply both.
	q.lastSeq = seq - 1
	if err := q.logGroup(q.payloads, wantSync); err != nil {
		return q.env.Health.LogFailed(err)
	}
	// An error of the gate is the program's, and not one of the log: it may wrap anything.
	if len(q.payloads) > 0 && q.env.Gate != nil {
		if err := q.env.Gate(q.lastSeq); err != nil {
			return q.env.Health.CommitRefused(err)
		}
	}
	if wantSync && !q.env.SyncFirst {
		w := q.env.Log.Current()
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
	q.torn = true
	q.applyGroup(group)
	if tailed {
		(*tail).publish(first - 1)
	}
	q.Publish(q.lastSeq)
	q.torn = false
	q.ops.Add(ops)
	q.bytes.Add(bytes)
	return nil
}

// loses reports whether the condition of r is false, or may be. several says that the group has other members, whose
// keys are in claims and in the tail. Requires: the caller is the leader; no number of the group is used up yet.
func (q *Pipeline) loses(r *Request, several bool) bool {
	if r.IfAbsent && (several && q.claims.written(r.Key) || q.env.Memtables.WrittenSince(r.Key, r.ReadSeq)) {
		return true
	}
	if r.Reading == nil {
		return false
	}
	r.Verdict = r.Reading.inGroup(q.Visible(), q.lastSeq)
	return r.Verdict != Passed
}

// leaderOps is how many operations of the tail the leader compares for one transaction. If there are more, the
// transaction compares them itself, and comes again. Each time the leader compares eight times as many: else it would have
// to come for ever where each group is larger than that.
const leaderOps = 4096

// logGroup appends the payloads to the log. With SyncFirst, it also
// syncs the log if wantSync is set.
func (q *Pipeline) logGroup(payloads [][]byte, wantSync bool) error {
	if len(payloads) > 0 {
		if err := q.env.Log.Append(payloads, q.lastSeq, wantSync); err != nil {
			return err
		}
	}
	if wantSync && q.env.SyncFirst {
		if err := q.env.Log.Current().Sync(); err != nil {
			return fmt.Errorf("shale: sync log: %w", err)
		}
	}
	return nil
}

// applyGroup adds the operations of the group to the memtable.
func (q *Pipeline) applyGroup(group []*Request) {
	mem := q.env.Memtables.Current()
	mem.BeginWrite()
	for _, r := range group {
		if !r.Lost {
			r.Batch.Apply(mem)
		}
	}
	mem.EndWrite()
}
