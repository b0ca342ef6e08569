package cluster

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale"
)

// A command is the data of an entry in raft's log: what the state machines of all members do with
// their stores, each on its own.
//
//	kind u8 | batch, as Batch.AppendTo writes it
//
// For example, the put of value "v" under key "k", in hexadecimal:
//
//	01              kindWrite
//	01 01           sequence number 1, which means nothing here, and one operation
//	01 01 6b 01 76  put, key, value
//
// A command is decided by the state that it meets, which is the same on all members, and by nothing
// else: no clock, no random number, no option.

// The kinds of commands. Part of the log's format; they never change.
const (
	kindWrite       = 1 // all operations of the batch
	kindPutIfAbsent = 2 // the batch is one put, of a key that must not be there
	kindDelete      = 3 // the batch is deletions, and the answer says which of the keys were there
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

// encodeWrite returns the command that applies b. It refuses keys that belong to the group, and a
// batch that is empty, too large or the mark of an ingestion.
func encodeWrite(b *shale.Batch) ([]byte, error) {
	if b == nil || b.Len() == 0 {
		return nil, fmt.Errorf("cluster: write: %w: it is empty", shale.ErrBatchNotWritable)
	}
	return encodeCommand(kindWrite, b)
}

// encodePutIfAbsent returns the command that puts the key if it is not there.
func encodePutIfAbsent(key, value []byte) ([]byte, error) {
	b := new(shale.Batch)
	if err := b.Put(key, value); err != nil {
		return nil, fmt.Errorf("cluster: put: %w", err)
	}
	return encodeCommand(kindPutIfAbsent, b)
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
	return encodeCommand(kindDelete, b)
}

// encodeCommand checks the operations of a batch and returns the bytes of the command. Both sides
// check, since an entry that is in the log must be applied by all members: what a member refuses to
// encode never gets there, and what one can't decode ends it.
func encodeCommand(kind byte, b *shale.Batch) ([]byte, error) {
	if b.Size() > maxCommandSize {
		return nil, fmt.Errorf("cluster: write: %w: the batch has %d bytes, and %d is the limit in a group",
			shale.ErrValueTooLarge, b.Size(), maxCommandSize)
	}
	ops := 0
	for op := range b.Ops() {
		if reserved(op.Key) {
			return nil, fmt.Errorf("%w: %x", ErrReservedKey, op.Key[:len(reservedKey)])
		}
		ops++
	}
	// A batch counts the mark of an ingestion as an operation, but Ops does not list it. The tables
	// of an ingestion are on this member's disk alone, so no other member could apply it.
	if ops != b.Len() {
		return nil, fmt.Errorf("cluster: write: %w: it is the mark of an ingestion", shale.ErrBatchNotWritable)
	}
	return b.AppendTo(append(make([]byte, 0, 1+b.Size()), kind)), nil
}

// decodeCommand returns the parts of a command. The batch aliases data. A kind that is unknown
// comes from a newer program.
func decodeCommand(data []byte) (kind byte, b *shale.Batch, err error) {
	if len(data) == 0 {
		return 0, nil, fmt.Errorf("command of no bytes")
	}
	kind = data[0]
	if kind < kindWrite || kind > kindDelete {
		return 0, nil, fmt.Errorf("%w: command of kind %d; update this member's program", shale.ErrFormatTooNew, kind)
	}
	if _, b, err = shale.DecodeBatch(data[1:]); err != nil {
		return 0, nil, err
	}
	// The batch comes from another member's program, so all that encodeCommand promises is checked
	// again.
	ops, puts := 0, 0
	for op := range b.Ops() {
		if reserved(op.Key) {
			return 0, nil, fmt.Errorf("command with a reserved key")
		}
		ops++
		if op.Kind == shale.OpPut {
			puts++
		}
	}
	if ops != b.Len() || kind == kindPutIfAbsent && (ops != 1 || puts != 1) || kind == kindDelete && puts > 0 {
		return 0, nil, fmt.Errorf("command of kind %d with %d operations, %d of them puts", kind, ops, puts)
	}
	return kind, b, nil
}

// A result is what the state machine answers to a command: the response of raft's future.
type result struct {
	Inserted bool   `json:"inserted"`          // of kindPutIfAbsent: the key was not there
	Present  []bool `json:"present,omitempty"` // of kindDelete: for each operation, whether the key was there before it
}
