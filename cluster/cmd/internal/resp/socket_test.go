package resp

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// connected returns both ends of a connection of TCP, the first as a Listener has it.
func connected(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody needs it then
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ours.Close() // a test may have closed them
		_ = theirs.Close()
	})
	return direct(ours), theirs
}

// All bytes come in their order, in both directions, also more than the buffers of the system have, and then the end.
func TestSocket_AllBytesAndTheEnd(t *testing.T) {
	ours, theirs := connected(t)
	sent := bytes.Repeat([]byte("0123456789abcdef\n"), 1<<20)
	for _, way := range []struct{ from, to net.Conn }{{ours, theirs}, {theirs, ours}} {
		wrote := make(chan error, 1)
		go func() {
			n, err := way.from.Write(sent)
			if err == nil && n != len(sent) {
				t.Errorf("Write says %d of %d bytes", n, len(sent))
			}
			wrote <- err
		}()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(way.to, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("other bytes came, %v", err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
	mustEnd := theirs.(*net.TCPConn).CloseWrite()
	if n, err := ours.Read(make([]byte, 10)); mustEnd != nil || n != 0 || err != io.EOF {
		t.Errorf("at the end Read returns %d, %v", n, err)
	}
	if n, err := ours.Read(nil); n != 0 || err != nil {
		t.Errorf("Read of nothing returns %d, %v", n, err)
	}
	if n, err := ours.Write([]byte("still")); n != 5 || err != nil {
		t.Errorf("to a client that only reads: %d, %v", n, err)
	}
}

// At its deadline a call that waits returns the error of a timeout, and the number of bytes that were written until then.
func TestSocket_Deadlines(t *testing.T) {
	ours, _ := connected(t)
	_ = ours.SetDeadline(time.Now().Add(20 * time.Millisecond)) // it is open
	if n, err := ours.Read(make([]byte, 10)); n != 0 || !isTimeout(err) {
		t.Errorf("Read returns %d, %v", n, err)
	}
	// On a busy machine a deadline may pass before the call begins.
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		_ = ours.SetDeadline(time.Now().Add(wait)) // likewise
		n, err := ours.Write(make([]byte, 64<<20))
		if n > 0 && n < 64<<20 && isTimeout(err) {
			break
		}
		if n != 0 || !isTimeout(err) || wait > 10*time.Second {
			t.Fatalf("Write to a client that reads nothing returns %d, %v", n, err)
		}
	}
}

// A connection that the client has reset, or that was closed here, is an error, and no end.
func TestSocket_Errors(t *testing.T) {
	ours, theirs := connected(t)
	if err := theirs.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // which resets it
	if n, err := ours.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("after a reset Read returns %d, %v", n, err)
	}
	if _, err := ours.Write([]byte("x")); err == nil {
		t.Error("a write after a reset is no error")
	}
	_ = ours.Close()
	if n, err := ours.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("after Close Read returns %d, %v", n, err)
	}
	if _, err := ours.Write([]byte("x")); err == nil {
		t.Error("a write after Close is no error")
	}
}

// Neither a read nor a write allocates.
func TestSocket_AllocatesNothing(t *testing.T) {
	ours, theirs := connected(t)
	buf, ping, pong := make([]byte, 16), []byte("PING\r\n"), []byte("+PONG\r\n")
	n := testing.AllocsPerRun(100, func() {
		if _, err := theirs.Write(ping); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(pong); err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.Read(buf); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
