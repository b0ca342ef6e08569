package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// childArgs in the environment makes the test's program the server itself, with these flags.
const childArgs = "SHALE_REDIS_ARGS"

func TestMain(m *testing.M) {
	if args, child := os.LookupEnv(childArgs); child {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		main()
		return
	}
	os.Exit(m.Run())
}

// settings returns the config of flags, with a store in memory.
func settings(t testing.TB, flags ...string) config {
	t.Helper()
	c, err := parseFlags(flags, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c.fs = vfs.NewMem()
	return c
}

// A running server can be stopped before the test ends.
type running struct {
	addr string
	stop func() error
}

// start runs a server until the test ends.
func start(t testing.TB, c config) *running {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, c, inner, t.Logf) }()
	r := &running{addr: inner.Addr().String(), stop: sync.OnceValue(func() error {
		cancel()
		return <-done
	})}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return r
}

// dial returns a client, which is closed when the test ends.
func (r *running) dial(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.addr, Protocol: 2, MaxRetries: -1})
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
	return client
}

// direct returns a client of a server without connections, for tests of commands alone.
func direct(t testing.TB, c config) *client {
	t.Helper()
	s, err := openServer(c, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil && !errors.Is(err, shale.ErrClosed) {
			t.Error(err)
		}
	})
	return s.newClient()
}

// say does a command, and returns its reply as it goes over the wire.
func (c *client) say(args ...string) string {
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	c.Out = c.Out[:0]
	c.do(words)
	return string(c.Out)
}

// want fails the test if the reply of a command, split at spaces, is another one.
func (c *client) want(t testing.TB, line, reply string) {
	t.Helper()
	got := strings.ReplaceAll(strings.TrimSuffix(c.say(strings.Fields(line)...), "\r\n"), "\r\n", " ")
	if got != reply {
		t.Errorf("%s = %q, want %q", line, got, reply)
	}
}

// A string that expires is gone, also for SET with NX or XX, and its name may stand for a filter.
func TestCommands_Expiry(t *testing.T) {
	c := direct(t, settings(t))
	for _, line := range []string{"SET a 1 EX 1000", "SET a 1 xx px 1000000", "SET b 1 NX EX 1000"} {
		c.want(t, line, "+OK")
		for name, unit := range map[string]int{"TTL": 1, "PTTL": 1000} {
			n, err := strconv.Atoi(strings.Trim(c.say(name, strings.Fields(line)[1]), ":\r\n"))
			if err != nil || n > 1000*unit || n < 900*unit {
				t.Errorf("%s after %s: %d, %v", name, line, n, err)
			}
		}
	}
	c.want(t, "SET a 1", "+OK")
	c.want(t, "TTL a", ":-1")
	c.want(t, "BF.ADD f x", ":1")
	for _, name := range []string{"a", "f"} {
		c.want(t, "SET "+name+" 1 PX 1", "+OK")
		for c.say("GET", name) != "$-1\r\n" { // until its time has passed
		}
		c.want(t, "SET "+name+" 1 XX EX 1000", "$-1")
		c.want(t, "BF.EXISTS "+name+" x", ":0")
		c.want(t, "BF.ADD "+name+" x", ":1")
	}
	c.want(t, "EXISTS a b f", ":3")
}

// What Redis answers to these, this server does.
func TestCommands_Replies(t *testing.T) {
	c := direct(t, settings(t))
	for _, test := range []struct{ line, reply string }{
		{"PING", "+PONG"},
		{"ping hello", "$5 hello"},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command"},
		{"ECHO hello", "$5 hello"},
		{"ECHO", "-ERR wrong number of arguments for 'echo' command"},
		{"SELECT 0", "+OK"},
		{"SELECT 1", "-ERR DB index is out of range"},
		{"SELECT a", "-ERR value is not an integer or out of range"},
		{"GET a", "$-1"},
		{"SET a 1", "+OK"},
		{"GET a", "$1 1"},
		{"SET a 2 NX", "$-1"},
		{"SET b 2 nx", "+OK"},
		{"SET c 3 XX", "$-1"},
		{"SET a 4 xx", "+OK"},
		{"SETNX a 5", ":0"},
		{"SETNX d 5", ":1"},
		{"DEL d", ":1"},
		{"SET a 4 XX NX", "-ERR syntax error"},
		{"SET a 4 BAD", "-ERR syntax error"},
		{"SET a 4 EX", "-ERR syntax error"},
		{"SET a 4 EX 10 PX 10", "-ERR syntax error"},
		{"SET a 4 EX 0", "-ERR invalid expire time in 'set' command"},
		{"TTL a", ":-1"},
		{"PTTL c", ":-2"},
		{"SET a", "-ERR wrong number of arguments for 'set' command"},
		{"MGET a b c a", "*4 $1 4 $1 2 $-1 $1 4"},
		{"EXISTS a b c a", ":3"},
		{"TYPE a", "+string"},
		{"TYPE c", "+none"},
		{"DBSIZE", ":2"},
		{"SCAN 0", "*2 $1 0 *2 $1 a $1 b"},
		{"SCAN 0 MATCH b*", "*2 $1 0 *1 $1 b"},
		{"SCAN 0 COUNT 0", "-ERR syntax error"},
		{"SCAN 0 COUNT x", "-ERR value is not an integer or out of range"},
		{"SCAN 0 COUNT", "-ERR syntax error"},
		{"SCAN 0 TYPE string", "-ERR syntax error"},
		{"SCAN x", "-ERR invalid cursor"},
		{"DEL a c b a", ":2"},
		{"DEL a", ":0"},
		{"SCAN 0", "*2 $1 0 *0"},
		{"NO such command", "-ERR unknown command 'NO', with args beginning with: 'such' 'command' "},
		{"HELLO 2 AUTH a b", "-ERR syntax error"},
		{"HELLO 3", "-NOPROTO unsupported protocol version"},
		{"HELLO x", "-ERR Protocol version is not an integer or out of range"},
		{"CLIENT SETNAME me", "+OK"},
		{"CLIENT GETNAME", "$2 me"},
		{"CLIENT SETINFO lib-name x", "+OK"},
		{"CONFIG GET appendfsync", "*2 $11 appendfsync $8 everysec"},
		{"CONFIG SET save x", "-ERR there is CONFIG GET only: the flags of the server are its settings"},
		{"COMMAND COUNT", fmt.Sprintf(":%d", len(commands.All()))},
		{"COMMAND INFO get nothing", "*2 *6 $3 get :2 *2 +readonly +fast :1 :1 :1 *-1"},
		{"COMMAND DOCS", "*0"},
		{"QUIT", "+OK"},
	} {
		c.want(t, test.line, test.reply)
	}
	if !c.Quit {
		t.Error("QUIT does not end the connection")
	}
}

