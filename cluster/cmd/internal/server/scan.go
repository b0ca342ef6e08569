package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// Limits of SCAN.
const (
	defaultCount = 10
	mostCount    = 10_000   // keys that one call looks at; COUNT is a hint
	scanBytes    = 1 << 20  // bytes of keys, likewise
	mostCursors  = 10_000   // cursors that are remembered
	cursorBytes  = 16 << 20 // bytes of their keys
)

// cursors are the places where calls of SCAN have stopped. A cursor of Redis is a number, but the place is a key of
// any length. So this member remembers the newest ones. They have nothing to do with who leads the group: SCAN goes
// on through elections, on any member, as long as the client stays with the member that it has begun with.
//
// Numbers have the form run<<32 | n, where run is drawn at random when the server starts. So a cursor of
// another member, or of an earlier life of this one, is not taken for one of these. They are below
// 2^53, because some clients have them in floating-point numbers.
type cursors struct {
	mu     sync.Mutex
	keys   map[uint64][]byte
	oldest uint64
	next   uint64
	bytes  int
}

// put remembers a key and returns its number.
func (c *cursors) put(key []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		first := uint64(1+rand.Uint32N(1<<21-1))<<32 + 1
		c.keys, c.oldest, c.next = make(map[uint64][]byte), first, first
	}
	n := c.next
	c.next++
	c.keys[n] = bytes.Clone(key)
	c.bytes += len(key)
	for len(c.keys) > mostCursors || c.bytes > cursorBytes && len(c.keys) > 1 {
		c.bytes -= len(c.keys[c.oldest])
		delete(c.keys, c.oldest)
		c.oldest++
	}
	return n
}

func (c *cursors) get(n uint64) (key []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ok = c.keys[n]
	return key, ok
}

// scan is SCAN with MATCH, COUNT and TYPE. Keys come in their order, each once. If the pattern begins with
// fixed bytes, it looks only at keys that begin with them.
func (c *client) scan(r shale.Reader, args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[0]), 10, 64)
	if err != nil {
		c.error("ERR invalid cursor")
		return
	}
	o, ok := c.scanOptions(args[1:])
	if !ok {
		return
	}
	within := shale.Prefix(resp.LiteralPrefix(o.pattern))
	if cursor != 0 {
		last, ok := c.s.cursors.get(cursor)
		if !ok {
			c.error("ERR invalid cursor: each member remembers the newest ones that it has given since its start; begin again with 0")
			return
		}
		if after := append(bytes.Clone(last), 0); bytes.Compare(after, within.Lower) > 0 {
			within.Lower = after
		}
	}
	c.scanRange(r, within, o)
}

// scanOptions are those of SCAN.
type scanOptions struct {
	count   int
	pattern []byte // nil: all keys
	none    bool   // no key has the TYPE that was asked for
}

// scanOptions reads the options of SCAN. If it returns false, it has replied.
func (c *client) scanOptions(args [][]byte) (o scanOptions, ok bool) {
	o.count = defaultCount
	for ; len(args) > 0; args = args[2:] {
		switch {
		case len(args) < 2:
			c.syntaxError()
			return o, false
		case is(args[0], "MATCH"):
			o.pattern = args[1]
			if len(o.pattern) == 0 { // which only the empty key matches
				o.pattern = []byte("\\")
			}
		case is(args[0], "TYPE"):
			o.none = !is(args[1], "string")
		case is(args[0], "COUNT"):
			n, isInt := parseInt(args[1])
			if !isInt {
				c.error("ERR value is not an integer or out of range")
				return o, false
			}
			if n < 1 {
				c.syntaxError()
				return o, false
			}
			o.count = int(min(n, mostCount))
		default:
			c.syntaxError()
			return o, false
		}
	}
	return o, true
}

func (c *client) scanRange(r shale.Reader, within shale.Range, o scanOptions) {
	within.KeysOnly = true
	var found [][]byte
	var last []byte
	cursor, left, size := uint64(0), o.count, 0
	for e, err := range r.Scan(within) {
		if err != nil {
			c.fail(err)
			return
		}
		if left == 0 || size > scanBytes { // there is a further key
			cursor = c.s.cursors.put(last)
			break
		}
		left--
		size += len(e.Key)
		last = append(last[:0], e.Key...)
		if !o.none && (o.pattern == nil || resp.Matches(o.pattern, last)) {
			found = append(found, bytes.Clone(last))
		}
	}
	c.array(2)
	c.bulkString(strconv.FormatUint(cursor, 10))
	c.array(len(found))
	for _, key := range found {
		c.bulk(key)
	}
}

// dbSize is DBSIZE. The store does not count its keys, so this walks over all of them.
func (c *client) dbSize(r shale.Reader, _ [][]byte) {
	n := int64(0)
	for _, err := range r.Scan(shale.Range{KeysOnly: true}) {
		if n++; err == nil && n%4096 == 0 && c.s.ctx.Err() != nil {
			err = errors.New("the server stops")
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
	c.integer(n)
}
