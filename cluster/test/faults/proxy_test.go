//go:build unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A link is one direction between two members.
type link struct{ from, to string }

// A proxyNet passes the members' connections on. Bytes that meet a blocked link wait, as packets
// do that are sent again until they arrive. When the link is open again, they go on, late, or
// the connection is reset.
type proxyNet struct {
	listener net.Listener
	passed   atomic.Int64
	wg       sync.WaitGroup

	mu      sync.Mutex
	r       *rand.Rand
	ids     map[string]string // by address
	blocked map[link]bool
	changed chan struct{} // closed at the next change of blocked
	conns   map[net.Conn]struct{}
	closed  bool
}

func newProxyNet(seed uint64) (*proxyNet, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxyNet{
		listener: l, r: rand.New(rand.NewPCG(seed, 77)), ids: map[string]string{}, blocked: map[link]bool{},
		changed: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	p.wg.Go(p.accept)
	return p, nil
}

// join finds a free port for a member to listen at.
func (p *proxyNet) join(id string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[address] = id
	return address, nil
}

// proxy returns the address through which members dial each other.
func (p *proxyNet) proxy() string { return p.listener.Addr().String() }

// block stops what one member sends to another, or lets it pass again.
func (p *proxyNet) block(l link, stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stop {
		p.blocked[l] = true
		return
	}
	delete(p.blocked, l)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *proxyNet) close() error {
	p.mu.Lock()
	p.closed = true
	clear(p.blocked)
	close(p.changed)
	p.changed = make(chan struct{})
	for c := range p.conns {
		_ = c.Close() // whoever waits at it gets the error
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.wg.Wait()
	return err
}

// track notes a connection, so that close can end it.
func (p *proxyNet) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close() // nobody waits for it
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxyNet) forget(c net.Conn) {
	_ = c.Close() // it has ended
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// wait waits until a link is open. reset says that it was not, and that what waited is lost.
func (p *proxyNet) wait(l link) (reset bool) {
	for waited := false; ; waited = true {
		p.mu.Lock()
		blocked, changed := p.blocked[l], p.changed
		reset = p.closed || waited && p.r.IntN(2) == 0
		p.mu.Unlock()
		if !blocked {
			return reset
		}
		<-changed
	}
}

func (p *proxyNet) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// dialProxy opens a connection of one member to an address through the proxy.
func dialProxy(ctx context.Context, proxy, from, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "%s %s\n", from, address); err != nil {
		_ = c.Close() // it is of no use
		return nil, err
	}
	return c, nil
}

// serve passes a connection on.
func (p *proxyNet) serve(c net.Conn) {
	if !p.track(c) {
		return
	}
	defer p.forget(c)
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	from, address, _ := strings.Cut(strings.TrimSpace(line), " ")
	p.mu.Lock()
	to := p.ids[address]
	p.mu.Unlock()
	if p.wait(link{from, to}) {
		return
	}
	d, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil || !p.track(d) {
		return
	}
	defer p.forget(d)
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.copy(c, d, link{to, from})
	}()
	p.copy(d, in, link{from, to})
	// One direction has ended, so both do.
	_, _ = d.Close(), c.Close()
	<-back
}

// copy passes bytes on until one side ends.
func (p *proxyNet) copy(dst net.Conn, src io.Reader, l link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if p.wait(l) {
			break
		}
		if n > 0 {
			p.passed.Add(int64(n))
			if _, err := dst.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = dst.Close() // so that the other side sees the end
}

// An echo answers each line with the same line.
func echo(t *testing.T, address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, struct{ io.Reader }{c}) // without pipes, which Go would keep
				c.Close()
			}()
		}
	}()
}

// A blocked direction holds bytes back, and only that one; afterwards they arrive or the connection ends.
func TestProxy_OneWay(t *testing.T) {
	testenv.CheckLeaks(t)
	p, err := newProxyNet(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	address, err := p.join("b")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, address)
	late, resets := 0, 0
	for i := range 20 {
		blocked := link{"a", "b"}
		if i%2 == 0 {
			blocked = link{"b", "a"}
		}
		c, err := dialProxy(context.Background(), p.proxy(), "a", address)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		say := func(text string) {
			if _, err := io.WriteString(c, text+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		say("one")
		if line, err := in.ReadString('\n'); line != "one\n" {
			t.Fatalf("%q, %v", line, err)
		}
		before := p.passed.Load()
		p.block(blocked, true)
		say("two")
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if line, err := in.ReadString('\n'); err == nil {
			t.Fatalf("%v is blocked, but %q arrived", blocked, line)
		}
		want := int64(0) // bytes that pass meanwhile
		if blocked.from == "b" {
			want = 4
		}
		testenv.WaitFor(t, "the open direction", func() bool { return p.passed.Load()-before == want })
		p.block(blocked, false)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		switch line, err := in.ReadString('\n'); {
		case line == "two\n":
			late++
		case err == io.EOF || strings.Contains(fmt.Sprint(err), "reset"):
			resets++
		default:
			t.Fatalf("%q, %v", line, err)
		}
		c.Close()
	}
	if late == 0 || resets == 0 {
		t.Errorf("%d lines came late, %d connections were reset: want some of both", late, resets)
	}
}
