package shale

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/memtable"
)

// This file has Batch, and the form that its operations have in the log.

// An OpKind says what an Op does.
type OpKind uint8

// The kinds of operations.
const (
	OpDelete      = OpKind(base.KindDelete)      // removes Key
	OpPut         = OpKind(base.KindPut)         // sets Key to Value
	OpDeleteRange = OpKind(base.KindRangeDelete) // removes the keys from Key to Value, exclusive; nil: there is no bound
)

// String returns "put", "delete" or "delete range".
func (k OpKind) String() string {
	switch k {
	case OpDelete:
		return "delete"
	case OpDeleteRange:
		return "delete range"
	}
	return "put"
}

// An Op is one change of a Batch. Its slices are part of the batch: valid until the batch is changed, and not to be
// modified. [Op.Apply] makes the change in another place.
type Op struct {
	Kind       OpKind
	Key, Value []byte
	ExpiresAt  time.Time // from then on the value of a put is gone; zero: never
}

// Apply makes the change by way of w.
func (op Op) Apply(w Writer) error {
	switch op.Kind {
	case OpDelete:
		return w.Delete(op.Key)
	case OpDeleteRange:
		return w.DeleteRange(op.Key, op.Value)
	}
	if op.ExpiresAt.IsZero() {
		return w.Put(op.Key, op.Value)
	}
	switch u := w.(type) {
	case untilWriter:
		return u.putUntil(op.Key, op.Value, base.ClampExpiry(op.ExpiresAt.UnixMilli()))
	case interface {
		PutUntil(key, value []byte, until time.Time) error
	}: // cluster.Txn
		return u.PutUntil(op.Key, op.Value, op.ExpiresAt)
	}
	return w.PutTTL(op.Key, op.Value, time.Until(op.ExpiresAt))
}

// An untilWriter takes the time at which a value expires.
type untilWriter interface {
	putUntil(key, value []byte, ms int64) error
}

// A Batch collects changes that [DB.Write] applies together: all or none of them survive a crash, and no reader sees some
// without the others. Of two changes of one key the later counts. The zero value is an empty batch. A Batch is for one
// goroutine at a time; it may be written again, or Reset and reused.
type Batch struct {
	// The bytes are what the log stores (docs/FORMAT.md section 2): sequence number, count, then the operations.
	//
	// The header is written last, when the sequence number is known, into the room in front of
	// the operations. So the log gets one slice, and nothing is copied.
	data       []byte   // room for the header, which setSeq writes, and operations; nil while empty
	ops        int      // where the operations begin, right behind the header
	seq        base.Seq // of the first operation, once the header is there
	count      uint32
	payload    int // bytes of keys and values
	durability Durability
	ownChoice  bool // durability was set by SetDurability
	decoded    bool // made by DecodeBatch: data is another's, and has no room for another header
	expiring   bool // it has values that expire
}

// batchHeader is the most that a batch's header takes.
const batchHeader = binary.MaxVarintLen64 + binary.MaxVarintLen32

// Put adds the change that sets key to value. Both are copied.
func (b *Batch) Put(key, value []byte) error {
	if len(value) > MaxValueSize {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrValueTooLarge, len(value), MaxValueSize)
	}
	return b.add(base.KindPut, key, value)
}

// Delete adds the change that removes key, which is copied.
func (b *Batch) Delete(key []byte) error { return b.add(base.KindDelete, key, nil) }

// DeleteRange adds the change that removes the keys from lower to upper, which is exclusive; nil: there is no bound. Both
// are copied. Later changes of the batch stay. If no key can lie between the bounds, nothing is added.
func (b *Batch) DeleteRange(lower, upper []byte) error {
	switch {
	case len(upper) > MaxKeySize:
		return fmt.Errorf("%w: an upper bound of %d bytes, limit %d", ErrKeyTooLarge, len(upper), MaxKeySize)
	case upper != nil && bytes.Compare(lower, upper) >= 0:
		if b.decoded || len(lower) > MaxKeySize {
			return b.add(base.KindRangeDelete, lower, nil) // the error
		}
		return nil
	}
	return b.add(base.KindRangeDelete, lower, upper)
}

