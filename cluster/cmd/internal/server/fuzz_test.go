package server

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/tidwall/redcon"
)

// Any commands get one well-formed reply each, in the protocol that the client has chosen, and no panic. They run as one
// pipeline: a NUL ends a command, a space an argument.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"SET a b\x00GET a\x00DEL a\x00SETNX a b",
		"SET a b NX\x00SET a b KEEPTTL EX 1\x00MSET a b c\x00MSET a b c d\x00MGET a c x",
		"SCAN 0 MATCH *[a-\\] COUNT 5\x00SCAN 0 MATCH \x00SCAN 1000001 TYPE x",
		"HELLO 3 SETNAME x\x00GET none\x00COMMAND INFO get x\x00COMMAND DOCS\x00HELLO 2\x00GET none",
		"HELLO 3 AUTH default secret\x00AUTH x\x00AUTH default secret\x00CLIENT ID\x00CONFIG GET *\x00INFO all",
		"EXISTS a a\x00TYPE a\x00DBSIZE\x00STRLEN a\x00TTL a\x00SETEX a 1 b\x00SELECT 0\x00QUIT",
	} {
		f.Add([]byte(seed))
	}
	var names []string
	for _, t := range sortedCommands() {
		f.Add([]byte(t.name + " a 1 b"))
		names = append(names, t.name)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s, _ := setup(t)
		c := s.newClient()
		var p []redcon.Command
		for line := range bytes.SplitSeq(input, []byte{0}) {
			args := bytes.Split(line, []byte{' '})
			if len(args[0]) == 1 { // a byte is short for a command
				args[0] = []byte(names[int(args[0][0])%len(names)])
			}
			p = append(p, pipelineOf(args)...)
		}
		replies := len(p)
		for len(p) > 0 {
			p = p[c.run(p):]
		}
		rest := c.out
		for i := range replies {
			n, err := reply(rest)
			if err != nil {
				t.Fatalf("reply %d of %d: %v: %.200q", i, replies, err, c.out)
			}
			rest = rest[n:]
		}
		if len(rest) > 0 {
			t.Fatalf("%d commands have more replies: %.200q", replies, rest)
		}
	})
}

// reply returns how long the first reply of b is. It knows what this server sends of RESP2 and RESP3.
func reply(b []byte) (n int, err error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return 0, fmt.Errorf("no whole line")
	}
	line := string(b[1:end])
	n = end + 2
	if bytes.ContainsAny(b[:end], "\r\n") {
		return 0, fmt.Errorf("a line end within a line")
	}
	size, numberErr := strconv.Atoi(line)
	switch b[0] {
	case '+', '-':
		return n, nil
	case '_':
		if line != "" {
			return 0, fmt.Errorf("a null with a text")
		}
		return n, nil
	}
	if numberErr != nil {
		return 0, numberErr
	}
	switch {
	case b[0] == ':':
		return n, nil
	case size < -1:
		return 0, fmt.Errorf("size %d", size)
	case b[0] == '$' && size >= 0:
		if len(b) < n+size+2 || string(b[n+size:n+size+2]) != "\r\n" {
			return 0, fmt.Errorf("a string of %d bytes does not end there", size)
		}
		return n + size + 2, nil
	case b[0] == '%':
		size *= 2
	case b[0] != '*' && b[0] != '$':
		return 0, fmt.Errorf("a reply begins with %q", b[0])
	}
	for range max(size, 0) {
		k, err := reply(b[n:])
		if err != nil {
			return 0, err
		}
		n += k
	}
	return n, nil
}
