package resp

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// Limits of SCAN.
const (
	defaultCount = 10
	mostCount    = 10_000   // keys that one call looks at; COUNT is a hint
	mostCursors  = 10_000   // cursors that are remembered
	cursorBytes  = 16 << 20 // bytes of their keys
)

// Scans are the calls of SCAN that a server gets, and the places where they have stopped. A cursor of Redis
// is a number, but the place is a key of any length. So the server remembers the newest ones, until it ends.
type Scans struct {
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
func (s *Scans) put(key []byte) uint64 {
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

func (s *Scans) get(n uint64) (key []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.keys[n]
	return key, ok
}

// A Scan is one call of SCAN. The server walks over its keys in their order, from From on, and passes each
// to Add, until that returns false or there is none any more. Then it calls Reply. It may leave out keys that
// do not begin with Prefix.
type Scan struct {
	Type   string // the type of keys that the client wants; "": of any
	From   []byte // the least key that is to be looked at; nil: the first one
	Prefix []byte // all keys that the client wants begin with it

	scans   *Scans
	pattern []byte // nil: all keys
	left    int    // keys that are still to be looked at
	bytes   int    // of the keys so far
	last    []byte
	found   [][]byte
	cursor  uint64 // of the next call; 0: there is none
}

// Begin reads the arguments of SCAN. If it returns nil, it has replied.
func (s *Scans) Begin(session *Session, args [][]byte) *Scan {
	cursor, err := strconv.ParseUint(string(args[0]), 10, 64)
	if err != nil {
		session.Error("ERR invalid cursor")
		return nil
	}
	scan := &Scan{scans: s, left: defaultCount}
	if !scan.options(session, args[1:]) {
		return nil
	}
	scan.Prefix = LiteralPrefix(scan.pattern)
	if cursor != 0 {
		last, ok := s.get(cursor)
		if !ok {
			session.Error("ERR invalid cursor: " + s.Forgotten)
			return nil
		}
		scan.From = append(bytes.Clone(last), 0)
	}
	return scan
}

// options reads MATCH, COUNT and TYPE. If it returns false, it has replied.
func (s *Scan) options(session *Session, args [][]byte) bool {
	for ; len(args) > 0; args = args[2:] {
		switch {
		case len(args) < 2:
			session.SyntaxError()
			return false
		case Is(args[0], "MATCH"):
			s.pattern = args[1]
			if len(s.pattern) == 0 { // which only the empty key matches
				s.pattern = []byte("\\")
			}
		case Is(args[0], "TYPE"):
			s.Type = string(args[1])
		case Is(args[0], "COUNT"):
			n, isInt := ParseInt(args[1])
			if !isInt {
				session.Error("ERR value is not an integer or out of range")
				return false
			}
			if n < 1 {
				session.SyntaxError()
				return false
			}
			s.left = int(min(n, mostCount))
		default:
			session.SyntaxError()
			return false
		}
	}
	return true
}

// Add looks at a key, which it copies, and its type, which may be "" if Type is. It returns false if the key is for the next call.
func (s *Scan) Add(key []byte, typeName string) bool {
	if s.left == 0 || s.scans.MostBytes > 0 && s.bytes > s.scans.MostBytes {
		s.cursor = s.scans.put(s.last)
		return false
	}
	s.left--
	s.bytes += len(key)
	s.last = append(s.last[:0], key...)
	if (s.Type == "" || strings.EqualFold(s.Type, typeName)) && (s.pattern == nil || Matches(s.pattern, key)) {
		s.found = append(s.found, bytes.Clone(key))
	}
	return true
}

// Reply replies with the cursor of the next call, and with the keys that were found.
func (s *Scan) Reply(session *Session) {
	session.Array(2)
	session.BulkString(strconv.FormatUint(s.cursor, 10))
	session.Array(len(s.found))
	for _, key := range s.found {
		session.Bulk(key)
	}
}
