package commit

import (
	"cmp"
	"encoding/binary"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/txn"
)

// A Tail has the keys of the newest operations in the order of commits, so that a transaction can look whether one of
// them is a key that it has read. The leader of the queue appends to it while a writable transaction is open; others read
// it without a lock. It has the bytes of tailChunks chunks at most, or one group that is larger. For a transaction that began
// before the first chunk, the tables have to be asked.
//
// The operations of a group come to it before readers see them. If the group fails, they never come: a transaction must
// not conflict with what was refused, also not after Resume.
type Tail struct {
	Lanes txn.Lanes // of transactions that have lost a conflict, and try again

	size  int                   // bytes of a chunk
	open  atomic.Int64          // writable transactions
	first atomic.Pointer[chunk] // nil: nothing is kept
	last  atomic.Pointer[chunk] // nil as well

	// The leader's.
	group []byte   // the operations of its group so far, as chunks have them
	bytes int      // of the buffers of all chunks
	idle  int      // groups since a transaction was open
	seq   base.Seq // of the next operation
}

// A chunk is a part of the tail. Once a byte is in it, it does not change. Its operations:
//
//	hash u64 | sequence number u64 | key length varint | key
//	0 | sequence number u64 | key length varint | lower | key length varint | upper    (all keys of an ingestion)
//	1 | sequence number u64 | key length varint | lower | key length varint | upper | 1 u8, or 0 u8    (a range delete; upper
//	    is exclusive, and with a 0 there is no bound)
type chunk struct {
	from base.Seq     // this chunk and those after it have all operations with higher numbers
	buf  []byte       // its capacity never changes
	n    atomic.Int64 // bytes that may be read
	seen atomic.Int64 // the first of them, of operations that readers of the store see
	next atomic.Pointer[chunk]
}

const (
	chunkSize  = 64 << 10 // unless a test has smaller ones
	tailChunks = 16
	idleGroups = 256
)

// begin begins a group of operations after last, and reports whether they have to be added. The tail goes on for
// idleGroups after the last transaction, so that one after the other uses the same chunk. Requires: the caller is the
// leader.
func (t *Tail) begin(last base.Seq) (wanted bool) {
	if t.group = t.group[:0]; cap(t.group) > chunkSize {
		t.group = nil
	}
	if t.open.Load() > 0 {
		if t.idle = 0; t.last.Load() == nil {
			c := &chunk{from: last, buf: make([]byte, t.size)}
			t.first.Store(c)
			t.last.Store(c)
			t.bytes = t.size
		}
		return true
	}
	if t.last.Load() == nil {
		return false
	}
	if t.idle++; t.idle == idleGroups {
		t.first.Store(nil)
		t.last.Store(nil)
		t.bytes = 0
		return false
	}
	return true
}

// add adds the operations of b, the first of which gets number seq, to the group. Requires: begin has returned true.
func (t *Tail) add(seq base.Seq, b Batch) {
	t.seq = seq
	b.Visit(t)
}

const (
	ingested    = 0 // in place of a hash
	rangeDelete = 1 // likewise
)

// Key implements Visitor: it adds an operation on key to the group.
func (t *Tail) Key(key []byte) {
	t.group = binary.LittleEndian.AppendUint64(t.group, txn.Hash(key))
	t.group = binary.LittleEndian.AppendUint64(t.group, uint64(t.seq))
	t.group = append(binary.AppendUvarint(t.group, uint64(len(key))), key...)
	t.seq++
}

// Range implements Visitor: it adds a range delete to the group.
func (t *Tail) Range(lower, upper []byte) {
	t.span(rangeDelete, t.seq, lower, upper)
	bounded := byte(1)
	if upper == nil {
		bounded = 0
	}
	t.group = append(t.group, bounded)
	t.seq++
}

// addSpan adds an ingestion with number seq of keys from lower to upper to the group. Requires: as for add.
func (t *Tail) addSpan(seq base.Seq, lower, upper []byte) {
	t.span(ingested, seq, lower, upper)
}

