package server

import (
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

// sameAsRedis are commands to which Redis 7 and this server give the same reply, in this order. A line of several commands,
// separated by semicolons, is a pipeline.
const sameAsRedis = `
SET a 1; GET a; SET a 2 NX; SET a 2 XX; SET a 3 GET; SET a 4 NX GET; SET none 4 XX GET; GET a
SET a 5 KEEPTTL; SET a 5 KEEPTTL EX 5; SET a 5 EX; SET a 5 PX 0; SET a 5 EX x; SET a 5 NX XX; SET a 5 EXAT 4102444800; EXPIRETIME a; PEXPIRETIME a
SET a 6 KEEPTTL; EXPIRETIME a; SET a 6; EXPIRETIME a; TTL a; PTTL a; TTL none; EXPIRETIME none
SET a 7 PXAT 4102444800123; PEXPIRETIME a; INCR a; PEXPIRETIME a; APPEND a 00; PEXPIRETIME a; GETSET a x; PEXPIRETIME a
DEL n; INCR n; INCRBY n 41; DECR n; DECRBY n 1; GET n; INCRBY n x; INCRBY n 9223372036854775807; INCRBY n -9223372036854775808; DECRBY n -9223372036854775808
SET n 9223372036854775807; INCR n; SET n -9223372036854775808; DECR n; SET n 01; INCR n; SET n +1; INCR n; SET n 1x; INCR n; INCR
APPEND s abc; APPEND s def; GET s; STRLEN s; GETRANGE s 0 1; GETRANGE s -3 -1; GETRANGE s 2 1; GETRANGE s 0 -100; GETRANGE s -100 100; GETRANGE s -1 -100; GETRANGE s 1 -100; GETRANGE s -100 -100; GETRANGE s 9 9; GETRANGE none 0 1; GETRANGE s x 1; SUBSTR s 1 2
GETDEL s; GETDEL s; EXISTS s; GETEX none; GETEX n; GETEX n EX 100; TTL n; GETEX n PERSIST; TTL n; GETEX n EXAT 4102444800; EXPIRETIME n; GETEX n EX; GETEX n PERSIST EX 1; GETEX n EX 0; GETEX n WHAT
MSETNX p 1 q 2; MSETNX q 3 r 4; MGET p q r; MSETNX p; MSET p 5; MSET p 5 q 6; MGET q p
EXPIRE p 100; TTL p; EXPIRE p 50 GT; TTL p; EXPIRE p 200 GT; TTL p; EXPIRE p 300 LT; EXPIRE p 20 LT; TTL p; EXPIRE p 10 NX; PERSIST p; PERSIST p; EXPIRE p 10 XX; EXPIRE p 10 GT; EXPIRE p 10 LT; TTL p; EXPIRE p 10 NX
EXPIRE p 5 NX XX; EXPIRE p 5 GT LT; EXPIRE p 5 WHAT; EXPIRE p x; EXPIRE p 9223372036854775807; EXPIRE none 5; PEXPIREAT p 4102444800123; PEXPIRETIME p; EXPIREAT p 1; EXISTS p; TTL p
SET p 1; PEXPIREAT p 9223372036854770000; EXISTS p; EXPIREAT p 10000000000; EXPIRETIME p; EXPIRE p 10000000000; EXISTS p; EXPIRE p 9223372036854775; PEXPIRE p 9223372036854775000; EXPIRE p -9223372036854776; EXISTS p; PEXPIREAT p -9223372036854770000; EXISTS p
SET p 1 EX 10000000000; TTL p; SETEX p 20000000000 1; TTL p; PSETEX p 30000000000000 1; TTL p; SET p 1 EXAT 99999999999; EXPIRETIME p; SET p 1 PXAT 9223372036854775807; EXISTS p; GETEX p EX 10000000000; TTL p; SET p 1 PX 20000000000000 XX; TTL p
SET p 1 EX 9223372036854775; SET p 1 EX 9223372036854776; SET p 1 PX 9223372036854775807; SETEX p 9223372036854776 1; GETEX p PX 9223372036854775807; SET p 1 EXAT 9223372036854776; SET p 1 EXAT 9223372036854775; GET p; SET p 1 EX -1; SET p 1 PXAT 0; SET p 1 EX -9223372036854776; PTTL none
SET p 1; EXPIRE p -1; GET p; SETEX p 0 1; SETEX p x 1; SETEX p 100 1; TTL p; PSETEX p 100000 2; TTL p; SETNX p 3; SETNX t 3; TOUCH p t none; EXISTS p p t; TYPE p; TYPE none
DEL a n p q r t; DBSIZE; SCAN 0; DEL; GET; SET a; ECHO x; PING; PING x; SELECT 0; SELECT 99; GETSET a; TTL
EXEC; DISCARD; MULTI; MULTI; SET a 1; GET a; WATCH a; EXEC; GET a
MULTI; SET a 2; WHAT; SET a; EXEC; GET a; MULTI; SET a 3; DISCARD; GET a; UNWATCH
MULTI; SET a x; INCR a; INCR n; APPEND a y; GET a; MGET a n none; DEL a; EXISTS a n; PING; ECHO z; SETNX a 4; MSET b 1 c 2; EXEC; GET a
WATCH a b; MULTI; SET a 5; EXEC; WATCH a; SET a 6; MULTI; SET a 7; EXEC; GET a; MULTI; SET a 8; EXEC; WATCH none; SET none 1; MULTI; PING; EXEC; WATCH a; SET a 9; UNWATCH; MULTI; EXEC; WATCH a; EXPIRE a 100; MULTI; PING; EXEC
DEL a b c n none; SET a 1; FLUSHDB; GET a; DBSIZE; FLUSHALL ASYNC; FLUSHDB NOW`

// The replies are those of redis-server, byte for byte.
func TestCommands_SameAsRedis(t *testing.T) {
	redis := startRedis(t)
	s, _ := setup(t)
	addr, _ := start(t, s)
	for line := range strings.SplitSeq(strings.TrimSpace(sameAsRedis), "\n") {
		commands := strings.Split(line, "; ")
		want, got := ask(t, redis, commands), ask(t, addr, commands)
		for i := range commands {
			if got[i] != want[i] {
				t.Errorf("%s: %q, Redis has %q", commands[i], got[i], want[i])
			}
		}
	}
}

// startRedis starts redis-server, and returns its address.
func startRedis(t *testing.T) (addr string) {
	t.Helper()
	tool := resptest.Tool(t, "redis-server")
	port := freePort(t)
	cmd := exec.Command(tool, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", testenv.QuickDir(t))
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()         // it was killed
	})
	addr = "127.0.0.1:" + port
	testenv.WaitFor(t, "redis-server", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close() // it was a question
		}
		return err == nil
	})
	return addr
}

