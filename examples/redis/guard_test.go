package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/redcon"

	"github.com/shaledb/shale/internal/resp"
	"github.com/shaledb/shale/internal/resp/resptest"
)

// What breaks the protocol or a limit gets the error of Redis, after the replies to what came
// before it, and ends the connection.
func TestGuard_OverConnection(t *testing.T) {
	r := start(t, settings(t, "-max-command", "2000"))
	arg := func(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("x", n)) }
	for _, test := range []struct{ sent, reply string }{
		{"*1\r\n$9223372036854775807\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"*9223372036854775807\r\n$1\r\na\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*99999999999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*0\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*-1\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*1\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*1\r\n+1\r\n", "-ERR Protocol error: expected '$'\r\n"},
		{"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"*1\r\n$4\r\nPINGxx", "-ERR Protocol error: invalid bulk length\r\n"},
		{"*2\r\n$4\r\nECHO\r\n" + arg(2000), "-ERR Protocol error: invalid bulk length\r\n"},
		{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$9999\r\n", "$-1\r\n-ERR Protocol error: invalid bulk length\r\n"},
		{"PING\r\n" + strings.Repeat("x", resp.MaxInline+1), "+PONG\r\n-ERR Protocol error: too big inline request\r\n"},
		{"\r\nPING\n*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\nQUIT\r\nPING\r\n", "+PONG\r\n+PONG\r\n$0\r\n\r\n+OK\r\n"},
		{"PING \"un", ""},
	} {
		if got := resptest.Exchange(t, r.addr, test.sent); got != test.reply {
			t.Errorf("%.60q: %q, want %q", test.sent, got, test.reply)
		}
	}
}

// Whatever a client sends, the parser gets nothing from the guard at which it panics or hangs,
// and it is the same in whatever pieces the bytes come.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{
		"*1\r\n$4\r\nPING\r\n", "PING\r\n", "*1\r\n$9223372036854775807\r\n", "*9223372036854775807\r\n$1\r\na\r\n",
		"*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING \"a b\"\r\n", "*1\r\n$9223372036854775806\r\nx", "*1\r\n$1\r\nab\r\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, sent []byte, step int) {
		if len(sent) > 1<<16 {
			return
		}
		whole := resp.Guard{Most: 1000}
		good, end, err := whole.Check(sent)
		parts, passed, partEnd := resp.Guard{Most: 1000}, 0, 0
		var partErr error
		for rest := sent; len(rest) > 0 && partErr == nil; {
			n := min(len(rest), max(1, step%64))
			var ok, at int
			ok, at, partErr = parts.Check(rest[:n])
			if at > 0 {
				partEnd = passed + at
			}
			passed += ok
			rest = rest[n:]
		}
		if passed != good || partEnd != end || !errors.Is(partErr, err) {
			t.Fatalf("in pieces %d bytes, the last command ends at %d, %v; whole %d, %d, %v", passed, partEnd, partErr, good, end, err)
		}
		reader := redcon.NewReader(bytes.NewReader(sent[:good]))
		for {
			cmd, err := reader.ReadCommand()
			if err != nil {
				return
			}
			if len(cmd.Args) > resp.MaxArgs {
				t.Fatalf("a command of %d arguments", len(cmd.Args))
			}
		}
	})
}