func (t *Tail) span(what uint64, seq base.Seq, lower, upper []byte) {
	t.group = binary.LittleEndian.AppendUint64(t.group, what)
	t.group = binary.LittleEndian.AppendUint64(t.group, uint64(seq))
	t.group = append(binary.AppendUvarint(t.group, uint64(len(lower))), lower...)
	t.group = append(binary.AppendUvarint(t.group, uint64(len(upper))), upper...)
}

// publish appends the group, which has the numbers behind last, to the tail. Requires: the caller is the leader; readers are
// about to see the group, and do not yet.
func (t *Tail) publish(last base.Seq) {
	if len(t.group) == 0 {
		return
	}
	c := t.last.Load()
	n := int(c.n.Load())
	c.seen.Store(int64(n)) // the groups before are visible by now
	if n+len(t.group) > len(c.buf) {
		next := &chunk{from: last, buf: make([]byte, max(t.size, len(t.group)))}
		c.next.Store(next)
		t.bytes += len(next.buf)
		for first := t.first.Load(); first != next && t.bytes > tailChunks*t.size; first = t.first.Load() {
			t.bytes -= len(first.buf)
			t.first.Store(first.next.Load())
		}
		t.last.Store(next)
		c, n = next, 0
	}
	c.n.Store(int64(n + copy(c.buf[n:], t.group)))
}

// Open notes that a writable transaction begins, and returns where the tail is. The number of its snapshot is taken
// afterwards: so writes that come after the snapshot are in the tail behind the mark, or the tail begins after them and
// says so.
func (t *Tail) Open() Mark {
	t.open.Add(1)
	return t.Mark()
}

// Mark is Open for a transaction that is open, and takes a new snapshot.
func (t *Tail) Mark() Mark {
	c := t.last.Load()
	if c == nil {
		return Mark{}
	}
	return Mark{c.from, int(c.seen.Load())}
}

// A Mark is a place in the tail. It has the number of its chunk, and not the chunk, which a long transaction would keep
// in memory with all that come after it.
type Mark struct {
	from   base.Seq
	offset int
}

// Close notes that a writable transaction has ended.
func (t *Tail) Close() { t.open.Add(-1) }

// Transactions returns how many writable transactions are open.
func (t *Tail) Transactions() int64 { return t.open.Load() }

// A follower gets all operations of the queue. It is always a Tail, and an interface so that programs without transactions
// do not link one.
type follower interface {
	begin(last base.Seq) (wanted bool)
	add(first base.Seq, b Batch)
	addSpan(seq base.Seq, lower, upper []byte)
	publish(last base.Seq)
	Transactions() int64
}

// Tail returns the tail of the queue, which the first call makes.
func (q *Pipeline) Tail() *Tail {
	if f := q.follower.Load(); f != nil {
		return (*f).(*Tail)
	}
	t := &Tail{size: cmp.Or(q.env.TailChunk, chunkSize)}
	f := follower(t)
	q.follower.CompareAndSwap(nil, &f)
	return (*q.follower.Load()).(*Tail)
}

// Transactions returns how many writable transactions are open.
func (q *Pipeline) Transactions() int64 {
	if f := q.follower.Load(); f != nil {
		return (*f).Transactions()
	}
	return 0
}

// Ingested notes that keys from lower to upper were ingested with number seq, which nobody sees yet. Requires: the
// caller is the leader.
func (q *Pipeline) Ingested(seq base.Seq, lower, upper []byte) {
	if tail := q.follower.Load(); tail != nil && (*tail).begin(seq-1) {
		(*tail).addSpan(seq, lower, upper)
		(*tail).publish(seq - 1)
	}
}

// A Reading is what a transaction has read, and how far it was compared with the tail.
type Reading struct {
	tail *Tail
	Set  ReadSet
	Seq  base.Seq // all writes up to this number are known not to conflict
	At   Mark     // what lies before it has lower numbers than Seq, or the same; zero: nothing is known

	chunk  *chunk // nil: Seq says all
	offset int
	most   int // operations that the leader was to compare the last time

	// The result, if Check has returned Conflict.
	Key   []byte   // that was written
	KeyAt base.Seq // the number of that write
}

