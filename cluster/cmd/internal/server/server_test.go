package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

func pipelineOf(commands ...[][]byte) []resp.Command {
	var p []resp.Command
	for _, args := range commands {
		p = append(p, resp.Command{Args: args, Size: len(bytes.Join(args, nil))})
	}
	return p
}

// Each command's replies, in the words of Redis.
func TestCommands_Replies(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	for _, test := range []struct{ line, reply string }{
		{"PING", "+PONG"},
		{"ping x", "$1|x"},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command"},
		{"ECHO x", "$1|x"},
		{"SELECT 0", "+OK"},
		{"SELECT 1", "-ERR DB index is out of range"},
		{"SELECT x", "-ERR value is not an integer or out of range"},
		{"GET a", "$-1"},
		{"SET a 1", "+OK"},
		{"get a", "$1|1"},
		{"SET a 2 NX", "$-1"},
		{"SET b 2 nx", "+OK"},
		{"SET b 3 EX", "-ERR syntax error"},
		{"SET b 3 EX 10 PX 10", "-ERR syntax error"},
		{"SET b 3 EX ten", "-ERR value is not an integer or out of range"},
		{"SET b 3 EX 0", "-ERR invalid expire time in 'set' command"},
		{"SET b 3 EX 9223372036854776", "-ERR invalid expire time in 'set' command"},
		{"PSETEX b -1 3", "-ERR invalid expire time in 'psetex' command"},
		{"SET b 3 KEEPTTL EX 1", "-ERR syntax error"},
		{"SET b 3 EXAT 4102444800 PX 1", "-ERR syntax error"},
		{"SET b 3 EXAT 0", "-ERR invalid expire time in 'set' command"},
		{"SET b 3 NX XX", "-ERR syntax error"},
		{"SET b 3 IFEQ", "-ERR syntax error"},
		{"SET none 3 XX", "$-1"},
		{"SET none 3 XX GET", "$-1"},
		{"SET none 3 IFEQ 3", "$-1"},
		{"SET b 3 XX GET", "$1|2"},
		{"SET b 4 NX GET", "$1|3"},
		{"SET b 4 IFEQ 2", "$-1"},
		{"SET b 4 IFEQ 3", "+OK"},
		{"SET b 5 IFEQ 3 GET", "$1|4"},
		{"SET e 5 NX GET", "$-1"},
		{"DEL e", ":1"},
		{"SET b 3 NX PX 1", "$-1"},
		{"SET b 3 MAYBE", "-ERR syntax error"},
		{"TTL b", ":-1"},
		{"PTTL none", ":-2"},
		{"SETNX b 9", ":0"},
		{"SETNX c 9", ":1"},
		{"MSET a 1 d 4", "+OK"},
		{"MSET a 1 d", "-ERR wrong number of arguments for 'mset' command"},
		{"MGET a none d a", "*4|$1|1|$-1|$1|4|$1|1"},
		{"EXISTS a", ":1"},
		{"EXISTS a none a", ":2"},
		{"STRLEN a", ":1"},
		{"STRLEN none", ":0"},
		{"TYPE a", "+string"},
		{"TYPE none", "+none"},
		{"DBSIZE", ":4"},
		{"DEL a none a c", ":2"},
		{"UNLINK d", ":1"},
		{"DEL a", ":0"},
		{"DBSIZE", ":1"},
		{"SCAN 0", "*2|$1|0|*1|$1|b"},
		{"SCAN 0 TYPE list", "*2|$1|0|*0"},
		{"SCAN x", "-ERR invalid cursor"},
		{"SCAN 0 COUNT 0", "-ERR syntax error"},
		{"CLIENT SETNAME me", "+OK"},
		{"CLIENT GETNAME", "$2|me"},
		{"CLIENT SETINFO lib-name x", "+OK"},
		{"CLIENT MAINT_NOTIFICATIONS ON", "-ERR unknown subcommand or wrong number of arguments for 'MAINT_NOTIFICATIONS'. There are CLIENT ID, INFO, LIST, KILL, GETNAME, SETNAME, SETINFO, NO-EVICT and NO-TOUCH"},
		{"COMMAND COUNT", fmt.Sprintf(":%d", len(commands))},
		{"CLUSTER SLOTS", "-CLUSTERDOWN no member leads the group at the moment"},
		{"CLUSTER FORGET a", "-ERR unknown subcommand or wrong number of arguments for 'FORGET'. There are CLUSTER SLOTS, SHARDS, NODES, MYID, INFO and KEYSLOT"},
		{"READONLY", "+OK"},
		{"CONFIG GET save", "*2|$4|save|$0|"},
		{"CONFIG SET save x", "-ERR there is CONFIG GET only: the flags of the server are its settings"},
		{"GET", "-ERR wrong number of arguments for 'get' command"},
		{"WHAT now", "-ERR unknown command 'WHAT', with args beginning with: 'now' "},
		{"FLUSHALL now", "-ERR syntax error"},
		{"AUTH secret", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
		{"HELLO 4", "-NOPROTO unsupported protocol version"},
		{"HELLO 2 WHAT", "-ERR Syntax error in HELLO option 'WHAT'"},
	} {
		c.want(t, test.line, test.reply)
	}
	if got := c.say(); got != "" {
		t.Errorf("an empty line is answered with %q", got)
	}
	c.want(t, "QUIT", "+OK")
	if !c.quit {
		t.Error("QUIT ends nothing")
	}
}

// Each command that sets a time to live, and each that ends it.
func TestCommands_Expiry(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	for line, least := range map[string]time.Duration{
		"SET k v EX 1000": 1000 * time.Second, "SET k v px 1000000": 1000 * time.Second, "SETEX k 1000 v": 1000 * time.Second,
		"PSETEX k 1000000 v": 1000 * time.Second, "SET k v EX 9223372036": 9223372036 * time.Second, "SET k v NX PX 1000000": 1000 * time.Second,
	} {
		for _, end := range []string{"SET k v", "MSET k v"} {
			c.say("DEL", "k")
			c.want(t, line, "+OK")
			at, err := f.db.ExpiresAt([]byte("kk"))
			if left := time.Until(at); err != nil || left > least+time.Millisecond || left < least-time.Minute {
				t.Errorf("%s: %v left, %v", line, left, err)
			}
			for name, unit := range map[string]time.Duration{"TTL": time.Second, "PTTL": time.Millisecond} {
				n, err := strconv.Atoi(strings.Trim(c.say(name, "k"), ":\r\n"))
				if left := time.Duration(n) * unit; err != nil || left > least || left < least-time.Minute {
					t.Errorf("%s: %s is %d, %v", line, name, n, err)
				}
			}
			c.want(t, end, "+OK")
			c.want(t, "TTL k", ":-1")
		}
	}
	c.want(t, "SET k v PX 1", "+OK")
	for c.say("GET", "k") != "$-1\r\n" { // until its time has passed
	}
	c.want(t, "PTTL k", ":-2")
	c.want(t, "DEL k", ":0")
	c.want(t, "SET k w NX EX 1000", "+OK")
	failing := func(bool) error { return errUnknown }
	f.fail.Store(&failing)
	for _, line := range []string{"SET k v EX 1", "SET k v NX EX 1", "SETEX k 1 v", "TTL k"} {
		c.want(t, line, "-UNKNOWN nobody knows")
	}
}

// In RESP3, what is absent is a null, and names with values are maps.
func TestCommands_RESP3(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	if got := c.say("HELLO", "3", "SETNAME", "me"); !strings.HasPrefix(got, "%7\r\n") || !strings.Contains(got, "proto\r\n:3\r\n") || *c.shown.name.Load() != "me" {
		t.Errorf("HELLO 3 = %q", got)
	}
	c.want(t, "GET none", "_")
	c.want(t, "MGET none", "*1|_")
	c.want(t, "COMMAND INFO none", "*1|_")
	c.want(t, "CONFIG GET save", "%1|$4|save|$0|")
	if got := c.say("HELLO", "2"); !strings.HasPrefix(got, "*14\r\n") {
		t.Errorf("HELLO 2 = %q", got)
	}
	c.want(t, "GET none", "$-1")
}

// Any key is taken up to the longest; one that is too long costs only its own command.
func TestCommands_Keys(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	long, longest := strings.Repeat("x", maxName+1), strings.Repeat("\xff", maxName)
	for _, args := range [][]string{{"SET", long, "1"}, {"GET", long}, {"DEL", "a", long}, {"MSET", "a", "1", long, "1"}} {
		if got := c.say(args...); got != fmt.Sprintf("-ERR a key is longer than %d bytes\r\n", maxName) {
			t.Errorf("%s of a long key = %q", args[0], got)
		}
	}
	for _, key := range []string{"", strings.Repeat("\xff", 32), longest} {
		for _, args := range [][]string{{"SET", key, "1"}, {"GET", key}, {"DEL", key}} {
			if got := c.say(args...); got != map[string]string{"SET": "+OK\r\n", "GET": "$1\r\n1\r\n", "DEL": ":1\r\n"}[args[0]] {
				t.Errorf("%s of the key %.20q = %q", args[0], key, got)
			}
		}
	}
	c.Out = c.Out[:0]
	p := pipelineOf(bytesOf("SET", "a", "1"), bytesOf("SET", long, "1"), bytesOf("SET", "b", "1"))
	for len(p) > 0 {
		p = p[c.run(p):]
	}
	if got := string(c.Out); got != fmt.Sprintf("+OK\r\n-ERR a key is longer than %d bytes\r\n+OK\r\n", maxName) {
		t.Errorf("a long key in a pipeline: %q", got)
	}
}

func bytesOf(args ...string) [][]byte {
	raw := make([][]byte, len(args))
	for i, arg := range args {
		raw[i] = []byte(arg)
	}
	return raw
}

// Commands of a pipeline go together as long as the order of reads and writes allows it.
func TestPipeline_Together(t *testing.T) {
	for _, test := range []struct {
		name          string
		lines         []string
		reply         string
		reads, writes int64
	}{
		{"sets", []string{"SET a 1", "MSET b 2 c 3", "SET a 4"}, "+OK|+OK|+OK|", 0, 1},
		{"a read between", []string{"SET a 1", "GET a", "SET a 2", "GET a"}, "+OK|$1|1|+OK|$1|2|", 2, 2},
		{"reads", []string{"GET a", "MGET a b", "EXISTS a", "SCAN 0"}, "$-1|*2|$-1|$-1|:0|*2|$1|0|*0|", 1, 0},
		{"deletes", []string{"SET a 1", "DEL a b", "UNLINK a", "DEL b"}, "+OK|:1|:0|:0|", 0, 2},
		{"conditions", []string{"SET a 1 NX", "SETNX a 2", "SET a 3", "GET a"}, "+OK|:0|+OK|$1|3|", 1, 3},
		{"times", []string{"SET a 1 EX 9", "SETEX a x 2", "SET a 2 PXAT 4102444800000"}, "+OK|-ERR value is not an integer or out of range|+OK|", 0, 2},
		{"what was there", []string{"SET a 1", "SET a 2 XX", "SET a 3 GET", "SET a 4 XX EX"}, "+OK|+OK|$1|2|-ERR syntax error|", 0, 2},
		{"errors", []string{"SET a 1", "WHAT", "SET a 2", "GET"}, "+OK|-ERR unknown command 'WHAT', with args beginning with: |+OK|-ERR wrong number of arguments for 'get' command|", 0, 2},
	} {
		s, f := setup(t)
		c := s.newClient()
		var p []resp.Command
		for _, line := range test.lines {
			p = append(p, pipelineOf(bytesOf(strings.Fields(line)...))...)
		}
		for len(p) > 0 {
			p = p[c.run(p):]
		}
		if got := strings.ReplaceAll(string(c.Out), "\r\n", "|"); got != test.reply {
			t.Errorf("%s: %q, want %q", test.name, got, test.reply)
		}
		if f.reads.Load() != test.reads || f.writes.Load() != test.writes {
			t.Errorf("%s: %d reads and %d writes, want %d and %d", test.name, f.reads.Load(), f.writes.Load(), test.reads, test.writes)
		}
	}
}

// A write that has not happened is tried again; one of which nobody knows is not.
func TestWrite_Again(t *testing.T) {
	s, f := setup(t)
	c := s.newClient()
	var calls atomic.Int64
	elections := func(bool) error {
		if calls.Add(1) <= 3 {
			return errElection
		}
		return nil
	}
	f.fail.Store(&elections)
	c.want(t, "SETNX a 1", ":1")
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
	calls.Store(0)
	unknown := func(bool) error {
		calls.Add(1)
		return errUnknown
	}
	f.fail.Store(&unknown)
	for _, line := range []string{"SET a 1", "SETNX a 1", "DEL a", "GET a"} {
		c.want(t, line, "-UNKNOWN nobody knows")
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
	lines := func(bool) error { return errors.Join(errors.New("one"), errors.New("two\r\nthree")) }
	f.fail.Store(&lines)
	c.want(t, "GET a", "-ERR one; two ; three")

	s.config.Timeout = 50 * time.Millisecond
	always := func(bool) error { return errElection }
	f.fail.Store(&always)
	begin := time.Now()
	c.want(t, "SET a 1", "-ERR there is an election")
	if took := time.Since(begin); took < 50*time.Millisecond || took > 4*time.Second /* else it is 5 s */ {
		t.Errorf("a write waited %v for an election", took)
	}
}

// An MGET whose values are too large together is refused, and the next command is answered.
func TestMGet_TooLarge(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.MaxReply = 1000 })
	c := s.newClient()
	c.say("SET", "a", strings.Repeat("x", 400))
	c.want(t, "MGET a a a", "-ERR the values together are larger than 1000 bytes: ask for fewer keys at a time")
	if got := c.say("MGET", "a", "a"); !strings.HasPrefix(got, "*2\r\n$400\r\n") {
		t.Errorf("MGET = %.40q", got)
	}
}

