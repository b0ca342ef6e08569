package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shaledb/shale"
)

// A command is the data of an entry in raft's log: what the state machines of all members do with
// their stores, each on its own.
//
//	kind u8 | of kindUpdate: what was observed, see observed.go | batch, as Batch.AppendTo writes it
//
// With a time it is
//
//	kindTimed u8 | time u64 | present u64 | a command of another kind, or nothing: see time.go
//
// If a value keeps the time at which it expires, it is
//
//	kindEnds u8 | time u64 | present u64 | n varint | (gap varint)*n | a command of another kind
//
// Each gap says how many operations of the batch lie between one with such a value and the next.
//
// For example, the put of value "v" under key "k", in hexadecimal:
//
//	01              kindWrite
//	01 01           sequence number 1, which means nothing here, and one operation
//	01 01 6b 01 76  put, key, value
//
// A command is decided by itself and the state that it meets, which is the same on all members, and by nothing
// else: no member's clock, no random number, no option.

// The kinds of commands. Part of the log's format; they never change.
const (
	kindWrite       = 1 // all operations of the batch
	kindPutIfAbsent = 2 // the batch is one put, of a key that must not be there
	kindDelete      = 3 // the batch is deletions, and the answer says which of the keys were there
	kindUpdate      = 4 // the batch of a transaction, for a state that has what the transaction has observed
	kindTimed       = 5 // another command at a time, or nothing but the time: see time.go
	kindEnds        = 6 // another command at a time, with values whose ends are not put off
)

// maxCommandSize is the most bytes that a write may take in the log. Raft sends entries whole, and a
// follower has no more time for one than for a heartbeat, so a few large ones would cost an election.
const maxCommandSize = 64 << 20

// reservedKey is the first of the keys that belong to the group. The state has one of them, this
// one: see state.go. Part of the format of the state; it never changes.
var reservedKey = bytes.Repeat([]byte{0xff}, 32)

// reserved reports whether the key belongs to the group. Keys that are longer and begin with
// reservedKey come after it, and so does no other key.
func reserved(key []byte) bool { return bytes.Compare(key, reservedKey) >= 0 }

// belowReserved returns the upper bound of a range without the keys that belong to the group.
func belowReserved(upper []byte) []byte {
	if upper == nil || reserved(upper) {
		return reservedKey
	}
	return upper
}

// errReserved is the error for a key that reserved reports.
func errReserved(key []byte) error {
	return fmt.Errorf("%w: %x", ErrReservedKey, key[:len(reservedKey)])
}

// encodeWrite returns the command that applies b. It refuses keys that belong to the group, and a
// batch that is empty, too large or the mark of an ingestion.
func encodeWrite(b *shale.Batch) ([]byte, error) {
	if b == nil || b.Len() == 0 {
		return nil, fmt.Errorf("cluster: write: %w: it is empty", shale.ErrBatchNotWritable)
	}
	return encodeCommand(kindWrite, b, time.Now().UnixMilli())
}

// encodePutIfAbsent returns the command that puts the key if it is not there, until a time or, with a zero one, for ever.
func encodePutIfAbsent(key, value []byte, until time.Time) ([]byte, error) {
	b := new(shale.Batch)
	if err := (shale.Op{Kind: shale.OpPut, Key: key, Value: value, ExpiresAt: until}).Apply(b); err != nil {
		return nil, fmt.Errorf("cluster: put: %w", err)
	}
	return encodeCommand(kindPutIfAbsent, b, time.Now().UnixMilli())
}

// encodeDelete returns the command that deletes keys and reports which of them were there.
func encodeDelete(keys [][]byte) ([]byte, error) {
	b := new(shale.Batch)
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return nil, fmt.Errorf("cluster: delete: %w", err)
		}
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("cluster: delete: %w: it has no keys", shale.ErrBatchNotWritable)
	}
	return encodeCommand(kindDelete, b, 0)
}

// encodeUpdate returns the command that applies the writes of a transaction if its reads still hold. now is the time of
// the state that it has read. ends has the keys whose values expire at a time and not after one.
func encodeUpdate(o *observed, writes *shale.Batch, now int64, ends map[string]int64) ([]byte, error) {
	cmd, err := encodeCommand(kindUpdate, writes, now, o.appendTo(nil)...)
	if err != nil || len(ends) == 0 {
		return cmd, err
	}
	var kept []int
	i := 0
	for op := range writes.Ops() {
		// Of several puts of a key the last one counts, and ends is about that one.
		if until, ok := ends[string(op.Key)]; ok && !op.ExpiresAt.IsZero() && until == op.ExpiresAt.UnixMilli() {
			kept = append(kept, i)
		}
		i++
	}
	if kept == nil {
		return cmd, nil // others have taken the place of the values
	}
	list := appendEnds(nil, kept)
	if size := len(cmd) + len(list); size > maxForwarded {
		return nil, tooLarge(size)
	}
	cmd[0] = kindEnds // it was kindTimed, since values expire
	return slices.Insert(cmd, timedSize, list...), nil
}