// freePort returns a port where nobody listens at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// ask sends commands as a pipeline and returns their replies.
func ask(t *testing.T, addr string, commands []string) (replies []string) {
	t.Helper()
	words := make([][]string, len(commands))
	for i := range commands {
		words[i] = strings.Fields(commands[i])
	}
	return resptest.Pipeline(t, addr, words)
}

// Random programs on strings get the replies of redis-server, byte for byte, as pipelines and between MULTI and EXEC.
func TestStrings_SameAsRedis(t *testing.T) {
	redis := startRedis(t)
	s, _ := setup(t)
	addr, _ := start(t, s)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		program := resptest.StringProgram(r, 40)
		if round%3 == 0 {
			from, to := 1+r.IntN(20), 22+r.IntN(18)
			program = slices.Insert(slices.Insert(program, to, []string{"EXEC"}), from, []string{"MULTI"})
		}
		want, half := resptest.Pipeline(t, redis, program), len(program)
		if round%3 == 1 {
			half = r.IntN(half)
		}
		got := resptest.Pipeline(t, addr, program[:half])
		if _, err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		got = append(got, resptest.Pipeline(t, addr, program[half:])...)
		for i, command := range program {
			if got[i] != want[i] {
				t.Fatalf("seed %d, round %d: %.100q: %.100q, Redis has %.100q after\n%.100q", seed, round, command, got[i], want[i], program[:i])
			}
		}
	}
}