// With local reads, a member that knows no leader still answers.
func TestReads_Local(t *testing.T) {
	s, f := setup(t, func(c *Config) { c.Local = true })
	c := s.newClient()
	c.want(t, "SET a 1", "+OK")
	fail := func(write bool) error { return errUnknown }
	f.fail.Store(&fail)
	c.want(t, "GET a", "$1|1")
	if n := f.reads.Load(); n != 0 {
		t.Errorf("%d reads of the group", n)
	}
}

// Without the password a client can do nothing, and a wrong one, of whatever length, does not help.
func TestPassword(t *testing.T) {
	s, f := setup(t, func(c *Config) { c.Password = "secret" })
	c := s.newClient()
	for _, line := range []string{"GET a", "SET a 1", "PING", "INFO", "WHAT", "COMMAND", "CLIENT ID", "SCAN 0"} {
		c.want(t, line, "-NOAUTH Authentication required.")
	}
	for _, line := range []string{"AUTH secre", "AUTH secrets", "AUTH default wrong", "AUTH other secret", "AUTH default", "HELLO 3 AUTH default x"} {
		c.want(t, line, "-WRONGPASS invalid username-password pair or user is disabled.")
	}
	if got := c.say("HELLO", "3"); !strings.HasPrefix(got, "-NOAUTH ") || c.RESP3 {
		t.Errorf("HELLO without the password = %q", got)
	}
	c.want(t, "AUTH a b c", "-ERR syntax error")
	c.want(t, "GET a", "-NOAUTH Authentication required.")
	if n := f.reads.Load() + f.writes.Load(); n != 0 {
		t.Errorf("strangers have made %d calls of the group", n)
	}
	c.want(t, "AUTH default secret", "+OK")
	c.want(t, "GET a", "$-1")
	other := s.newClient()
	if got := other.say("HELLO", "3", "AUTH", "default", "secret"); !strings.HasPrefix(got, "%7\r\n") {
		t.Errorf("HELLO with the password = %q", got)
	}
	other.want(t, "GET a", "_")
	if n := s.Counts().WrongPasswords; n != 6 {
		t.Errorf("%d wrong passwords were counted, want 6", n)
	}
	if s.Knows("", nil) || s.Knows("secre", nil) || !s.Knows("secret", nil) || !s.Knows("other", NewPassword("other")) {
		t.Error("Knows is wrong")
	}
}