// Add adds op, an operation of a Batch or a Change, as it is. A time to expire before 1970 counts as
// 1970, one after the year 10889 as that year.
func (b *Batch) Add(op Op) error {
	switch op.Kind {
	case OpPut, OpDelete, OpDeleteRange:
		return op.Apply(b)
	}
	return fmt.Errorf("shale: batch: no operation is of kind %d", op.Kind)
}

// add appends an operation. After an error the batch is as it was.
func (b *Batch) add(kind base.Kind, key, value []byte) error {
	if err := b.grow(key, len(value)); err != nil {
		return err
	}
	b.data = appendOp(b.data, kind, key, value)
	b.added(len(key) + len(value))
	return nil
}

// added counts an operation with so many bytes of key and value.
func (b *Batch) added(payload int) {
	b.payload += payload
	b.count++
}

// grow checks that an operation with key and a value of n bytes may be added, and makes room for
// it if it is the first.
func (b *Batch) grow(key []byte, n int) error {
	if b.decoded {
		return fmt.Errorf("%w: it came from DecodeBatch", ErrBatchNotWritable)
	}
	if len(key) > MaxKeySize {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrKeyTooLarge, len(key), MaxKeySize)
	}
	if b.Size()+len(key)+n+16 > MaxBatchSize {
		return fmt.Errorf("%w: the batch would have more than %d bytes", ErrValueTooLarge, MaxBatchSize)
	}
	if len(b.data) == 0 {
		// With room for what comes now: a batch of one change is allocated once.
		b.data = slices.Grow(b.data, batchHeader+opHeader+len(key)+n)[:batchHeader]
		b.ops = batchHeader
	}
	return nil
}

// Len returns the number of changes.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the greatest number of bytes that the batch can take in the log.
func (b *Batch) Size() int { return max(len(b.data), batchHeader) }

// Reset empties the batch and keeps its memory. It forgets the durability that SetDurability
// chose.
func (b *Batch) Reset() {
	if b.decoded {
		b.data = nil // another's
	}
	*b = Batch{data: b.data[:0]}
}

// SetDurability makes Write return when a store opened with d would. [SyncEach] in
// a [SyncManual] store makes the batch, and all that was written before it,
// durable. When readers see it is a matter of [Options.Durability]. Write refuses a
// batch whose d is none of the three.
func (b *Batch) SetDurability(d Durability) { b.durability, b.ownChoice = d, true }

// AppendTo appends the batch to dst, in the form that the log stores and [DecodeBatch] reads, and
// returns the longer slice, which belongs to the caller. The sequence number of the first change
// is the one of the last write, or of the bytes that DecodeBatch has read; before that it is 1.
func (b *Batch) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(max(b.seq, 1)))
	dst = binary.AppendUvarint(dst, uint64(b.count))
	if b.count == 0 {
		return dst
	}
	return append(dst, b.data[b.ops:]...)
}

// Ingested returns the least and the greatest key of an ingestion, if the batch is the mark of
// one: [DecodeBatch] returns such batches. Ingest writes tables, and no changes, to the store; so
// the log has only the mark, which takes one sequence number. Len is 1, and Ops gives nothing.
func (b *Batch) Ingested() (least, greatest []byte, ok bool) {
	if b.count != 1 || base.Kind(b.data[b.ops]) != kindIngestMark {
		return nil, nil, false
	}
	op, _, err := decodeOp(b.data[b.ops:])
	return op.key, op.value, err == nil
}

// Ops walks the changes in the order in which they were added.
func (b *Batch) Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for op := range b.stored() {
			if !yield(op.shown()) {
				return
			}
		}
	}
}

// stored is Ops with the kinds and values that the log has.
func (b *Batch) stored() iter.Seq[storedOp] {
	return func(yield func(storedOp) bool) {
		if b.count == 0 {
			return
		}
		for rest := b.data[b.ops:]; len(rest) > 0; {
			var op storedOp
			var err error
			op, rest, err = decodeOp(rest)
			if err != nil || op.kind == kindIngestMark || !yield(op) {
				return // our own bytes decode; a foreign batch was checked before. A mark stands alone
			}
		}
	}
}

