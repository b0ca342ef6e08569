package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

// A leader that gets a write which is no command, such as one of a newer program, refuses it. In the log it would
// end every member, for good.
func TestForward_NoCommand(t *testing.T) {
	g := newGroup(t, 2, nil)
	l, f := g.leader(), g.follower()
	for name, payload := range map[string][]byte{
		"nothing": {}, "a newer kind": {kindDelete + 1, 1, 1, 1, 1, 'k', 1, 'v'}, "half a batch": {kindWrite, 1, 1, 1, 9, 'k'},
		"too much": make([]byte, maxCommandSize+2),
	} {
		err := f.caller.call(short(t), l.Address(), l.server, opWrite, payload, new(writeAnswer))
		if err == nil || !strings.Contains(err.Error(), "forwarded") || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.write("k", "v")
	g.agree()
}

// The largest write that a member takes is one that it can forward.
func TestForward_Largest(t *testing.T) {
	b := new(shale.Batch)
	if err := b.Put([]byte("k"), make([]byte, maxCommandSize-32)); err != nil {
		t.Fatal(err)
	}
	for i := 0; b.Size() < maxCommandSize; i++ {
		if err := b.Put([]byte("k"), make([]byte, max(0, maxCommandSize-b.Size()-4))); err != nil {
			t.Fatal(err)
		}
	}
	if b.Size() > maxCommandSize {
		t.Skipf("no batch of exactly %d bytes", maxCommandSize)
	}
	if cmd, err := encodeWrite(b); err != nil || len(cmd) > maxForwarded {
		t.Errorf("a command of %d bytes, %v", len(cmd), err)
	}
}

// A member that was started again gets the writes of others, although their connections to it have
// ended: a write that was certainly not sent must not be reported as unknown. The ended ones are closed.
func TestForward_LeaderCameBack(t *testing.T) {
	var open atomic.Int64
	g := newGroup(t, 3, func(o *Options) {
		o.Forward = true
		d := new(net.Dialer)
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &countedConn{Conn: c, open: &open}, nil
		}
	})
	l, f := g.leader(), g.follower()
	var wg sync.WaitGroup
	for i := range maxIdle {
		wg.Go(func() {
			if err := f.Put(short(t), fmt.Append(nil, i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.caller.mu.Lock()
	kept := len(f.caller.idle[callee{l.Address(), l.server}])
	f.caller.mu.Unlock()
	if kept < 2 {
		t.Skipf("%d connections were used at the same time", kept)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g.eventually("the ended connections are closed", func() error {
		f.caller.mu.Lock()
		defer f.caller.mu.Unlock()
		if n := len(f.caller.idle[callee{l.Address(), l.server}]); n > 0 {
			return fmt.Errorf("%d are kept", n)
		}
		return nil
	})
	g.open(l)
	g.eventually("the old leader leads again", func() error {
		if now := g.leader(); now != l {
			_ = now.TransferLeadership(short(t), l.opts.ID)
			return errors.New("not yet")
		}
		if m, ok := f.Leader(); !ok || m.ID != l.opts.ID {
			return errors.New("the other does not know yet")
		}
		return nil
	})
	for i := range maxIdle {
		err := f.Put(short(t), fmt.Append(nil, i), nil)
		for errors.Is(err, ErrNotLeader) && t.Context().Err() == nil { // a busy machine elects again
			time.Sleep(10 * time.Millisecond)
			err = f.Put(short(t), fmt.Append(nil, i), nil)
		}
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	g.close()
	for _, m := range g.members {
		m.Node = nil
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections are open after all members were closed", n)
	}
}

// A countedConn counts the connections that are open.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
