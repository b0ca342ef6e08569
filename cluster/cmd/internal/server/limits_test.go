package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

// connect returns a connection to a server, which ends with the test.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Clients that ask for much and read nothing can't make the server hold more than it is to: those for whose replies there is
// no memory are cut off, and it is given back when they are gone.
func TestLimits_UnreadReplies(t *testing.T) {
	const most, value = 32 << 20, 4 << 20
	s, _ := setup(t, func(c *Config) { c.MaxBuffers = most })
	addr, _ := start(t, s)
	s.newClient().say("SET", "big", strings.Repeat("x", value))
	var all []net.Conn
	for range 12 {
		conn := connect(t, addr)
		if _, err := io.WriteString(conn, strings.Repeat("GET big\r\n", 3)+"QUIT\r\n"); err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	testenv.WaitFor(t, "the budget to be used", func() bool { return s.budget.Left() < value+1<<20 })
	time.Sleep(100 * time.Millisecond) // for those that still ask
	whole, cut := 0, 0
	for _, conn := range all {
		text, _ := io.ReadAll(conn) // which may end in a reset
		if strings.Count(string(text), "$4194304\r\n") == 3 && strings.HasSuffix(string(text), "x\r\n+OK\r\n") {
			whole++
		} else {
			cut++
		}
		_ = conn.Close() // the server may have closed it
	}
	if whole == 0 || cut == 0 {
		t.Errorf("of %d clients %d got their replies, and %d were cut off", len(all), whole, cut)
	}
	testenv.WaitFor(t, "the clients to be gone", func() bool { return s.Counts().Clients == 0 })
	if left := s.budget.Left(); left != most {
		t.Errorf("with no client, %d of %d bytes are left", left, most)
	}
}

// Halves of large commands, and what waits for EXEC, are counted, whoever sends them, and given back.
func TestLimits_Commands(t *testing.T) {
	const most = 8 << 20
	s, _ := setup(t, func(c *Config) { c.MaxBuffers, c.MaxCommand = most, 2<<20 })
	addr, _ := start(t, s)
	var all []net.Conn
	for i := range 12 {
		conn := connect(t, addr)
		half := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\n%d\r\n$2000000\r\n%s", i%10, strings.Repeat("x", 1_900_000))
		if i%2 == 0 {
			half = "MULTI\r\nSET k " + strings.Repeat("SET k "+strings.Repeat("x", 60_000)+"\r\n", 30)
		}
		go func() { _, _ = io.WriteString(conn, half) }() // until it is refused
		all = append(all, conn)
	}
	testenv.WaitFor(t, "the budget to be used", func() bool { return s.budget.Left() < 2<<20 })
	refused := 0
	for range 100 {
		text := resptest.Exchange(t, addr, fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$2000000\r\n%s\r\n", strings.Repeat("x", 2_000_000)))
		if text == "-"+resp.TooMuch+"\r\n" {
			refused++
		}
		if left := s.budget.Left(); left < 0 || left > most {
			t.Fatalf("%d bytes are left", left)
		}
		if refused > 0 {
			break
		}
	}
	if text := resptest.Exchange(t, addr, "PING\r\n"); text != "+PONG\r\n" || refused == 0 {
		t.Errorf("a small command gets %q, and %d large ones were refused", text, refused)
	}
	for _, conn := range all {
		_ = conn.Close() // the server may have closed it
	}
	testenv.WaitFor(t, "the clients to be gone", func() bool { return s.Counts().Clients == 0 })
	if left := s.budget.Left(); left != most {
		t.Errorf("with no client, %d of %d bytes are left", left, most)
	}
}

// WATCH takes memory for names, without end if nobody counts.
func TestLimits_Watch(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.MaxBuffers, c.MaxCommand = 1<<20, 1<<19 })
	c, name := s.newClient(), strings.Repeat("x", 60_000)
	refused := ""
	for i := range 20 {
		if refused = c.say("WATCH", fmt.Sprint(i, name)); refused != "+OK\r\n" {
			break
		}
	}
	if !strings.HasPrefix(refused, "-ERR the commands of a transaction have more than") {
		t.Errorf("many names: %q", refused)
	}
	c.want(t, "UNWATCH", "+OK")
	if left := s.budget.Left(); left != 1<<20 {
		t.Errorf("after UNWATCH %d bytes are left", left)
	}
}
