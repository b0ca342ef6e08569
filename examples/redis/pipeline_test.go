package main

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"github.com/shaledb/shale/internal/resp"
	"github.com/shaledb/shale/internal/resp/resptest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// request returns a command as a client sends it.
func request(args ...string) redcon.Command {
	b := redcon.AppendArray(nil, len(args))
	cmd := redcon.Command{}
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
		cmd.Args = append(cmd.Args, []byte(arg))
	}
	cmd.Raw = b
	return cmd
}

// Commands that can be written together are found, up to the limits.
func TestLeading(t *testing.T) {
	long := strings.Repeat("x", bytesTogether/2)
	for _, test := range []struct {
		pipeline []string
		n        int
	}{
		{[]string{"GET a", "GET b"}, 1},
		{[]string{"SET a 1"}, 1},
		{[]string{"SET a 1", "set b 2", "SET c 3 NX", "SET d 4"}, 2},
		{[]string{"SET a 1", "SET b", "SET c 3"}, 1},
		{[]string{"SET a 1", "SET " + strings.Repeat("x", maxName+1) + " 1"}, 1},
		{[]string{"SET " + strings.Repeat("x", maxName+1) + " 1", "SET a 1"}, 1},
		{[]string{"SET a 1", "SET b " + long, "SET c " + long, "SET d 1"}, 2},
		{[]string{"SET a " + long + long, "SET b 1"}, 1},
		{[]string{"BF.ADD a 1", "bf.add a 2", "BF.ADD b 1"}, 2},
		{[]string{"BF.ADD a 1", "SET a 2"}, 1},
		{strings.Split(strings.Repeat("SET a 1,", 300)+"GET", ","), mostTogether},
	} {
		var pipeline []redcon.Command
		for _, line := range test.pipeline {
			pipeline = append(pipeline, request(strings.Fields(line)...))
		}
		if n, do := leading(pipeline); n != test.n || n > 1 && do == nil {
			t.Errorf("%.60q: %d commands, want %d", test.pipeline, n, test.n)
		}
	}
}

// Commands that are done together are answered like those that are done one by one.
func TestPipeline_Together(t *testing.T) {
	lines := []string{
		"SET a 1", "SET b 2", "SET a 3", "GET a", "BF.RESERVE n 0.01 2 NONSCALING",
		"BF.ADD n x", "BF.ADD n x", "BF.ADD n y", "BF.ADD n z", "BF.ADD n x", "BF.ADD n z", "SET n 1", "SET n 2", "GET n",
		"BF.ADD n x", "BF.ADD n y", "BF.ADD f 1", "BF.ADD f 2", "SET f 1", "SET f 2", "BF.CARD f", "PING", "QUIT", "PING",
	}
	alone := direct(t, settings(t))
	var want, sent strings.Builder
	for _, line := range lines {
		if !alone.Quit {
			want.WriteString(alone.say(strings.Fields(line)...))
		}
		sent.Write(request(strings.Fields(line)...).Raw)
	}
	r := start(t, settings(t, "-sync", "always"))
	if got := resptest.Exchange(t, r.addr, sent.String()); got != want.String() {
		t.Errorf("together %q, one by one %q", got, want.String())
	}
}

// Replies that are large together come while the pipeline is still running.
func TestPipeline_LargeReplies(t *testing.T) {
	r := start(t, settings(t))
	value := strings.Repeat("x", sendAt)
	sent := string(request("SET", "a", value).Raw) + strings.Repeat(string(request("GET", "a").Raw), 40) +
		string(request(strings.Fields("MGET"+strings.Repeat(" a", 20))...).Raw)
	one := fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	want := "+OK\r\n" + strings.Repeat(one, 40) + "*20\r\n" + strings.Repeat(one, 20)
	if got := resptest.Exchange(t, r.addr, sent); got != want {
		t.Errorf("%d bytes of replies, want %d", len(got), len(want))
	}
}

// If what was written can't be made durable, the client with -sync always gets no reply that
// says it is, and its connection ends. Others may still read.
func TestPipeline_SyncFails(t *testing.T) {
	var fails atomic.Bool
	c := settings(t, "-sync", "always")
	c.fs = faultfs.New(c.fs, func(op vfs.Op, _ string, _ int64) error {
		if fails.Load() && op == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	})
	s, err := openServer(c, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := resp.NewListener(inner, resp.Limits{Command: c.maxCommand, Clients: 10})
	served := make(chan error, 1)
	go func() { served <- redcon.Serve(l, s.handle, s.accept, s.closed) }()
	addr := inner.Addr().String()
	if got := resptest.Exchange(t, addr, "SET a 1\r\n"); got != "+OK\r\n" {
		t.Errorf("SET = %q", got)
	}
	fails.Store(true)
	for _, sent := range []string{"SET a 2\r\n", "BF.ADD f x\r\nPING\r\n", "DEL a\r\n"} {
		if got := resptest.Exchange(t, addr, sent); got != "" && got[0] != '-' {
			t.Errorf("%q without a sync = %q", sent, got)
		}
	}
	if got := resptest.Exchange(t, addr, "PING\r\n"); got != "+PONG\r\n" {
		t.Errorf("PING = %q", got)
	}
	l.Stop(time.Second)
	if err := <-served; err != nil {
		t.Error(err)
	}
	t.Logf("close: %v", s.close()) // which can't make all durable either
}