// An operation in bytes:
//
//	kind u8 | key length varint | key | (put and mark only) value length varint | value
//	2 u8 | lower length varint | lower | 0 u8, or 1 u8 | upper length varint | upper
//
// The second is a range delete, which has no upper bound if there is a 0.
//
// A mark says that an ingestion has taken the sequence number. It is the only operation of its
// batch, and its key and value are the least and the greatest key of the ingestion.

// kindIngestMark is the kind of a mark. Part of the format; it never changes. No table has it.
const kindIngestMark base.Kind = 6

// opHeader is the most bytes that an operation takes besides key and value.
const opHeader = 2 + 2*binary.MaxVarintLen32

func appendOp(dst []byte, kind base.Kind, key, value []byte) []byte {
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	if kind == base.KindRangeDelete {
		if value == nil {
			return append(dst, 0)
		}
		dst = append(dst, 1)
	}
	if kind != base.KindDelete {
		dst = binary.AppendUvarint(dst, uint64(len(value)))
		dst = append(dst, value...)
	}
	return dst
}

// A storedOp is an operation as the log has it.
type storedOp struct {
	kind       base.Kind
	key, value []byte
}

// shown returns the operation as programs see it.
func (op storedOp) shown() Op {
	o := Op{Kind: OpKind(op.kind), Key: op.key, Value: op.value}
	if op.kind == base.KindExpiring {
		o.Kind = OpPut
		o.Value, o.ExpiresAt = expiringValue(op.value)
	}
	return o
}

// decodeOp reads the operation that src begins with, and returns it and the bytes behind it. The
// slices of op alias src. An unknown kind is what a newer program has written, and not damage.
// Requires: src is not empty.
func decodeOp(src []byte) (op storedOp, rest []byte, err error) {
	kind, limit := base.Kind(src[0]), uint64(MaxValueSize)
	switch kind {
	case base.KindPut, base.KindDelete, base.KindExpiring:
	case kindIngestMark, base.KindRangeDelete:
		limit = MaxKeySize
	default:
		return storedOp{}, nil, fmt.Errorf("%w (operation of kind %d)", base.ErrFormatTooNew, uint8(kind))
	}
	op.kind = kind
	if op.key, rest, err = decodeBytes(src[1:], MaxKeySize); err != nil {
		return storedOp{}, nil, fmt.Errorf("key: %w", err)
	}
	if kind == base.KindRangeDelete {
		if len(rest) == 0 || rest[0] > 1 {
			return storedOp{}, nil, errors.New("range delete without a flag for its upper bound")
		}
		bounded := rest[0] == 1
		if rest = rest[1:]; !bounded {
			return op, rest, nil
		}
	}
	if kind != base.KindDelete {
		if op.value, rest, err = decodeBytes(rest, limit); err != nil {
			return storedOp{}, nil, fmt.Errorf("value: %w", err)
		}
	}
	if kind == base.KindExpiring && len(op.value) < base.ExpirySize {
		return storedOp{}, nil, errNoExpiry
	}
	return op, rest, nil
}

// expiringValue takes apart what an entry of base.KindExpiring has as its value.
func expiringValue(stored []byte) ([]byte, time.Time) {
	ms, value := base.CutExpiry(stored)
	return value, time.UnixMilli(ms)
}

var errNoExpiry = errors.New("value: it has no time to expire")

// decodeBytes reads a varint length, at most limit, and that many bytes.
func decodeBytes(src []byte, limit uint64) (b, rest []byte, err error) {
	n, w := binary.Uvarint(src)
	if w <= 0 || n > limit || n > uint64(len(src)-w) {
		return nil, nil, fmt.Errorf("length runs past the end (%d bytes left)", len(src))
	}
	src = src[w:]
	return src[:n:n], src[n:], nil
}

