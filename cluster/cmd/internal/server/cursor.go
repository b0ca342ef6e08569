package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/shaledb/shale"
)

// A cursor of SCAN is a place between two names, as a number that any server can read, now and after a restart:
//
//	number of the beginning * tailSpan + tail
//
// The tail are the last bytes of the place, one to five, as digits to the base of 257: 0 is none, and 1 to 256 are the bytes.
// What comes before them is a beginning that many places share. The empty one has number 0. Another is kept in the store,
// under its number, since 64 bits have no room for it: a record for each beginning, which is over after a day without use.
//
// So the server keeps nothing in memory. Places are as short as they can be: one byte longer than what both names have in
// common. With that a SCAN over a million keys such as user:0000123456 makes 100 records, and over a million random ones none.
const (
	tailMost = 5
	tailSpan = 257 * 257 * 257 * 257 * 257

	// Numbers of beginnings. Cursors are below 2^53 as long as a small one is free, since some clients have them in
	// floating-point numbers, and all are below 2^64.
	smallNumbers = 8000
	allNumbers   = 16_000_000
	numberTries  = 8

	cursorSpace = 'c' // c number: a beginning
	cursorTime  = 24 * time.Hour
)

const (
	errCursor    = refusal("ERR invalid cursor")
	errOldCursor = refusal("ERR invalid cursor: it is too old; begin again with 0")
	errCursors   = refusal("ERR too many calls of SCAN are under way over keys that begin differently: try again later, or with another COUNT")
)

// between returns the shortest place behind a name and not behind the next one.
func between(name, next []byte) []byte {
	n := 0
	for n < len(name) && name[n] == next[n] {
		n++
	}
	return next[:n+1]
}

// cursor returns the cursor of a place, which has at least one byte.
func (c *client) cursor(r shale.Reader, place []byte) (uint64, error) {
	at := (len(place) - 1) / (tailMost - 1) * (tailMost - 1) // a multiple, so that places near each other share it
	if len(place) <= tailMost {
		at = 0
	}
	number, err := c.numberOf(r, place[:at])
	tail := uint64(0)
	for i := range tailMost {
		if tail *= 257; at+i < len(place) {
			tail += uint64(place[at+i]) + 1
		}
	}
	return number*tailSpan + tail, err
}

// place returns the place of a cursor: nil for 0.
func (c *client) place(r shale.Reader, text []byte) ([]byte, error) {
	cursor, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return nil, errCursor
	}
	if cursor == 0 {
		return nil, nil
	}
	var tail []byte
	for rest, span := cursor%tailSpan, uint64(tailSpan/257); span > 0; rest, span = rest%span, span/257 {
		switch digit := rest / span; {
		case digit > 0:
			tail = append(tail, byte(digit-1))
		case len(tail) == 0 || rest > 0:
			return nil, errCursor
		}
	}
	number := cursor / tailSpan
	if number == 0 {
		return tail, nil
	}
	beginning, err := r.Get(numberKey(number))
	if errors.Is(err, shale.ErrNotFound) {
		return nil, errOldCursor
	}
	return append(beginning, tail...), err
}

func numberKey(number uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{cursorSpace}, uint32(number))
}

// numberOf returns the number of a beginning, which it writes down if it has none. It is one of some that its hash gives.
func (c *client) numberOf(r shale.Reader, beginning []byte) (uint64, error) {
	if len(beginning) == 0 {
		return 0, nil
	}
	hash := fnv.New64a()
	_, _ = hash.Write(beginning) // never fails
	for try := range numberTries {
		_, _ = hash.Write([]byte{byte(try)})
		number := 1 + hash.Sum64()%smallNumbers
		if try >= numberTries/2 {
			number = 1 + hash.Sum64()%allNumbers
		}
		key := numberKey(number)
		has, err := r.Get(key)
		switch {
		case errors.Is(err, shale.ErrNotFound):
			inserted := false
			err := c.s.write(func(ctx context.Context) (err error) {
				inserted, err = c.s.config.Store.PutIfAbsentTTL(ctx, key, beginning, cursorTime)
				return err
			})
			if err != nil || inserted {
				return number, err
			}
		case err != nil:
			return 0, err
		case bytes.Equal(has, beginning):
			return number, c.keepNumber(r, key, beginning)
		}
	}
	return 0, errCursors
}

// keepNumber writes the record of a beginning again if half of its time is over.
func (c *client) keepNumber(r shale.Reader, key, beginning []byte) error {
	until, err := r.ExpiresAt(key)
	if err != nil || time.Until(until) > cursorTime/2 {
		return err
	}
	b := new(shale.Batch)
	if err := b.PutTTL(key, beginning, cursorTime); err != nil {
		return err
	}
	return c.s.write(func(ctx context.Context) error { return c.s.config.Store.Write(ctx, b) })
}