func tooLarge(size int) error {
	return fmt.Errorf("cluster: write: %w: the command has %d bytes, and %d is the limit in a group", shale.ErrValueTooLarge, size, maxCommandSize)
}

// encodeCommand checks the operations of a batch and returns the bytes of the command. Both sides
// check, since an entry that is in the log must be applied by all members: what a member refuses to
// encode never gets there, and what one can't decode ends it. now is the present on the clock by which values of the batch
// expire. before is what stands before the batch.
func encodeCommand(kind byte, b *shale.Batch, now int64, before ...byte) ([]byte, error) {
	size := len(before) + b.Size()
	if size > maxCommandSize {
		return nil, tooLarge(size)
	}
	ops, expiring := 0, false
	for op := range b.Ops() {
		if reserved(op.Key) {
			return nil, errReserved(op.Key)
		}
		expiring = expiring || !op.ExpiresAt.IsZero()
		ops++
	}
	// A batch counts the mark of an ingestion as an operation, but Ops does not list it. The tables
	// of an ingestion are on this member's disk alone, so no other member could apply it.
	if ops != b.Len() {
		return nil, fmt.Errorf("cluster: write: %w: it is the mark of an ingestion", shale.ErrBatchNotWritable)
	}
	data := make([]byte, 0, timedSize+1+size)
	if expiring {
		data = appendTimed(data, 0, now) // the leader sets its time
	}
	return b.AppendTo(append(append(data, kind), before...)), nil
}

// A command is what decodeCommand returns.
type command struct {
	time     int64    // the leader's; 0: not stated
	present  int64    // what the clock showed by which values of the batch expire
	ends     []int    // the operations of the batch whose values expire when they say, whatever time it is
	kind     byte     // kindTimed: nothing but the time
	observed observed // of kindUpdate
	batch    *shale.Batch
}

// decodeCommand returns the parts of a command, which alias data. A kind that is unknown
// comes from a newer program.
func decodeCommand(data []byte) (c command, err error) {
	if len(data) == 0 {
		return command{}, fmt.Errorf("command of no bytes")
	}
	kind, rest := data[0], data[1:]
	timed := kind == kindTimed || kind == kindEnds
	if timed {
		if c.time, c.present, rest, err = cutTimed(rest); err != nil {
			return command{}, err
		}
		if kind == kindEnds {
			if c.ends, rest, err = cutEnds(rest); err != nil {
				return command{}, err
			}
		} else if len(rest) == 0 {
			c.kind, c.batch = kindTimed, new(shale.Batch)
			return c, nil
		}
		kind, rest = rest[0], rest[1:]
	}
	if kind < kindWrite || kind > kindUpdate {
		return command{}, fmt.Errorf("%w: command of kind %d; update this member's program", shale.ErrFormatTooNew, kind)
	}
	c.kind = kind
	if kind == kindUpdate {
		if c.observed, rest, err = decodeObserved(rest); err != nil {
			return command{}, fmt.Errorf("what a transaction has observed: %w", err)
		}
	}
	_, b, err := shale.DecodeBatch(rest)
	if err != nil {
		return command{}, err
	}
	c.batch = b
	// The batch comes from another member's program, so all that encodeCommand promises is checked
	// again.
	ops, puts, deletes, ends := 0, 0, 0, c.ends
	for op := range b.Ops() {
		if reserved(op.Key) {
			return command{}, fmt.Errorf("command with a reserved key")
		}
		if !op.ExpiresAt.IsZero() && !timed {
			return command{}, errors.New("command with a value that expires, and no time")
		}
		if len(ends) > 0 && ends[0] == ops && !op.ExpiresAt.IsZero() {
			ends = ends[1:]
		}
		ops++
		switch op.Kind {
		case shale.OpPut:
			puts++
		case shale.OpDelete:
			deletes++
		}
	}
	if len(ends) > 0 {
		return command{}, fmt.Errorf("operation %d of the command has no end", ends[0])
	}
	if ops != b.Len() || kind == kindPutIfAbsent && (ops != 1 || puts != 1) || kind == kindDelete && deletes != ops {
		return command{}, fmt.Errorf("command of kind %d with %d operations, %d of them puts", kind, ops, puts)
	}
	return c, nil
}

// A result is what the state machine answers to a command: the response of raft's future.
type result struct {
	Done    bool   `json:"inserted"`          // of kindPutIfAbsent and kindUpdate: the operations were done
	Present []bool `json:"present,omitempty"` // of kindDelete: for each operation, whether the key was there before it
	Lost    int    `json:"lost,omitempty"`    // of kindUpdate that was not done: see observed.lost
}
