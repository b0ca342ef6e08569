package resp

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Limits are what a client may ask of the server before any command is looked at.
type Limits struct {
	Command int64 // bytes of all arguments of a command
	Clients int   // connections at a time
}

// A Listener gives each connection a Guard, refuses those above the limit, and ends all of
// them in an orderly way. The server of redcon closes connections in the midst of
// a command when its listener ends, so Accept returns its error only when none is left.
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
	full := len(l.conns) >= l.limits.Clients
	refused := full || l.stopping
	g := &Conn{Conn: conn, guard: Guard{Most: l.limits.Command}, l: l}
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
}

// Limit sets how many bytes the arguments of a command may have from the next one up. It is called
// where the connection is read.
func (c *Conn) Limit(command int64) { c.guard.Most = command }

// Read reads bytes that keep to the protocol and its limits. Where they stop doing so, the
// client is told, and the connection ends.
//
// It returns whole commands. What follows the last one is kept for the next Read. Only if p is
// full with the beginning of a command, it returns that. There are two reasons. redcon looks
// at an incomplete command from its beginning again after each Read. And its buffer grows until
// it ends in a whole command, which that of a long pipeline may never do.
func (g *Conn) Read(p []byte) (int, error) {
	if g.bad != nil {
		refuse(g.Conn, g.bad.Error())
		return 0, g.bad
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	for n < len(p) {
		if g.l.isStopping() {
			return 0, io.EOF // n bytes are no command
		}
		k, err := g.Conn.Read(p[n:])
		good, end, bad := g.guard.Check(p[n : n+k])
		switch {
		case bad != nil && n+good == 0:
			refuse(g.Conn, bad.Error())
			return 0, bad
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
