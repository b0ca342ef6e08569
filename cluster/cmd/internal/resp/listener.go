package resp

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are what a client may ask of the server before any command is looked at.
type Limits struct {
	Command int64 // bytes of all arguments of a command
	Clients int   // connections at a time
}

// Connections that may be given up for others, when there are too many.
const (
	// strangerTime is how long a client may take for the handshake of TLS and for its password.
	strangerTime = 10 * time.Second
	// idleTime is how long a connection must have been idle.
	idleTime = time.Minute
)

// A Listener gives each connection a Guard, and ends all of them in an orderly way. When there are too many, it gives
// up the oldest one that has not said its password, or the one that is idle for longest, if that is long. If there is
// none it refuses the new one. So whoever only keeps connections open locks nobody out. The server of redcon closes
// connections in the midst of a command when its listener ends, so Accept returns its error only when none is left.
type Listener struct {
	net.Listener
	limits   Limits
	refusing chan struct{} // has one for each connection that is being refused

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	stopping bool
	none     chan struct{} // closed when stopping and no connection is left
}

// NewListener returns a Listener for the connections of inner.
func NewListener(inner net.Listener, l Limits) *Listener {
	return &Listener{
		Listener: inner, limits: l, refusing: make(chan struct{}, mostRefusing), conns: make(map[*Conn]struct{}), none: make(chan struct{}),
	}
}

// Accept returns the next connection. An error is final.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			l.mu.Lock()
			stopping := l.stopping
			l.mu.Unlock()
			if stopping {
				<-l.none
			}
			return nil, err
		case err != nil:
			time.Sleep(50 * time.Millisecond) // too many open files, most likely
		default:
			if g := l.admit(conn); g != nil {
				return g, nil
			}
		}
	}
}

// admit returns the guarded connection, or nil if there are too many.
func (l *Listener) admit(conn net.Conn) *Conn {
	l.mu.Lock()
	full := !l.stopping && len(l.conns) >= l.limits.Clients && !l.giveUpLocked()
	refused := full || l.stopping
	g := &Conn{Conn: conn, guard: Guard{Most: l.limits.Command}, l: l}
	g.used.Store(time.Now().UnixNano())
	if !refused {
		l.conns[g] = struct{}{}
	}
	l.mu.Unlock()
	if !refused {
		return g
	}
	select {
	case l.refusing <- struct{}{}:
		// It may take a second to tell the client, with TLS for the handshake. Others need not wait meanwhile.
		go func() {
			if full {
				refuse(conn, "ERR max number of clients reached")
			}
			_ = conn.Close() // it was told why, or the server ends
			<-l.refusing
		}()
	default:
		_ = conn.Close() // there are too many to tell each of them why
	}
	return nil
}

// giveUpLocked closes a connection in favour of another, and reports whether there was one. Requires: mu.
func (l *Listener) giveUpLocked() bool {
	var worst *Conn
	idle := time.Now().Add(-idleTime).UnixNano()
	for g := range l.conns {
		stranger := g.stranger.Load()
		if !stranger && g.used.Load() > idle {
			continue
		}
		if worst == nil || stranger && !worst.stranger.Load() || stranger == worst.stranger.Load() && g.used.Load() < worst.used.Load() {
			worst = g
		}
	}
	if worst == nil {
		return false
	}
	delete(l.conns, worst)
	// With TLS, closing waits for a client that reads nothing.
	go func() { _ = worst.Conn.Close() }() // its goroutine sees the error
	return true
}

// mostRefusing is how many connections are told at a time that there are too many.
const mostRefusing = 64

// Stop ends the listener and lets each connection answer the commands that it has read.
// Those that take longer than grace are closed.
func (l *Listener) Stop(grace time.Duration) {
	l.mu.Lock()
	l.stopping = true
	for g := range l.conns {
		_ = g.SetReadDeadline(time.Unix(1, 0)) // wakes a Read that waits; it fails on a closed connection only
	}
	if len(l.conns) == 0 {
		close(l.none)
	}
	l.mu.Unlock()
	_ = l.Listener.Close() // only a second close fails
	select {
	case <-l.none:
	case <-time.After(grace):
		l.mu.Lock()
		for g := range l.conns {
			_ = g.Conn.Close() // its goroutine sees the error
		}
		l.mu.Unlock()
		<-l.none
	}
}

