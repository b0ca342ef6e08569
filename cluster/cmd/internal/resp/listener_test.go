package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// limits are those of a small server.
func limits(clients int) Limits {
	return Limits{Command: 1000, Clients: clients, Buffers: NewBudget(1 << 20)}
}

// A client that is refused and reads nothing, or that never begins the handshake of TLS, keeps nobody
// else waiting.
func TestListener_RefusesBesides(t *testing.T) { synctest.Test(t, refusesBesides) }

func refusesBesides(t *testing.T) {
	l := NewListener(nil, limits(1))
	first, _ := net.Pipe()
	g := l.admit(first)
	g.Limit(1000, false)
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
	l := NewListener(nil, limits(4))
	admit := func(name string) *Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		go io.Copy(io.Discard, theirs)
		g := l.admit(ours)
		if g == nil {
			t.Fatalf("%s is refused", name)
		}
		g.Limit(1000, false)
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
		l := NewListener(nil, limits(1))
		ours, _ := net.Pipe()
		l.admit(slowConn{ours})
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

// listening is a listener whose connections come from a test.
type listening struct {
	net.Listener
	come chan net.Conn
}

func (l listening) Accept() (net.Conn, error) {
	if conn, ok := <-l.come; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (listening) Close() error { return nil }

// A connection that comes while the listener stops takes nobody's place, and the end of those that are there is seen.
func TestListener_ComesInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(chan net.Conn)
		l := NewListener(listening{come: come}, limits(1))
		ended := make(chan struct{})
		go func() {
			_ = l.Serve(func(c *Conn) {
				c.Limit(10, true)
				_, _ = c.Commands()
			})
			close(ended)
		}()
		ours, theirs := net.Pipe()
		come <- ours
		synctest.Wait()
		l.stopping.Store(true)
		late, lateTheirs := net.Pipe()
		come <- late
		if got, err := io.ReadAll(lateTheirs); len(got) > 0 || err != nil {
			t.Errorf("a connection while the listener stops reads %q, %v", got, err)
		}
		synctest.Wait()
		if err := theirs.SetDeadline(time.Now()); err != nil {
			t.Error(err)
		}
		if _, err := theirs.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("the connection that was there has ended: %v", err)
		}
		l.Stop(time.Hour)
		close(come)
		<-ended
		if n := len(l.conns); n > 0 {
			t.Errorf("%d connections are left", n)
		}
		time.Sleep(2 * time.Hour) // until all timers are over
	})
}

// A client has some seconds for its password, and any time after that.
func TestConn_StrangersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, known := range []bool{false, true} {
			ours, theirs := net.Pipe()
			c := NewListener(nil, limits(1)).admit(ours)
			c.Limit(10, true)
			c.Limit(10, !known)
			begin := time.Now()
			time.AfterFunc(time.Hour, func() { theirs.Close() })
			if got, err := c.Commands(); err == nil {
				t.Errorf("there are commands: %s", textOf(got))
			}
			if took := time.Since(begin); known != (took == time.Hour) || !known && took != strangerTime {
				t.Errorf("known %v: the connection ended after %v", known, took)
			}
		}
	})
}

// A client that does not go on with the handshake of TLS is cut off, and keeps nobody waiting meanwhile.
func TestListener_Handshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come, ended := make(chan net.Conn), make(chan struct{})
		l := NewListener(listening{come: come}, limits(2))
		served := 0
		go func() {
			_ = l.Serve(func(*Conn) { served++ })
			close(ended)
		}()
		ours, theirs := net.Pipe()
		begin := time.Now()
		come <- tls.Server(ours, new(tls.Config))
		plain, friend := net.Pipe()
		come <- plain
		if _, err := friend.Read(make([]byte, 1)); err != io.EOF || served != 1 || time.Since(begin) > 0 {
			t.Errorf("another client was served %d times after %v, %v", served, time.Since(begin), err)
		}
		if _, err := theirs.Read(make([]byte, 1)); err != io.EOF || served != 1 || time.Since(begin) != strangerTime {
			t.Errorf("a client that says nothing: %v after %v", err, time.Since(begin))
		}
		close(come)
		<-ended
	})
}
