package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// A violation is an answer that is wrong, in contrast to an error that the
// store has returned.
type violation string

func (v violation) Error() string { return string(v) }

func violationf(format string, args ...any) error {
	return violation(fmt.Sprintf(format, args...))
}

// slotDigits is how many hexadecimal digits of a key are its slot.
const slotDigits = 7

// appendKey appends the key of a slot: letter of the writer, slot, and
// something of a length of its own. Keys are in the order of writer and slot.
func appendKey(dst []byte, seed uint64, writer, slot int) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, 'a'+byte(writer))
	for i := slotDigits - 1; i >= 0; i-- {
		dst = append(dst, digits[slot>>(4*i)&15])
	}
	h := mix(seed, uint64(writer), uint64(slot))
	for range h % 16 {
		h = h>>4 | h<<60
		dst = append(dst, byte(h))
	}
	return dst
}

// parseKey returns writer and slot of a key, after checking that appendKey
// would make it.
func parseKey(key []byte, seed uint64) (writer, slot int, err error) {
	var want [64]byte
	if len(key) <= slotDigits || key[0] < 'a' || key[0] >= 'a'+writers {
		return 0, 0, violationf("key %q was never written", key)
	}
	n, err := strconv.ParseUint(string(key[1:1+slotDigits]), 16, 31)
	if err != nil {
		return 0, 0, violationf("key %q was never written", key)
	}
	writer, slot = int(key[0]-'a'), int(n)
	if !bytes.Equal(appendKey(want[:0], seed, writer, slot), key) {
		return 0, 0, violationf("key %q was never written", key)
	}
	return writer, slot, nil
}

// appendValue appends the value that the operation with this stamp gives to the
// slot: the stamp, and bytes of which half are random. Requires: s.visible().
func appendValue(dst []byte, seed uint64, writer, slot int, s stamp) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s))
	h := mix(seed, uint64(writer), uint64(slot), uint64(s))
	size := int((h >> 32) % 180)
	switch n := h % 4096; {
	case n == 0:
		size = 100_000
	case n < 20:
		size = 3000 + size*20
	}
	end := len(dst) + size
	for len(dst) < end {
		h = h*6364136223846793005 + 1442695040888963407
		dst = binary.LittleEndian.AppendUint64(dst, h^h>>29)
		dst = append(dst, "shaledb."...)
	}
	return dst[:end]
}

// readValue returns the stamp of a value, after checking that the operation
// with this stamp gives the slot this value. buf is for use again.
func readValue(value []byte, seed uint64, writer, slot int, buf *[]byte) (stamp, error) {
	if len(value) < 8 {
		return 0, violationf("the value of slot %d of writer %d has %d bytes: %q", slot, writer, len(value), value)
	}
	s := stamp(binary.LittleEndian.Uint64(value))
	*buf = appendValue((*buf)[:0], seed, writer, slot, s)
	if s == 0 || s != s.visible() || !bytes.Equal(*buf, value) {
		return 0, violationf("the value of slot %d of writer %d was never written: %d bytes, %.60q", slot, writer, len(value), value)
	}
	return s, nil
}
