package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// The keys of a log's store, by their first byte. Part of the format; they never change.
//
//	L | index u64, big-endian, so that keys sort as indexes do    an entry of the log
//	S | key                                                       a value of the stable store
//	F                                                             the first index, u64 little-endian: entries below it are
//	                                                              gone, whatever the store still has of them
const (
	entryPrefix  = 'L'
	stablePrefix = 'S'
	firstKey     = "F"
)

// entryKeySize is the size of an entry's key.
const entryKeySize = 1 + 8

// appendEntryKey appends the key of the entry at index.
func appendEntryKey(dst []byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, entryPrefix), index)
}

// decodeEntryKey returns the index whose entry has this key.
func decodeEntryKey(key []byte) (uint64, error) {
	if len(key) != entryKeySize || key[0] != entryPrefix {
		return 0, fmt.Errorf("cluster: the log's store has a key that no entry has: %q", key)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// An entry in bytes. Its index is in the key.
//
//	flags u8 | type u8 | term varint | (flag 1) seconds i64 | nanoseconds u32
//	         | (flag 2) extensions length varint | extensions | (flag 4) data: the rest
//
// Seconds and nanoseconds are AppendedAt, counted from the beginning of 1970 in UTC. Without flag 1
// it is the zero time. Without flags 2 and 4 the slices are nil, which an empty one is not.
const (
	flagTime       = 1 << 0
	flagExtensions = 1 << 1
	flagData       = 1 << 2
	knownFlags     = flagTime | flagExtensions | flagData
)

// entryHeader is the most bytes that an entry takes besides extensions and data.
const entryHeader = 2 + binary.MaxVarintLen64 + 8 + 4 + binary.MaxVarintLen32

// MaxEntrySize is how many bytes Data and Extensions of one entry may have together.
const MaxEntrySize = shale.MaxValueSize - entryHeader

// appendEntry appends l, but for its index. Requires: l's Data and Extensions have no more than
// MaxEntrySize bytes together.
func appendEntry(dst []byte, l *raft.Log) []byte {
	var flags byte
	if !l.AppendedAt.IsZero() {
		flags |= flagTime
	}
	if l.Extensions != nil {
		flags |= flagExtensions
	}
	if l.Data != nil {
		flags |= flagData
	}
	dst = append(dst, flags, byte(l.Type))
	dst = binary.AppendUvarint(dst, l.Term)
	if flags&flagTime != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(l.AppendedAt.Unix()))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(l.AppendedAt.Nanosecond()))
	}
	if flags&flagExtensions != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(l.Extensions)))
		dst = append(dst, l.Extensions...)
	}
	return append(dst, l.Data...)
}

// decodeEntry returns the entry that src holds, with the given index, and with absent in place of more than most bytes
// of a command. It copies what it keeps, so src may change afterwards.
func decodeEntry(src []byte, index uint64, most int) (raft.Log, error) {
	if len(src) < 2 {
		return raft.Log{}, errors.New("it is cut off in its head")
	}
	flags := src[0]
	if unknown := flags &^ knownFlags; unknown != 0 {
		return raft.Log{}, fmt.Errorf("%w (flags %#x)", shale.ErrFormatTooNew, unknown)
	}
	l := raft.Log{Index: index, Type: raft.LogType(src[1])}
	var err error
	if l.Term, src, err = decodeNumber(src[2:], math.MaxUint64); err != nil {
		return raft.Log{}, fmt.Errorf("term: %w", err)
	}
	if flags&flagTime != 0 {
		if l.AppendedAt, src, err = decodeTime(src); err != nil {
			return raft.Log{}, fmt.Errorf("time: %w", err)
		}
	}
	if flags&flagExtensions != 0 {
		var n uint64
		if n, src, err = decodeNumber(src, shale.MaxValueSize); err != nil {
			return raft.Log{}, fmt.Errorf("length of the extensions: %w", err)
		}
		if n > uint64(len(src)) {
			return raft.Log{}, fmt.Errorf("extensions of %d bytes run past the end (%d bytes left)", n, len(src))
		}
		l.Extensions, src = append(make([]byte, 0, n), src[:n]...), src[n:]
	}
	switch {
	case flags&flagData != 0 && l.Type == raft.LogCommand && len(src) > most:
		l.Data = absent
	case flags&flagData != 0:
		l.Data = append(make([]byte, 0, len(src)), src...)
	case len(src) > 0:
		return raft.Log{}, fmt.Errorf("%d bytes follow its end", len(src))
	}
	return l, nil
}

// decodeNumber reads a varint that is at most limit, in as few bytes as it can have.
func decodeNumber(src []byte, limit uint64) (n uint64, rest []byte, err error) {
	n, w := binary.Uvarint(src)
	if w <= 0 || n > limit || (w > 1 && src[w-1] == 0) {
		return 0, nil, fmt.Errorf("the number is cut off, or longer than it can be (%d bytes left)", len(src))
	}
	return n, src[w:], nil
}

// decodeTime reads a time that is not the zero time.
func decodeTime(src []byte) (t time.Time, rest []byte, err error) {
	if len(src) < 12 {
		return t, nil, fmt.Errorf("it is cut off (%d bytes left)", len(src))
	}
	seconds, nanoseconds := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint32(src[8:])
	if nanoseconds >= 1e9 {
		return t, nil, fmt.Errorf("it has %d nanoseconds", nanoseconds)
	}
	if t = time.Unix(int64(seconds), int64(nanoseconds)).UTC(); t.IsZero() {
		return t, nil, errors.New("it is the zero time")
	}
	return t, src[12:], nil
}

// appendFirst appends the value of firstKey.
func appendFirst(dst []byte, first uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, first)
}

// decodeFirst returns the first index that a value of firstKey holds.
func decodeFirst(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("cluster: the log's store has a first index of %d bytes, and not 8", len(value))
	}
	return binary.LittleEndian.Uint64(value), nil
}
