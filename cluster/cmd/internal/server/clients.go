package server

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// A shown is what CLIENT LIST shows of a connection. Other connections read it.
type shown struct {
	addr, local string // constant, like began
	began       time.Time

	name    atomic.Pointer[string] // nil: it has none
	library atomic.Pointer[string] // likewise
	last    atomic.Pointer[command]
	used    atomic.Int64 // when the last command came, in nanoseconds since 1970
	queued  atomic.Int64 // commands behind MULTI; -1: there is none
	resp3   atomic.Bool
}

// noteRun notes for CLIENT LIST that a run has begun with a command.
func (c *client) noteRun(t *command, begin time.Time) {
	c.shown.last.Store(t)
	c.shown.used.Store(begin.UnixNano())
	queued := int64(-1)
	if c.multi.open {
		queued = int64(len(c.multi.calls))
	}
	c.shown.queued.Store(queued)
	c.shown.resp3.Store(c.RESP3)
}

// line is a line of CLIENT LIST.
func (c *client) line() string {
	s, proto, last := &c.shown, 2, "NULL"
	if s.resp3.Load() {
		proto = 3
	}
	if t := s.last.Load(); t != nil {
		last = strings.ToLower(t.Name)
	}
	text := func(p *atomic.Pointer[string]) string {
		if t := p.Load(); t != nil {
			return *t
		}
		return ""
	}
	now := time.Now()
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d idle=%d flags=N db=0 sub=0 psub=0 multi=%d cmd=%s user=%s resp=%d lib-name=%s\n",
		c.id, s.addr, s.local, text(&s.name), int(now.Sub(s.began).Seconds()), int(now.Sub(time.Unix(0, s.used.Load())).Seconds()),
		s.queued.Load(), last, userName, proto, text(&s.library))
}

// register makes the connection one that CLIENT LIST shows. It returns what ends that.
func (s *Server) register(c *client) (end func()) {
	c.shown.addr, c.shown.local = c.conn.RemoteAddr().String(), c.conn.LocalAddr().String()
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	s.clients[c.id] = c
	return func() { s.forget(c) }
}

// forget makes the connection one that CLIENT LIST does not show.
func (s *Server) forget(c *client) {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	delete(s.clients, c.id)
}

// all returns the connections, the oldest first.
func (s *Server) all() []*client {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	var all []*client
	for _, c := range s.clients {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return int(a.id - b.id) })
	return all
}

// nameFits reports whether a connection can have a name. It returns false after it has replied that it can't.
func (c *client) nameFits(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			c.Error("ERR Client names cannot contain spaces, newlines or special characters.")
			return false
		}
	}
	return true
}

// setName gives the connection a name.
func (c *client) setName(name []byte) {
	text := string(name)
	c.shown.name.Store(&text)
}

// client is CLIENT, as far as clients use it when they connect, and people who look for the one that disturbs.
func (c *client) client(args [][]byte) {
	is := func(word string, n int) bool { return resp.Is(args[0], word) && len(args) == n }
	onOff := len(args) == 2 && (resp.Is(args[1], "ON") || resp.Is(args[1], "OFF"))
	switch {
	case is("ID", 1):
		c.Integer(c.id)
	case is("GETNAME", 1):
		if name := c.shown.name.Load(); name != nil && *name != "" {
			c.BulkString(*name)
		} else {
			c.Null()
		}
	case is("SETNAME", 2):
		if c.nameFits(args[1]) {
			c.setName(args[1])
			c.OK()
		}
	case is("SETINFO", 3) && (resp.Is(args[1], "LIB-NAME") || resp.Is(args[1], "LIB-VER")):
		if !c.nameFits(args[2]) {
			return
		}
		if text := string(args[2]); resp.Is(args[1], "LIB-NAME") {
			c.shown.library.Store(&text)
		}
		c.OK()
	case is("INFO", 1):
		c.BulkString(c.line())
	case is("LIST", 1):
		var text strings.Builder
		for _, one := range c.s.all() {
			text.WriteString(one.line())
		}
		c.BulkString(text.String())
	case resp.Is(args[0], "KILL") && len(args) > 1:
		c.kill(args[1:])
	case resp.Is(args[0], "NO-EVICT") && onOff, resp.Is(args[0], "NO-TOUCH") && onOff:
		c.OK() // nothing is evicted here, and no read is remembered
	default:
		c.Error("ERR unknown subcommand or wrong number of arguments for '" + printable(args[0]) + "'. There are CLIENT ID, INFO, LIST, KILL, GETNAME, SETNAME, SETINFO, NO-EVICT and NO-TOUCH")
	}
}

// kill is CLIENT KILL address, or CLIENT KILL with ID or ADDR.
func (c *client) kill(args [][]byte) {
	if c.reads {
		c.Error("NOPERM this password is for reading, and not for the connections of others")
		return
	}
	old := len(args) == 1
	if old {
		args = [][]byte{[]byte("ADDR"), args[0]}
	}
	if len(args) != 2 || !resp.Is(args[0], "ID") && !resp.Is(args[0], "ADDR") {
		c.SyntaxError()
		return
	}
	n := int64(0)
	for _, one := range c.s.all() {
		if is := one.shown.addr; resp.Is(args[0], "ID") && string(args[1]) != fmt.Sprint(one.id) || resp.Is(args[0], "ADDR") && string(args[1]) != is {
			continue
		}
		n++
		c.s.forget(one) // before it has ended
		if one == c {
			c.quit = true
		} else {
			go func() { _ = one.conn.Conn.Close() }() // with TLS it waits for a client that reads nothing
		}
	}
	switch {
	case !old:
		c.Integer(n)
	case n == 0:
		c.Error("ERR No such client")
	default:
		c.OK()
	}
}