// A name may be as long as the store's keys, less a byte.
func TestCommands_LongNames(t *testing.T) {
	c := direct(t, settings(t))
	longest := strings.Repeat("x", maxName)
	if got := c.say("SET", longest, "1"); got != "+OK\r\n" {
		t.Errorf("SET of the longest name = %q", got)
	}
	for _, args := range [][]string{
		{"SET", longest + "x", "1"}, {"GET", longest + "x"}, {"DEL", "a", longest + "x"}, {"BF.ADD", longest + "x", "1"},
	} {
		if got := c.say(args...); got != "-ERR a key is longer than 65534 bytes\r\n" {
			t.Errorf("%s of a longer name = %q", args[0], got)
		}
	}
}

// The commands of go-redis work over a connection, in pipelines too.
func TestServer_GoRedis(t *testing.T) {
	testenv.CheckLeaks(t)
	ctx := t.Context()
	client := start(t, settings(t)).dial(t)
	if got, err := client.Ping(ctx).Result(); err != nil || got != "PONG" {
		t.Fatalf("PING = %q, %v", got, err)
	}
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 1000 {
			p.Set(ctx, fmt.Sprintf("key:%03d", i), i, 0)
		}
		p.Get(ctx, "key:999")
		p.Set(ctx, "key:999", "new", 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(ctx, "key:999").Result(); err != nil || got != "new" {
		t.Errorf("GET = %q, %v", got, err)
	}
	if _, err := client.Get(ctx, "none").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET of an absent key: %v", err)
	}
	if set, err := client.SetNX(ctx, "key:000", "x", 0).Result(); err != nil || set {
		t.Errorf("SETNX of a key that is there = %v, %v", set, err)
	}
	got, err := client.MGet(ctx, "key:001", "none", "key:002").Result()
	if err != nil || fmt.Sprint(got) != "[1 <nil> 2]" {
		t.Errorf("MGET = %v, %v", got, err)
	}
	found := make(map[string]int)
	for it := client.Scan(ctx, 0, "key:??[05]", 7).Iterator(); it.Next(ctx); {
		found[it.Val()]++
	}
	if len(found) != 200 || found["key:995"] != 1 {
		t.Errorf("SCAN found %d keys, want 200: %v", len(found), found)
	}
	if n, err := client.DBSize(ctx).Result(); err != nil || n != 1000 {
		t.Errorf("DBSIZE = %d, %v", n, err)
	}
	if n, err := client.Del(ctx, "key:000", "key:001", "none").Result(); err != nil || n != 2 {
		t.Errorf("DEL = %d, %v", n, err)
	}
	table, err := client.Command(ctx).Result()
	if err != nil || table["mget"] == nil || table["mget"].LastKeyPos != -1 || !table["get"].ReadOnly {
		t.Errorf("COMMAND = %+v, %v", table["mget"], err)
	}
}

// A connection that does not read does not keep the server from stopping for ever, and idle
// ones do not at all.
func TestServer_StopIdle(t *testing.T) {
	r := start(t, settings(t))
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("*2\r\n$3\r\nGET\r\n")); err != nil { // half a command
		t.Fatal(err)
	}
	if err := r.dial(t).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > grace/2 {
		t.Errorf("the stop took %v", took)
	}
}

// Bad flags are refused, with the flag in the error.
func TestParseFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-sync", "often"}, {"-max-command", "1"}, {"-max-filter", "0"}, {"-max-clients", "0"}, {"more"},
	} {
		_, err := parseFlags(args, t.Output())
		if err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
