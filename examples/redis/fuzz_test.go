package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/internal/resp/resptest"
)

// Any arguments get one reply that is well-formed, and no panic. Commands of one input run
// one after the other on one server: a NUL ends a command, a space an argument.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"SET a b\x00GET a\x00BF.ADD a x\x00DEL a",
		"BF.RESERVE f 0.01 100 EXPANSION 2\x00BF.MADD f a b c\x00BF.SCANDUMP f 0\x00BF.SCANDUMP f 1\x00BF.INFO f ITEMS",
		"BF.INSERT f CAPACITY 10 ERROR 0.1 NOCREATE ITEMS a\x00BF.INSERT f NONSCALING CAPACITY 1 ITEMS a b",
		"BF.LOADCHUNK f 1 x\x00BF.LOADCHUNK f 9223372036854775807 x\x00BF.SCANDUMP f -9223372036854775808",
		"SCAN 0 MATCH *[a-\\] COUNT 5\x00SCAN 0 MATCH \x00SCAN 1000001",
		"MGET a b\x00EXISTS a a\x00TYPE a\x00DBSIZE\x00INFO all\x00COMMAND INFO get x\x00CONFIG GET *\x00HELLO 2\x00CLIENT ID\x00QUIT",
		"BF.RESERVE f 1e-300 1000\x00BF.ADD f x\x00BF.RESERVE g 0.999999 1073741824",
	} {
		f.Add([]byte(seed))
	}
	var names []string
	for _, t := range commands.All() {
		f.Add([]byte(t.Name + " a 1 b"))
		names = append(names, t.Name)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		c := direct(t, settings(t, "-max-filter", "100000", "-sync", "no"))
		for line := range bytes.SplitSeq(input, []byte{0}) {
			args := bytes.Split(line, []byte{' '})
			if len(args[0]) == 1 { // a byte is short for a command
				args[0] = []byte(names[int(args[0][0])%len(names)])
			}
			c.Out = c.Out[:0]
			c.do(args)
			if err := resptest.OneReply(c.Out); err != nil {
				t.Fatalf("%.100q: %v: %.200q", line, err, c.Out)
			}
		}
	})
}

// Any header is refused or taken without a panic, and without memory that it only promises.
func FuzzLoadChunk(f *testing.F) {
	seedClient := direct(f, settings(f))
	seedClient.say("BF.MADD", "f", "a", "b", "c")
	for at := int64(0); ; {
		var chunk []byte
		if err := seedClient.s.filters.get([]byte("f")).view(func(bf *redisbloom.Filter) { at, chunk = bf.ScanDump(at) }); err != nil || at == 0 {
			break
		}
		f.Add(chunk, chunk, at)
	}
	f.Fuzz(func(t *testing.T, header, chunk []byte, at int64) {
		c := direct(t, settings(t, "-max-filter", "100000", "-sync", "no"))
		for _, args := range [][]string{
			{"BF.LOADCHUNK", "f", "1", string(header)},
			{"BF.LOADCHUNK", "f", fmt.Sprint(at), string(chunk)},
			{"BF.LOADCHUNK", "f", fmt.Sprint(1 + len(chunk)), string(chunk)},
			{"BF.MADD", "f", "a", "b", "c"},
			{"BF.INFO", "f"},
			{"BF.SCANDUMP", "f", "1"},
		} {
			if err := resptest.OneReply([]byte(c.say(args...))); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.s.filters.bytes(); n > 100000 {
			t.Fatalf("a filter of %d bytes", n)
		}
	})
}