// A ReadSet is a txn.ReadSet. It is an interface so that a program without transactions does not link that.
type ReadSet interface {
	Has(hash uint64, key []byte) bool
	HasIn(sp txn.Span) bool
}

// A Verdict is what Check says of a transaction.
type Verdict int

// The verdicts.
const (
	Passed   Verdict = iota // nothing that the transaction has read is in the rest of the tail
	Conflict                // what it has read was written
	TooMany                 // there are more operations than Check was to look at
	Missing                 // the tail does not say: the tables have to be asked, and Reading.Seq has to rise
)

// Check compares what was read with the operations after Reading.Seq, but for those that an earlier Check has compared.
// It looks at limit of them at most.
func (t *Tail) Check(r *Reading, limit int) Verdict {
	r.tail = t
	if r.chunk == nil {
		c := t.first.Load()
		if c == nil || c.from > r.Seq {
			return Missing
		}
		for next := c.next.Load(); next != nil && next.from <= r.Seq; next = c.next.Load() {
			c = next
		}
		if r.chunk, r.offset = c, 0; c.from == r.At.from {
			r.offset = r.At.offset
		}
	}
	for {
		n := int(r.chunk.n.Load())
		for r.offset < n {
			if limit--; limit < 0 {
				return TooMany
			}
			rest, v := r.compare(r.chunk.buf[r.offset:n])
			if v == Missing {
				r.chunk = nil
			}
			if v != Passed {
				return v
			}
			r.offset = n - len(rest)
		}
		last := t.last.Load()
		next := r.chunk.next.Load()
		switch {
		case next == nil && r.chunk == last:
			return Passed
		case next == nil: // the leader has ended this tail just when the transaction began
			r.chunk = nil
			return Missing
		}
		// Nothing is appended to a chunk that has a next one.
		if r.offset < int(r.chunk.n.Load()) {
			continue
		}
		r.chunk, r.offset = next, 0
	}
}

// Hold makes the next Check of r begin with what comes to the tail from now on, however far the tail moves on: so a transaction
// of many reads has to ask the tables once. Requires: before the next Check, Reading.Seq becomes a number that readers see after
// the call.
func (t *Tail) Hold(r *Reading) { r.chunk, r.offset = t.last.Load(), 0 }

// inGroup is Check for the leader, which also compares with the group so far. last is the last number that was given
// out, visible the last that readers see. Requires: Check was called.
func (r *Reading) inGroup(visible, last base.Seq) Verdict {
	t := r.tail
	if r.Seq == visible {
		r.Seq = last // the writes between have failed
	}
	r.most = max(leaderOps, 8*r.most)
	if v := t.Check(r, r.most); v != Passed {
		return v
	}
	for rest, v := t.group, Passed; len(rest) > 0; {
		if rest, v = r.compare(rest); v != Passed {
			return v
		}
	}
	return Passed
}

// compare compares what was read with the operation that ops begins with, and returns what follows. Of an ingestion the
// tail has the bounds, and the tables know which of the keys between them it has: that verdict must not depend on how far
// the tail reaches back.
func (r *Reading) compare(ops []byte) (rest []byte, v Verdict) {
	hash, seq := binary.LittleEndian.Uint64(ops), base.Seq(binary.LittleEndian.Uint64(ops[8:]))
	key, rest := txn.Cut(ops[16:])
	sp := txn.Span{Lower: key}
	if hash <= rangeDelete {
		sp.Upper, rest = txn.Cut(rest)
	}
	if hash == rangeDelete {
		if sp.End = txn.BeforeUpper; rest[0] == 0 {
			sp.End = txn.Unbounded
		}
		rest = rest[1:]
	}
	switch {
	case seq <= r.Seq:
		return rest, Passed
	case hash == ingested && r.Set.HasIn(sp):
		return rest, Missing
	case hash == ingested, hash == rangeDelete && !r.Set.HasIn(sp), hash != rangeDelete && !r.Set.Has(hash, key):
		return rest, Passed
	}
	r.Key, r.KeyAt = append([]byte{}, key...), seq
	return rest, Conflict
}
