package main

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// Limits of SCAN.
const (
	defaultCount = 10
	mostCount    = 10_000    // names that one call looks at; COUNT is a hint
	mostCursors  = 10_000    // cursors that are remembered
	cursorBytes  = 16 << 20  // bytes of their names
	firstCursor  = 1_000_001 // no client should take a cursor for a number of something
)

// cursors are the places where calls of SCAN have stopped. A cursor of Redis is a number,
// but the place is a name. So the server remembers the newest ones, until it ends.
type cursors struct {
	mu     sync.Mutex
	names  map[uint64][]byte
	oldest uint64
	next   uint64
	bytes  int
}

// put remembers a name and returns its number.
func (c *cursors) put(name []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names, c.oldest, c.next = make(map[uint64][]byte), firstCursor, firstCursor
	}
	n := c.next
	c.next++
	c.names[n] = bytes.Clone(name)
	c.bytes += len(name)
	for len(c.names) > mostCursors || c.bytes > cursorBytes && len(c.names) > 1 {
		c.bytes -= len(c.names[c.oldest])
		delete(c.names, c.oldest)
		c.oldest++
	}
	return n
}

func (c *cursors) get(n uint64) (name []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok = c.names[n]
	return name, ok
}

// scan is SCAN with MATCH and COUNT. Names come in their order, each once. Of those that
// begin with the fixed beginning of the pattern, it skips none; others it does not look at.
func (c *client) scan(args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[0]), 10, 64)
	if err != nil {
		c.error("ERR invalid cursor")
		return
	}
	count, pattern, ok := c.scanOptions(args[1:])
	if !ok {
		return
	}
	within := shale.Prefix(appendNameKey(nil, resp.LiteralPrefix(pattern)))
	if cursor != 0 {
		last, ok := c.s.cursors.get(cursor)
		if !ok {
			c.error("ERR invalid cursor: the server remembers the newest ones, and none from before its start")
			return
		}
		if after := append(appendNameKey(nil, last), 0); bytes.Compare(after, within.Lower) > 0 {
			within.Lower = after
		}
	}
	c.scanRange(within, count, pattern)
}

// scanOptions reads MATCH and COUNT. If it returns false, it has replied.
func (c *client) scanOptions(args [][]byte) (count int64, pattern []byte, ok bool) {
	count = defaultCount
	for ; len(args) > 0; args = args[2:] {
		switch {
		case len(args) < 2:
			c.syntaxError()
			return 0, nil, false
		case is(args[0], "MATCH"):
			pattern = args[1]
			if len(pattern) == 0 { // which only the empty name matches
				pattern = []byte("\\")
			}
		case is(args[0], "COUNT"):
			n, isInt := parseInt(args[1])
			if !isInt {
				c.error("ERR value is not an integer or out of range")
				return 0, nil, false
			}
			if n < 1 {
				c.syntaxError()
				return 0, nil, false
			}
			count = min(n, mostCount)
		default:
			c.syntaxError()
			return 0, nil, false
		}
	}
	return count, pattern, true
}

func (c *client) scanRange(within shale.Range, count int64, pattern []byte) {
	within.KeysOnly = true
	var found [][]byte
	var last []byte
	cursor := uint64(0)
	for e, err := range c.s.db.Scan(within) {
		if err != nil {
			c.fail(err)
			return
		}
		if count == 0 { // there is a further name
			cursor = c.s.cursors.put(last)
			break
		}
		count--
		last = append(last[:0], e.Key[1:]...)
		if pattern == nil || resp.Matches(pattern, last) {
			found = append(found, bytes.Clone(last))
		}
	}
	c.array(2)
	c.bulkString(strconv.FormatUint(cursor, 10))
	c.array(len(found))
	for _, name := range found {
		c.bulk(name)
	}
}
