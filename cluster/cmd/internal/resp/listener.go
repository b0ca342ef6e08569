package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are what a client may ask of the server before any command is looked at.
type Limits struct {
	Command int64 // bytes of all arguments of a command
	Clients int   // connections at a time
	Buffers *Budget
}

// Connections that may be given up for others, when there are too many.
const (
	// idleTime is how long a connection must have been idle.
	idleTime = time.Minute
	// mostRefusing limits the connections that are being refused at the same time. Others are closed without a word.
	mostRefusing = 64
)

// A Listener admits connections, and ends all of them in an orderly way. When there are too many, it gives up the oldest one
// that has not said its password, or the one that is idle for longest, if that is long. If there is none it refuses the new
// one. So whoever only keeps connections open locks nobody out.
type Listener struct {
	inner    net.Listener
	limits   Limits
	refusing chan struct{} // has one for each connection that is being refused
	stopping atomic.Bool

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// NewListener returns a Listener for the connections of inner.
func NewListener(inner net.Listener, l Limits) *Listener {
	return &Listener{inner: inner, limits: l, refusing: make(chan struct{}, mostRefusing), conns: make(map[*Conn]struct{})}
}

// Serve calls serve for each connection, on a goroutine of its own, and closes the connection afterwards. It returns when no
// more can come and all have ended.
func (l *Listener) Serve(serve func(*Conn)) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := l.inner.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			time.Sleep(50 * time.Millisecond) // too many open files, most likely
		default:
			if c := l.admit(direct(conn)); c != nil {
				running.Go(func() {
					if t, ok := conn.(*tls.Conn); !ok || t.Handshake() == nil {
						serve(c)
					}
					_ = c.Close() // the client has all that it can get
				})
			}
		}
	}
}

// admit returns the connection of a client, or nil if there are too many.
func (l *Listener) admit(conn net.Conn) *Conn {
	l.mu.Lock()
	stopping := l.stopping.Load()
	full := !stopping && len(l.conns) >= l.limits.Clients && !l.giveUpLocked()
	c := &Conn{Conn: conn, r: reader{most: l.limits.Command}, l: l}
	c.used.Store(time.Now().UnixNano())
	c.stranger.Store(true) // until Limit says something else
	if !full && !stopping {
		l.conns[c] = struct{}{}
		_ = c.SetDeadline(time.Now().Add(strangerTime)) // it fails on a closed connection only
	}
	l.mu.Unlock()
	if !full && !stopping {
		return c
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

// Stop ends the listener and lets each connection answer the commands that it has read. Those that take longer than grace are
// closed.
func (l *Listener) Stop(grace time.Duration) {
	l.mu.Lock()
	l.stopping.Store(true)
	for c := range l.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes a Read that waits; it fails on a closed connection only
	}
	l.mu.Unlock()
	_ = l.inner.Close() // only a second close fails
	time.AfterFunc(grace, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.conns {
			_ = c.Conn.Close() // its goroutine sees the error
		}
	})
}