// With the password for reading a client reads, and nothing that it says writes: alone, in a pipeline, or in a transaction.
func TestPassword_Reads(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.Password, c.ReadPassword = "secret", "look" })
	writer, reader := s.newClient(), s.newClient()
	writer.want(t, "AUTH secret", "+OK")
	writer.want(t, "SET a 1", "+OK")
	writer.want(t, "BF.ADD f x", ":1")
	reader.want(t, "AUTH other look", "-WRONGPASS invalid username-password pair or user is disabled.")
	if got := reader.say("HELLO", "2", "AUTH", "default", "look"); !strings.HasPrefix(got, "*14\r\n") {
		t.Errorf("HELLO with the password for reading: %q", got)
	}
	for _, one := range commands {
		words := append(strings.Fields(one.Name), "a", "1", "1", "1", "1", "1")
		words = words[:max(one.Arity, -one.Arity, 3*min(1, -min(0, one.Arity)))]
		writes := strings.Contains(one.Flags, "write")
		if refused := strings.HasPrefix(reader.say(words...), "-NOPERM this password is for reading"); refused != writes {
			t.Errorf("%q is refused: %v", words, refused)
		}
		reader.quit, reader.multi = false, multi{}
	}
	reader.want(t, "GET a", "$1|1")
	reader.want(t, "BF.EXISTS f x", ":1")
	reader.want(t, "MULTI", "+OK")
	reader.want(t, "SET a 2", "-NOPERM this password is for reading: user default has no permissions to run the 'set' command")
	reader.want(t, "EXEC", "-EXECABORT Transaction discarded because of previous errors.")
	reader.want(t, "CLIENT KILL ID 1", "-NOPERM this password is for reading, and not for the connections of others")
	writer.want(t, "GET a", "$1|1")
	reader.want(t, "AUTH secret", "+OK")
	reader.want(t, "SET a 3", "+OK")
	reader.want(t, "AUTH look", "+OK")
	if got := reader.say("SET", "a", "4"); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("after another AUTH: %q", got)
	}
	s.SetPasswords("secret", "peep")
	reader.want(t, "AUTH look", "-WRONGPASS invalid username-password pair or user is disabled.")
	reader.want(t, "AUTH peep", "+OK")
}

