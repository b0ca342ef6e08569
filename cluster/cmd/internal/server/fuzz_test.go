package server

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
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
		"INCR a\x00APPEND a b\x00GETEX a EX 1\x00EXPIRE a 5 NX\x00GETRANGE a 0 -1\x00BF.MADD f a b\x00BF.SCANDUMP f 0\x00BF.INFO f\x00PERSIST a\x00FLUSHDB",
		"SETBIT a 99999 1\x00SETRANGE a 4090 xyz\x00GETBIT a 99999\x00BITCOUNT a 0 -1 BIT\x00BITPOS a 0 1\x00APPEND a x\x00MGET a a\x00GET a\x00GETDEL a",
		"WATCH a\x00MULTI\x00INCR a\x00WHAT\x00EXEC\x00MULTI\x00SET a x\x00GET a\x00BF.ADD a x\x00SCAN 0\x00EXEC\x00MULTI\x00DISCARD",
		"EXISTS a a\x00TYPE a\x00DBSIZE\x00STRLEN a\x00TTL a\x00SETEX a 1 b\x00SET a b PX 1 NX\x00PTTL a\x00SELECT 0\x00QUIT",
	} {
		f.Add([]byte(seed))
	}
	var names []string
	for _, t := range commands {
		f.Add([]byte(t.Name + " a 1 b"))
		names = append(names, t.Name)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s, _ := setup(t)
		c := s.newClient()
		var p []resp.Command
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
		rest := c.Out
		for i := range replies {
			n, err := resptest.Reply(rest)
			if err != nil {
				t.Fatalf("reply %d of %d: %v: %.200q", i, replies, err, c.Out)
			}
			rest = rest[n:]
		}
		if len(rest) > 0 {
			t.Fatalf("%d commands have more replies: %.200q", replies, rest)
		}
	})
}
