package server

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// Limits of SCAN.
const (
	defaultCount = 10
	mostCount    = 10_000  // keys that one call looks at; COUNT is a hint
	scanBytes    = 1 << 20 // bytes of keys that it looks at
)

// A scan is what a call of SCAN wants, and has found.
type scan struct {
	from    []byte // the least name that is to be looked at
	pattern []byte // nil: all names
	kind    string // "": of any type
	left    int    // names that are still to be looked at
	bytes   int    // of those that were
	last    []byte
	found   [][]byte
}

// scan is SCAN with MATCH, COUNT and TYPE. Keys come in their order, each once. If the pattern begins with
// fixed bytes, it looks only at keys that begin with them.
//
// Each call is a read of its own. So a SCAN sees no one moment, but a key that is there from its first call to its last is
// given once: keys are in order, and the cursor stands for a place between the last one that was looked at and the next.
func (c *client) scan(r shale.Reader, args [][]byte) error {
	s, err := readScan(args[1:])
	if err != nil {
		return err
	}
	if s.from, err = c.place(r, args[0]); err != nil {
		return err
	}
	within := shale.Prefix(appendName(nil, resp.LiteralPrefix(s.pattern)))
	within.KeysOnly = s.kind == ""
	if from := appendName(nil, s.from); bytes.Compare(from, within.Lower) > 0 {
		within.Lower = from
	}
	next := uint64(0)
	for e, err := range r.Scan(within) {
		if err != nil {
			return err
		}
		name := e.Key[1:]
		if s.left == 0 || s.bytes > scanBytes {
			if next, err = c.cursor(r, between(s.last, name)); err != nil {
				return err
			}
			break
		}
		if err := s.look(name, e.Value); err != nil {
			return err
		}
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(next, 10))
	c.Array(len(s.found))
	for _, name := range s.found {
		c.Bulk(name)
	}
	return nil
}

// readScan reads MATCH, COUNT and TYPE.
func readScan(args [][]byte) (*scan, error) {
	s := &scan{left: defaultCount}
	for ; len(args) > 0; args = args[2:] {
		switch {
		case len(args) < 2:
			return nil, errSyntax
		case resp.Is(args[0], "MATCH"):
			s.pattern = args[1]
			if len(s.pattern) == 0 { // which only the empty key matches
				s.pattern = []byte("\\")
			}
		case resp.Is(args[0], "TYPE"):
			s.kind = string(args[1])
		case resp.Is(args[0], "COUNT"):
			n, isInt := resp.ParseInt(args[1])
			if !isInt {
				return nil, errNoInteger
			}
			if n < 1 {
				return nil, errSyntax
			}
			s.left = int(min(n, mostCount))
		default:
			return nil, errSyntax
		}
	}
	return s, nil
}

// look looks at a name, and at the value under it if the type matters.
func (s *scan) look(name, value []byte) error {
	s.left--
	s.bytes += len(name)
	s.last = append(s.last[:0], name...)
	if s.kind != "" {
		if is, err := typeName(value); err != nil || !strings.EqualFold(is, s.kind) {
			return err
		}
	}
	if s.pattern == nil || resp.Matches(s.pattern, name) {
		s.found = append(s.found, bytes.Clone(name))
	}
	return nil
}
