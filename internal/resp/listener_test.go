package resp

import (
	"io"
	"net"
	"sync"
	"testing"
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
func TestListener_RefusesBesides(t *testing.T) {
	l := NewListener(nil, Limits{Command: 1000, Clients: 1})
	first, _ := net.Pipe()
	g := l.admit(first)
	begin := time.Now()
	for range 2 * mostRefusing {
		ours, theirs := net.Pipe() // whose writes wait for a reader
		if l.admit(ours) != nil {
			t.Fatal("a second connection was admitted")
		}
		defer theirs.Close()
	}
	if took := time.Since(begin); took > time.Second/2 {
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

// A connection's limit can be changed between two commands, as when a client has given its password.
func TestConn_Limit(t *testing.T) {
	ours, theirs := net.Pipe()
	g := NewListener(nil, Limits{Command: 4, Clients: 1}).admit(ours)
	defer g.Close()
	go func() {
		_, _ = io.WriteString(theirs, "*1\r\n$4\r\nPING\r\n") // what Read returns is looked at
		_, _ = io.WriteString(theirs, "*2\r\n$4\r\nECHO\r\n$6\r\nlonger\r\n")
	}()
	buf := make([]byte, 100)
	if n, err := g.Read(buf); err != nil {
		t.Fatalf("Read = %q, %v", buf[:n], err)
	}
	g.Limit(10)
	if n, err := g.Read(buf); err != nil || string(buf[:n]) != "*2\r\n$4\r\nECHO\r\n$6\r\nlonger\r\n" {
		t.Errorf("Read behind a higher limit = %q, %v", buf[:n], err)
	}
}