// Connections that only wait lock nobody out who knows the password, and no number of them makes guessing quick.
func TestPassword_ManyStrangers(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.Password, c.MaxClients = "secret", 8 })
	addr, _ := start(t, s)
	for range 40 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	client := dial(t, addr, func(o *redis.Options) { o.Password = "secret" })
	begin := time.Now()
	var guesses sync.WaitGroup
	for range 6 {
		guesses.Go(func() { resptest.Exchange(t, addr, "AUTH guess\r\n") })
	}
	for range 10 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("a client with the password: %v", err)
		}
	}
	guesses.Wait()
	if took := time.Since(begin); took < 6*wrongPause {
		t.Errorf("6 guesses on as many connections took %v", took)
	}
}

// A stranger can't make the server take in large commands.
func TestPassword_LimitsStrangers(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.Password = "secret" })
	addr, _ := start(t, s)
	large := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", 2*strangersLimit, strings.Repeat("x", 2*strangersLimit))
	many := "*11\r\n" + strings.Repeat("$3\r\nDEL\r\n", 11)
	if got := resptest.Exchange(t, addr, large); got != "-ERR Protocol error: unauthenticated bulk length\r\n" {
		t.Errorf("a stranger's large command: %.60q", got)
	}
	if got := resptest.Exchange(t, addr, many); got != "-ERR Protocol error: unauthenticated multibulk length\r\n" {
		t.Errorf("a stranger's command of many words: %.60q", got)
	}
	if got := resptest.Exchange(t, addr, "AUTH secret\r\n"+many+large); !strings.HasPrefix(got, "+OK\r\n:0\r\n$32768\r\n") {
		t.Errorf("a friend's commands: %.60q", got)
	}
}