// A batch's header in bytes:
//
//	sequence number of the first operation varint | number of operations varint

// setSeq writes the header right in front of the operations, and returns the batch as the log
// stores it. The header has as few bytes as its numbers need, so the result may begin after the
// start of data. It may be called again, with another number, when the batch is written again.
// Requires: the batch is not empty, and not from DecodeBatch.
func (b *Batch) setSeq(seq base.Seq) []byte {
	var header [batchHeader]byte
	n := binary.PutUvarint(header[:], uint64(seq))
	n += binary.PutUvarint(header[n:], uint64(b.count))
	b.seq = seq
	start := b.ops - copy(b.data[b.ops-n:b.ops], header[:n])
	return b.data[start:]
}

// DecodeBatch returns the batch that a record of the log holds, and the sequence number of its first change; each other
// change has the number after that of the one before. The batch aliases data and is for reading: Put, Delete and
// [DB.Write] refuse it. DecodeBatch is for tools that read logs.
func DecodeBatch(data []byte) (firstSeq uint64, b *Batch, err error) {
	seq, b, err := decodeBatch(data)
	return uint64(seq), b, err
}

// decodeBatch returns the first sequence number of the batch in data, and the batch, which
// aliases data. It checks all bytes, so that walking the batch later cannot fail: the header, that
// no number is beyond base.MaxSeq, each operation, and their count.
func decodeBatch(data []byte) (base.Seq, *Batch, error) {
	seq, n := binary.Uvarint(data)
	count, m := binary.Uvarint(data[max(n, 0):])
	if n <= 0 || m <= 0 {
		return 0, nil, fmt.Errorf("batch of %d bytes has no whole header", len(data))
	}
	if seq == 0 || seq > uint64(base.MaxSeq) || count > math.MaxUint32 || count > uint64(base.MaxSeq)-seq {
		return 0, nil, fmt.Errorf("batch of %d operations begins at sequence number %d", count, seq)
	}
	b := &Batch{data: data, ops: n + m, seq: base.Seq(seq), count: uint32(count), decoded: true}
	found := uint64(0)
	for rest := data[b.ops:]; len(rest) > 0; found++ {
		var op storedOp
		var err error
		if op, rest, err = decodeOp(rest); err != nil {
			return 0, nil, fmt.Errorf("operation %d: %w", found, err)
		}
		if op.kind == kindIngestMark && count != 1 {
			return 0, nil, fmt.Errorf("operation %d marks an ingestion, in a batch of %d", found, count)
		}
		b.expiring = b.expiring || op.kind == base.KindExpiring
	}
	if found != count {
		return 0, nil, fmt.Errorf("batch says %d operations and holds %d", count, found)
	}
	return b.seq, b, nil
}

// A committed is a Batch as the commit queue sees it: a commit.Batch, whose methods Batch does
// not export. The leader of the queue calls them, while the writer whose batch it is waits.
type committed Batch

func (c *committed) Size() int    { return (*Batch)(c).Size() }
func (c *committed) Count() int   { return int(c.count) }
func (c *committed) Payload() int { return c.payload }

// SetSeq numbers the operations from first up, and returns the bytes that the log stores.
func (c *committed) SetSeq(first base.Seq) []byte { return (*Batch)(c).setSeq(first) }

// Visit shows the operations to v.
func (c *committed) Visit(v commit.Visitor) {
	for op := range (*Batch)(c).stored() {
		if op.kind == base.KindRangeDelete {
			v.Range(op.key, op.value)
		} else {
			v.Key(op.key)
		}
	}
}

// Apply adds the operations to mem, with the sequence numbers that they have. Requires: SetSeq
// was called, or decodeBatch has made the batch, so the bytes are whole; mem.BeginWrite.
func (c *committed) Apply(mem *memtable.Memtable) {
	seq := c.seq
	for op := range (*Batch)(c).stored() {
		if op.kind == base.KindRangeDelete {
			mem.DeleteRange(seq, op.key, op.value)
		} else {
			mem.Add(seq, op.kind, op.key, op.value)
		}
		seq++
	}
}
