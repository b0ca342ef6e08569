package resp

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A Read returns as soon as there is a whole command, and not before. It returns a part of one
// only if the buffer is full.
func TestConn_WholeCommands(t *testing.T) {
	ours, theirs := net.Pipe()
	g := NewListener(nil, Limits{Command: 1000, Clients: 1}).admit(ours)
	defer g.Close()
	packets := []string{"PING\r\n*2\r\n$4\r", "\nEC", "HO\r\n$3\r\na", "bc\r\nPI", "NG\r\n"}
	var sent sync.WaitGroup
	sent.Go(func() {
		for _, packet := range packets {
			if _, err := io.WriteString(theirs, packet); err != nil {
				t.Error(err)
			}
		}
	})
	for _, test := range []struct {
		size int
		want string
	}{{100, "PING\r\n"}, {5, "*2\r\n$"}, {100, "4\r\nECHO\r\n$3\r\nabc\r\n"}, {1, "P"}, {100, "ING\r\n"}} {
		buf := make([]byte, test.size)
		if n, err := g.Read(buf); err != nil || string(buf[:n]) != test.want {
			t.Errorf("Read = %q, %v, want %q", buf[:n], err, test.want)
		}
	}
	sent.Wait()
}

// A client that is refused and reads nothing, or that never begins the handshake of TLS, keeps nobody
// else waiting.
func TestListener_RefusesBesides(t *testing.T) { synctest.Test(t, refusesBesides) }

func refusesBesides(t *testing.T) {
	l := NewListener(nil, Limits{Command: 1000, Clients: 1})
	first, _ := net.Pipe()
	g := l.admit(first)
	second, told := net.Pipe()
	refused := l.admit(second) == nil
	if reply, err := io.ReadAll(told); !refused || string(reply) != "-ERR max number of clients reached\r\n" {
		t.Errorf("a second connection, refused %v: %q, %v", refused, reply, err)
	}
	begin := time.Now()
	for range 2 * mostRefusing {
		ours, theirs := net.Pipe() // whose writes wait for a reader
		if l.admit(ours) != nil {
			t.Fatal("a second connection was admitted")
		}
		defer theirs.Close()
	}
	if took := time.Since(begin); took > 0 {
		t.Errorf("%d refusals took %v", 2*mostRefusing, took)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	next, _ := net.Pipe()
	if g = l.admit(next); g == nil {
		t.Fatal("no connection is admitted when there is room")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// When there are too many connections, those give way that have not said their password, and those that are idle for long,
// in this order, the oldest first. Others stay, and the new one is refused.
func TestListener_IdleGiveWay(t *testing.T) { synctest.Test(t, idleGiveWay) }

func idleGiveWay(t *testing.T) {
	l := NewListener(nil, Limits{Command: 1000, Clients: 4})
	admit := func(name string) *Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		go io.Copy(io.Discard, theirs)
		g := l.admit(ours)
		if g == nil {
			t.Fatalf("%s is refused", name)
		}
		return g
	}
	closed := func(g *Conn) bool {
		synctest.Wait()
		_, err := g.Conn.Write([]byte("x"))
		return err != nil
	}
	busy, idle, second, first := admit("busy"), admit("idle"), admit("second"), admit("first")
	idle.used.Add(-int64(idleTime) * 2)
	for i, g := range []*Conn{first, second} {
		g.Limit(10, true)
		g.used.Store(int64(i))
	}
	for i, want := range []*Conn{first, second, idle} {
		for _, g := range []*Conn{first, second, idle}[i:] {
			if closed(g) {
				t.Fatalf("connection %d is closed too early", i)
			}
		}
		admit("a new one")
		if !closed(want) {
			t.Errorf("connection %d has not given way", i)
		}
		if err := want.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}
	next, refused := net.Pipe()
	defer refused.Close()
	if l.admit(next) != nil || closed(busy) {
		t.Error("a busy connection gave way")
	}
}

// slowConn is a connection whose Close takes long, as with TLS for a client that reads nothing.
type slowConn struct{ net.Conn }

func (c slowConn) Close() error {
	time.Sleep(5 * time.Second)
	return c.Conn.Close()
}

// A connection that gives way and takes long to close keeps nobody waiting.
func TestListener_SlowGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewListener(nil, Limits{Command: 1000, Clients: 1})
		ours, _ := net.Pipe()
		l.admit(slowConn{ours}).Limit(10, true)
		begin := time.Now()
		if next, _ := net.Pipe(); l.admit(next) == nil {
			t.Error("a connection that has not said its password does not give way")
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("the next connection waited for %v", took)
		}
		time.Sleep(time.Minute) // until it is closed
	})
}

// listening is a listener that has nothing to listen to.
type listening struct{ net.Listener }

func (listening) Close() error { return nil }

// A connection that comes while the listener stops takes nobody's place, and the end of those that are there is seen.
func TestListener_ComesInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewListener(listening{}, Limits{Command: 1000, Clients: 1})
		ours, _ := net.Pipe()
		g := l.admit(ours)
		g.Limit(10, true)
		stopped := make(chan struct{})
		go func() {
			l.Stop(time.Hour)
			close(stopped)
		}()
		synctest.Wait()
		if next, _ := net.Pipe(); l.admit(next) != nil {
			t.Error("a connection is admitted while the listener stops")
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-stopped:
		case <-time.After(time.Minute):
			t.Error("Stop waits for a connection that has ended")
			close(l.none) // lets it end
		}
	})
}

// A client has some seconds for its password, and any time after that.
func TestConn_StrangersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, known := range []bool{false, true} {
			ours, theirs := net.Pipe()
			g := NewListener(nil, Limits{Command: 1000, Clients: 1}).admit(ours)
			g.Limit(10, true)
			g.Limit(10, !known)
			begin := time.Now()
			time.AfterFunc(time.Hour, func() { theirs.Close() })
			if _, err := g.Read(make([]byte, 10)); err == nil {
				t.Error("Read has read something")
			}
			if took := time.Since(begin); known != (took == time.Hour) || !known && took != strangerTime {
				t.Errorf("known %v: the connection ended after %v", known, took)
			}
		}
	})
}
