package resp

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Times that a client may keep the server waiting for.
const (
	strangerTime = 10 * time.Second // for the handshake of TLS, and for the password
	commandTime  = 30 * time.Second // for a command that has begun, and a second more for each perSecond bytes of it
	replyTime    = 30 * time.Second // for reading sendStep bytes of replies
	lingerTime   = 5 * time.Second  // for reading why the connection ends
	perSecond    = 256 << 10
	sendStep     = 64 << 10
)

// What a connection keeps: smallest is the size of the buffer with which it begins, mostWords how many words it has room for.
const (
	smallest  = 16 << 10
	mostWords = 4096
)

// A Conn is the connection of a client. One goroutine uses it, but for Close.
type Conn struct {
	net.Conn
	r        reader
	mem      []byte // what r.buf is a part of
	taken    int64  // from the budget, for mem and for words
	commands []Command
	begun    time.Time // when the client has begun the command that is not whole; zero: there is none
	hurried  bool      // the rest of a command has to come within a time
	hastened time.Time // when the deadline for reading replies was set; zero: there is none
	bad      error     // what was found behind the last commands; the next call says it
	l        *Listener

	used     atomic.Int64 // when bytes came last, in nanoseconds since 1970; of a stranger, when it came
	stranger atomic.Bool  // it has not said its password
}

// Limit sets how many bytes the words of a command may have from the next ones up, and whether the client still has to say
// its password, for which it has some seconds. Before the first call it has. It is called where the connection is read.
func (c *Conn) Limit(command int64, stranger bool) {
	c.r.most, c.r.stranger = command, stranger
	if was := c.stranger.Swap(stranger); was != stranger && !c.l.stopping.Load() {
		until := time.Time{}
		if stranger {
			until = time.Now().Add(strangerTime)
		}
		c.hastened = time.Time{}
		_ = c.SetDeadline(until) // it fails on a closed connection only
	}
}

// Commands returns all whole commands that have come, and waits for one if there is none. They are valid until the next call.
// If the client breaks the protocol or a limit, Commands tells it so, and returns an error now and in all later calls.
func (c *Conn) Commands() ([]Command, error) {
	clear(c.r.words)
	if cap(c.r.words) > mostWords && c.r.left == 0 {
		c.r.words, c.r.ends = nil, nil
	}
	c.commands, c.r.words = c.commands[:0], c.r.words[:0]
	for {
		for c.bad == nil {
			one, ok, err := c.r.next()
			if c.bad = err; !ok {
				break
			}
			if c.r.buf, c.r.at = c.r.buf[c.r.at:], 0; len(one.Args) > 0 {
				c.commands = append(c.commands, one)
				if c.r.stranger {
					break // it may be the password, behind which more is allowed
				}
			}
		}
		switch {
		case len(c.commands) > 0:
			c.begun = time.Time{}
			return c.commands, nil
		case c.bad == nil:
			c.bad = c.fill()
		}
		if why, ok := c.bad.(protocolError); ok {
			c.tell(why)
		}
		if c.bad != nil {
			return nil, c.bad
		}
	}
}

// fill reads some of what comes. Requires: there is no whole command.
func (c *Conn) fill() error {
	if !c.room() {
		return errMemory
	}
	half := len(c.r.buf) > 0
	if half && c.begun.IsZero() {
		c.begun = time.Now()
	}
	if (half || c.hurried) && !c.stranger.Load() {
		until := time.Time{}
		if half {
			until = c.begun.Add(commandTime + time.Duration(len(c.r.buf)/perSecond)*time.Second)
		}
		_ = c.SetReadDeadline(until) // it fails on a closed connection only
		c.hurried = half
	}
	if c.l.stopping.Load() { // which is set before the deadline that ends a Read
		return io.EOF // what there is, is no command
	}
	n, err := c.Conn.Read(c.mem[len(c.r.buf):])
	c.r.buf = c.mem[:len(c.r.buf)+n]
	if !c.stranger.Load() {
		c.used.Store(time.Now().UnixNano())
	}
	switch {
	case n > 0:
		return nil // an error comes again
	case c.l.stopping.Load():
		return io.EOF
	case isTimeout(err) && half && !c.stranger.Load():
		return errSlow
	}
	return err
}

// room sees to it that there is room behind what has come, which it moves to the beginning of the buffer. It returns false if
// the budget has too little.
func (c *Conn) room() bool {
	have, size := len(c.r.buf), len(c.mem)
	switch {
	case have == size: // as at first
		if size = max(smallest, 2*size); size > freeBytes && c.r.left > 0 && c.r.size >= 0 {
			size = min(size, c.r.at+c.r.size+smallest) // no more than the word needs
		}
	case have <= smallest && size > freeBytes:
		size = smallest // the large command is over
	}
	more := max(0, int64(size+endBytes*cap(c.r.ends)-freeBytes)) - c.taken
	if !c.l.limits.Buffers.Take(more) {
		return false
	}
	c.taken += more
	if size != len(c.mem) {
		c.mem = append(make([]byte, 0, size), c.r.buf...)[:size]
	} else if cap(c.r.buf) < cap(c.mem) { // it does not begin there
		copy(c.mem, c.r.buf)
	}
	c.r.buf = c.mem[:have]
	return true
}

// endBytes is what an end of a word costs: itself, and half of the slice that the word will be.
const endBytes = 8 + 12

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// Write sends replies. It ends in an error if the client does not read them.
func (c *Conn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if now := time.Now(); !c.stranger.Load() && now.Sub(c.hastened) > time.Second { // not for each reply: that takes time
			c.hastened = now
			_ = c.SetWriteDeadline(now.Add(replyTime)) // it fails on a closed connection only
		}
		var k int
		k, err = c.Conn.Write(p[n:min(len(p), n+sendStep)])
		n += k
	}
	return n, err
}

// TooMuch tells the client that there is no memory for its replies. The connection has to be closed then.
func (c *Conn) TooMuch() { c.tell(errMemory) }

// tell tells the client why the connection ends. A connection that is closed with unread bytes is reset, and the reset
// overtakes what was told; so the rest of what the client sends is read and forgotten.
func (c *Conn) tell(why error) {
	refuse(c.Conn, why.Error())
	_ = c.SetDeadline(time.Now().Add(lingerTime)) // it fails on a closed connection only
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the client sees the end, and ends too
	}
	_, _ = io.Copy(io.Discard, c.Conn) // until the client ends, or the time is over
}

// Close closes the connection, where it is read.
func (c *Conn) Close() error {
	c.l.limits.Buffers.Give(c.taken)
	c.taken = 0
	c.l.mu.Lock()
	delete(c.l.conns, c) // where it is not if it has given way to another
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// refuse writes an error reply to a connection that will be closed.
func refuse(conn net.Conn, why string) {
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // a client that does not read
	_, _ = io.WriteString(conn, "-"+why+"\r\n")       // it may be gone already
}