// A client that sends a command that is too large reads why, also if it sends all of it before it reads.
func TestServer_TooLargeIsTold(t *testing.T) {
	s, _ := setup(t)
	addr, _ := start(t, s)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := make([]byte, s.config.MaxCommand+1<<20)
	if _, err := fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n", len(body)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(body); err != nil {
		t.Errorf("the connection ended before all was sent: %v", err)
	}
	if got, err := io.ReadAll(conn); string(got) != "-ERR Protocol error: invalid bulk length\r\n" {
		t.Errorf("the client reads %q, %v", got, err)
	}
}

// Commands that have begun when the server stops are answered, and idle connections end.
func TestServer_Stop(t *testing.T) {
	testenv.CheckLeaks(t)
	s, f := setup(t)
	addr, stop := start(t, s)
	idle := dial(t, addr)
	if err := idle.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	wait := func(bool) error {
		close(begun)
		<-goOn
		return nil
	}
	f.fail.Store(&wait)
	answered := make(chan error, 1)
	client := dial(t, addr)
	go func() { answered <- client.Set(context.Background(), "a", "1", 0).Err() }()
	<-begun
	go func() {
		time.Sleep(20 * time.Millisecond)
		close(goOn)
	}()
	stop()
	if err := <-answered; err != nil {
		t.Errorf("a write that had begun: %v", err)
	}
}
