package bbolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"go.etcd.io/bbolt/errors"
)

// This file has the bytes that the package comment describes.

// The parts of a bucket, in the order of their keys.
const (
	partBuckets = 0
	partValues  = 1
)

// stateKey is before the keys of all buckets.
var stateKey = []byte{0}

const (
	magic   = "bolt"
	version = 1
)

// A state is what the store has once.
type state struct {
	tx   uint64 // the ID of the last transaction that has written something
	next uint64 // the number of the next bucket
}

// noState is the state of a new store. As with bbolt, the first transaction that writes is number 2.
var noState = state{tx: 1, next: 1}

func (s state) encode() []byte {
	return appendNumbers(append([]byte(magic), version), s.tx, s.next)
}

func decodeState(src []byte) (s state, err error) {
	rest, ok := bytes.CutPrefix(src, []byte(magic))
	if !ok || len(rest) == 0 {
		return s, fmt.Errorf("bolt: the store is none of this package: %w", errors.ErrInvalid)
	}
	if rest[0] != version {
		return s, fmt.Errorf("bolt: the store has version %d, and this program knows version %d: %w", rest[0], version, errors.ErrVersionMismatch)
	}
	if rest, ok = cutNumbers(rest[1:], &s.tx, &s.next); !ok || len(rest) > 0 {
		return s, fmt.Errorf("bolt: bad state %x: %w", src, errors.ErrInvalid)
	}
	return s, nil
}

// A header is what the bucket that has a bucket knows of it.
type header struct {
	number   uint64
	sequence uint64
	parent   bool // it may have buckets in it
}

func (h header) encode() []byte {
	flags := byte(0)
	if h.parent {
		flags = 1
	}
	return append(appendNumbers(nil, h.number, h.sequence), flags)
}

func decodeHeader(src []byte) (h header, err error) {
	rest, ok := cutNumbers(src, &h.number, &h.sequence)
	if !ok || len(rest) != 1 || rest[0] > 1 || h.number == 0 {
		return h, fmt.Errorf("bolt: bad header of a bucket: %x", src)
	}
	h.parent = rest[0] == 1
	return h, nil
}

// appendNumber appends the number of a bucket as keys begin with it.
func appendNumber(dst []byte, n uint64) []byte {
	size := max(1, (bits.Len64(n)+7)/8)
	dst = append(dst, byte(size))
	return append(dst, binary.BigEndian.AppendUint64(nil, n)[8-size:]...)
}

// cutKey takes a key apart.
func cutKey(key []byte) (number uint64, part byte, rest []byte, ok bool) {
	if len(key) == 0 || key[0] < 1 || key[0] > 8 || len(key) < int(key[0])+2 {
		return 0, 0, nil, false
	}
	size := int(key[0])
	for _, b := range key[1 : 1+size] {
		number = number<<8 | uint64(b)
	}
	part, rest = key[1+size], key[2+size:]
	return number, part, rest, part <= partValues && len(rest) > 0 && (size == 1 || key[1] > 0)
}

func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func cutNumbers(src []byte, numbers ...*uint64) (rest []byte, ok bool) {
	for _, n := range numbers {
		size := 0
		if *n, size = binary.Uvarint(src); size <= 0 {
			return src, false
		}
		src = src[size:]
	}
	return src, true
}