func (l *Listener) isStopping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping
}

// A Conn is a connection whose bytes a Guard has seen before the parser does.
type Conn struct {
	net.Conn
	guard Guard
	rest  []byte // what came after the last whole command; the guard has seen it
	bad   error  // what the guard has found; the next Read reports it
	l     *Listener
	once  sync.Once

	used     atomic.Int64 // when bytes came last, in nanoseconds since 1970; of a stranger, when it came
	stranger atomic.Bool  // it has not said its password
}

// Limit sets how many bytes the arguments of a command may have from the next one up, and whether the client still
// has to say its password, for which it has some seconds. It is called where the connection is read.
func (c *Conn) Limit(command int64, stranger bool) {
	c.guard.Most = command
	if was := c.stranger.Swap(stranger); was != stranger && !c.l.isStopping() {
		until := time.Time{}
		if stranger {
			until = time.Now().Add(strangerTime)
		}
		_ = c.SetDeadline(until) // it fails on a closed connection only
	}
}

// Read reads bytes that keep to the protocol and its limits. Where they stop doing so, the
// client is told, and the connection ends.
//
// It returns whole commands. What follows the last one is kept for the next Read. Only if p is
// full with the beginning of a command, it returns that. There are two reasons. redcon looks
// at an incomplete command from its beginning again after each Read. And its buffer grows until
// it ends in a whole command, which that of a long pipeline may never do.
func (g *Conn) Read(p []byte) (int, error) {
	if g.bad != nil {
		return 0, g.end(g.bad)
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	for n < len(p) {
		if g.l.isStopping() {
			return 0, io.EOF // n bytes are no command
		}
		k, err := g.Conn.Read(p[n:])
		if !g.stranger.Load() {
			g.used.Store(time.Now().UnixNano())
		}
		good, end, bad := g.guard.Check(p[n : n+k])
		switch {
		case bad != nil && n+good == 0:
			return 0, g.end(bad)
		case bad != nil:
			g.bad = bad
			return n + good, nil
		case end > 0:
			g.rest = append(g.rest[:0], p[n+end:n+k]...)
			return n + end, nil
		case err != nil:
			if g.l.isStopping() {
				err = io.EOF
			}
			return 0, err
		}
		n += k
	}
	return n, nil
}

// lingerTime is how long a client that has broken the protocol may take to read why.
const lingerTime = 5 * time.Second

// end tells the client why the connection ends, and returns why. A connection that is closed with unread bytes is reset, and
// the reset overtakes what was told; so the rest of what the client sends is read and forgotten.
func (g *Conn) end(why error) error {
	refuse(g.Conn, why.Error())
	_ = g.Conn.SetDeadline(time.Now().Add(lingerTime)) // it fails on a closed connection only
	if c, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the client sees the end, and ends too
	}
	_, _ = io.Copy(io.Discard, g.Conn) // until the client ends, or the time is over
	return why
}

// Write leaves out the empty writes of redcon, which flushes after each pipeline even if there
// is nothing left. Each would be a call of the system.
func (g *Conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return g.Conn.Write(p)
}

// Close closes the connection once.
func (g *Conn) Close() (err error) {
	g.once.Do(func() {
		err = g.Conn.Close()
		l := g.l
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, there := l.conns[g]; !there {
			return // it has given way to another
		}
		delete(l.conns, g)
		if l.stopping && len(l.conns) == 0 {
			close(l.none)
		}
	})
	return err
}

// refuse writes an error reply to a connection that will be closed.
func refuse(conn net.Conn, why string) {
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // a client that does not read
	_, _ = io.WriteString(conn, "-"+why+"\r\n")       // it may be gone already
}
