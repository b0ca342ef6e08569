package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// scanBytes is how many bytes of keys one call of SCAN looks at.
const scanBytes = 1 << 20

// newScans returns what this member remembers of calls of SCAN. The leader of the group has nothing to do with them:
// SCAN goes on through elections, on any member, as long as the client stays with the member that it has begun with.
//
// Cursors have the form run<<32 | n, where run is drawn at random when the server starts. So a cursor of
// another member, or of an earlier life of this one, is not taken for one of these. They are below
// 2^53, because some clients have them in floating-point numbers.
func newScans() *scans {
	return &scans{
		First:     uint64(1+rand.Uint32N(1<<21-1))<<32 + 1,
		MostBytes: scanBytes,
		Forgotten: "each member remembers the newest ones that it has given since its start; begin again with 0",
	}
}

// scan is SCAN with MATCH, COUNT and TYPE. Keys come in their order, each once. If the pattern begins with
// fixed bytes, it looks only at keys that begin with them.
//
// Each call is a read of the group of its own. So a SCAN sees no one moment, but a key that is
// there from its first call to its last is given once: keys are in order, and the cursor stands for
// the place after the last.
func (c *client) scan(r shale.Reader, args [][]byte) error {
	scan := c.s.scans.Begin(c, args)
	if scan == nil {
		return nil
	}
	within := shale.Prefix(appendName(nil, scan.Prefix))
	within.KeysOnly = scan.Type == ""
	if from := appendName(nil, scan.From); bytes.Compare(from, within.Lower) > 0 {
		within.Lower = from
	}
	for e, err := range r.Scan(within) {
		if err != nil {
			return err
		}
		name := ""
		if scan.Type != "" {
			if name, err = typeName(e.Value); err != nil {
				return err
			}
		}
		if !scan.Add(e.Key[1:], name) {
			break
		}
	}
	scan.Reply(c)
	return nil
}

// dbSize is DBSIZE. The store does not count its keys, so this walks over all of them.
func (c *client) dbSize(r shale.Reader, _ [][]byte) error {
	n := int64(0)
	within := shale.Prefix([]byte{nameSpace})
	within.KeysOnly = true
	for _, err := range r.Scan(within) {
		if n++; err == nil && n%4096 == 0 && c.s.ctx.Err() != nil {
			err = errors.New("the server stops")
		}
		if err != nil {
			return err
		}
	}
	c.Integer(n)
	return nil
}

// Limits of SCAN.
const (
	defaultCount = 10
	mostCount    = 10_000   // keys that one call looks at; COUNT is a hint
	mostCursors  = 10_000   // cursors that are remembered
	cursorBytes  = 16 << 20 // bytes of their keys
)

// scans are the calls of SCAN that a server gets, and the places where they have stopped. A cursor of Redis
// is a number, but the place is a key of any length. So the server remembers the newest ones, until it ends.
type scans struct {
	First     uint64 // the first cursor, above 0; the next ones follow it
	MostBytes int    // a call ends behind the key with which its keys have more bytes; 0: there is no limit
	Forgotten string // what the error for a cursor that is not remembered says behind "invalid cursor: "

	// Protected by mu.
	mu     sync.Mutex
	keys   map[uint64][]byte
	oldest uint64
	next   uint64
	bytes  int
}

// put remembers a key and returns its number.
func (s *scans) put(key []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys, s.oldest, s.next = make(map[uint64][]byte), s.First, s.First
	}
	n := s.next
	s.next++
	s.keys[n] = bytes.Clone(key)
	s.bytes += len(key)
	for len(s.keys) > mostCursors || s.bytes > cursorBytes && len(s.keys) > 1 {
		s.bytes -= len(s.keys[s.oldest])
		delete(s.keys, s.oldest)
		s.oldest++
	}
	return n
}

func (s *scans) get(n uint64) (key []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.keys[n]
	return key, ok
}

// A Scan is one call of SCAN. The server walks over its keys in their order, from From on, and passes each
// to Add, until that returns false or there is none any more. Then it calls Reply. It may leave out keys that
// do not begin with Prefix.
type scan struct {
	Type   string // the type of keys that the client wants; "": of any
	From   []byte // the least key that is to be looked at; nil: the first one
	Prefix []byte // all keys that the client wants begin with it

	scans   *scans
	pattern []byte // nil: all keys
	left    int    // keys that are still to be looked at
	bytes   int    // of the keys so far
	last    []byte
	found   [][]byte
	cursor  uint64 // of the next call; 0: there is none
}

// Begin reads the arguments of SCAN. If it returns nil, it has replied.
func (s *scans) Begin(c *client, args [][]byte) *scan {
	cursor, err := strconv.ParseUint(string(args[0]), 10, 64)
	if err != nil {
		c.Error("ERR invalid cursor")
		return nil
	}
	scan := &scan{scans: s, left: defaultCount}
	if !scan.options(c, args[1:]) {
		return nil
	}
	scan.Prefix = resp.LiteralPrefix(scan.pattern)
	if cursor != 0 {
		last, ok := s.get(cursor)
		if !ok {
			c.Error("ERR invalid cursor: " + s.Forgotten)
			return nil
		}
		scan.From = append(bytes.Clone(last), 0)
	}
	return scan
}

// options reads MATCH, COUNT and TYPE. If it returns false, it has replied.
func (s *scan) options(c *client, args [][]byte) bool {
	for ; len(args) > 0; args = args[2:] {
		switch {
		case len(args) < 2:
			c.SyntaxError()
			return false
		case resp.Is(args[0], "MATCH"):
			s.pattern = args[1]
			if len(s.pattern) == 0 { // which only the empty key matches
				s.pattern = []byte("\\")
			}
		case resp.Is(args[0], "TYPE"):
			s.Type = string(args[1])
		case resp.Is(args[0], "COUNT"):
			n, isInt := resp.ParseInt(args[1])
			if !isInt {
				c.Error("ERR value is not an integer or out of range")
				return false
			}
			if n < 1 {
				c.SyntaxError()
				return false
			}
			s.left = int(min(n, mostCount))
		default:
			c.SyntaxError()
			return false
		}
	}
	return true
}

// Add looks at a key, which it copies, and its type, which may be "" if Type is. It returns false if the key is for the next call.
func (s *scan) Add(key []byte, typeName string) bool {
	if s.left == 0 || s.scans.MostBytes > 0 && s.bytes > s.scans.MostBytes {
		s.cursor = s.scans.put(s.last)
		return false
	}
	s.left--
	s.bytes += len(key)
	s.last = append(s.last[:0], key...)
	if (s.Type == "" || strings.EqualFold(s.Type, typeName)) && (s.pattern == nil || resp.Matches(s.pattern, key)) {
		s.found = append(s.found, bytes.Clone(key))
	}
	return true
}

// Reply replies with the cursor of the next call, and with the keys that were found.
func (s *scan) Reply(c *client) {
	c.Array(2)
	c.BulkString(strconv.FormatUint(s.cursor, 10))
	c.Array(len(s.found))
	for _, key := range s.found {
		c.Bulk(key)
	}
}
