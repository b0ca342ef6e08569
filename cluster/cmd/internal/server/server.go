package server

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// A Config says how a Server answers. All functions but Leads, Others and Members are needed, and the Store.
type Config struct {
	Store Store

	// Explain returns an error of the Store in the words of Redis: a code in capitals, then a sentence.
	Explain func(error) string

	// Again reports whether an error of a write says that nothing has happened, and that the same call is
	// likely to succeed soon, as after the election of another leader.
	Again func(error) bool

	Local   bool          // reads are answered by Store.Local, which may be behind
	Timeout time.Duration // of a command's work in the store; 0: 5 s

	Password     string // of the only user, default; "": clients need none
	ReadPassword string // for commands that read, if there is a Password; "": none
	MaxCommand   int64  // bytes of a command with its arguments; 0: 32 MiB
	MaxReply     int    // bytes of the reply to an MGET; 0: 64 MiB
	MaxClients   int    // connections at a time; 0: 1000
	MaxBuffers   int64  // bytes of commands and replies of all connections, beyond 128 KiB that each has free; 0: 256 MiB

	// Info returns further sections for INFO. It need not return those that nobody wants.
	Info func(wanted func(section string) bool) []Section

	// Unknown reports whether an error of a write says that nobody knows whether it has happened.
	Unknown func(error) bool

	// Leads reports whether this member leads its group: to clients it is the master then, and it removes what deleted filters
	// have left. nil: there is no group.
	Leads func() bool

	Fsync string // what CONFIG GET appendfsync shows; "": always

	// Others returns how many other members have each write that was answered; nil: there is no group.
	Others func() int

	// Members returns the members that answer, and this one, for CLUSTER and ROLE; nil: there is no group.
	Members func(ctx context.Context) []Member
}

// A Server serves the connections of clients. Each has a goroutine.
type Server struct {
	// Constant after New, but for the password.
	config   Config
	password atomic.Pointer[Password] // nil: clients need none
	// readPassword is for commands that read; nil: there is none.
	readPassword atomic.Pointer[Password]
	wrong        sync.Mutex // held while a wrong password is answered: one at a time is, of all clients
	started      time.Time

	prepared atomic.Bool // the store has the layout of this server

	ctx  context.Context // done when commands under way must end
	stop context.CancelFunc
	span atomic.Pointer[span] // for commands that begin now

	// Safe for use by all connections at once.
	budget *resp.Budget
	lanes  lanes
	lastID atomic.Int64 // of a connection
	counts counts

	clientsMu sync.Mutex
	clients   map[int64]*client // by id
}

// New returns a server that serves nothing yet.
func New(c Config) *Server {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.MaxCommand = cmp.Or(c.MaxCommand, 32<<20)
	c.MaxReply = cmp.Or(c.MaxReply, 64<<20)
	c.MaxClients = cmp.Or(c.MaxClients, 1000)
	c.MaxBuffers = cmp.Or(c.MaxBuffers, 256<<20)
	c.Fsync = cmp.Or(c.Fsync, "always")
	s := &Server{config: c, started: time.Now(), budget: resp.NewBudget(c.MaxBuffers), counts: newCounts(), clients: make(map[int64]*client), lanes: lanes{seed: maphash.MakeSeed()}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.SetPasswords(c.Password, c.ReadPassword)
	return s
}

// SetPasswords sets the password that later clients have to say, and the one with which they can only read; "": none.
func (s *Server) SetPasswords(all, read string) {
	s.password.Store(NewPassword(all))
	s.readPassword.Store(NewPassword(read))
}

// Serve serves the connections of inner until ctx is done. Commands that have begun are then answered; those that
// take longer than grace end with an error. It closes inner.
//
// The listener stops first, so no connection and no command begins after that. Those that have begun
// may go on until grace is over: then their contexts end.
func (s *Server) Serve(ctx context.Context, inner net.Listener, grace time.Duration) error {
	l := resp.NewListener(inner, resp.Limits{Command: s.config.MaxCommand, Clients: s.config.MaxClients, Buffers: s.budget})
	sweeping, endSweep := context.WithCancel(s.ctx)
	var background sync.WaitGroup
	background.Go(func() { s.sweepAlways(sweeping) })
	defer background.Wait()
	defer endSweep()
	served := make(chan error, 1)
	go func() { served <- l.Serve(s.serve) }()
	defer s.stop()
	select {
	case err := <-served:
		return errors.Join(errors.New("the listener for clients ended by itself"), err)
	case <-ctx.Done():
		late := time.AfterFunc(grace, s.stop)
		defer late.Stop()
		l.Stop(grace)
		<-served
		return nil
	}
}

// A client is a connection. One goroutine uses it.
type client struct {
	resp.Replies
	s     *Server
	conn  *resp.Conn // nil in tests of commands alone
	id    int64
	known bool // the client has given the password, or needs none
	reads bool // it was the password for reading
	quit  bool // the connection ends after its replies
	shown shown
	multi multi
	wrote bool // replies in Out depend on a write, its own or one that it has seen

	// Kept so that commands do not allocate: the calls of the run under way, a key of the store, a value to write, and one that was read.
	calls           []call
	key, value, old []byte
	batch           shale.Batch
}

// newClient returns the state of a new connection.
func (s *Server) newClient() *client {
	c := &client{s: s, id: s.lastID.Add(1), known: s.password.Load() == nil}
	c.Errors, c.Budget = &s.counts.errors, s.budget
	c.shown.began = time.Now()
	c.shown.used.Store(c.shown.began.UnixNano())
	c.shown.queued.Store(-1)
	return c
}

// strangersLimit is how many bytes a command may have before the client has given the password.
const strangersLimit = 16 << 10

// sendAt is the size of waiting replies from which up they are sent in the midst of a pipeline.
const sendAt = 256 << 10

// serve does the commands of a connection until it ends.
//
// Those that have come together are a pipeline. Replies are collected in c.Out, and sent when it is done or much has come
// together. So a pipeline of small commands costs one write to the socket.
func (s *Server) serve(conn *resp.Conn) {
	c := s.newClient()
	c.conn = conn
	if c.known {
		c.limit(s.config.MaxCommand, false)
	} else {
		c.limit(min(strangersLimit, s.config.MaxCommand), true)
	}
	s.counts.accepted.Add(1)
	s.counts.clients.Add(1)
	defer s.counts.clients.Add(-1)
	defer s.register(c)()
	defer c.end()
	for !c.quit {
		pipeline, err := conn.Commands()
		if err != nil {
			return
		}
		for len(pipeline) > 0 && !c.quit {
			pipeline = pipeline[c.run(pipeline):]
			if (len(c.Out) >= sendAt || len(pipeline) == 0 || c.quit) && !c.send() {
				return
			}
		}
	}
}

// limit sets how large the next commands may be, and whether the client still has to say its password.
func (c *client) limit(command int64, stranger bool) {
	if c.conn != nil {
		c.conn.Limit(command, stranger)
	}
}

// end gives back what the client has had.
func (c *client) end() {
	c.Reset()
	c.forget()
}

// send sends the replies. It returns false if the connection has ended, or has to.
//
// Replies that depend on a write wait until that is settled. If it can't be, they would say that all is well, so the
// connection ends without them. So it does if there was no memory for them.
func (c *client) send() bool {
	if c.Full {
		c.conn.TooMuch()
		return false
	}
	if c.wrote {
		if err := c.s.config.Store.Settle(); err != nil {
			return false
		}
		c.wrote = false
	}
	_, err := c.conn.Write(c.Out)
	c.Reset()
	return err == nil
}

// A span is the context of all commands that begin before a time. One for each command cost a twentieth of a GET.
type span struct {
	context.Context
	_     context.CancelFunc // not called: commands that began in time may still be under way, and it ends by itself
	until time.Time
}

// within returns the context of a command's work in the store: it has Config.Timeout, or up to an eighth less.
func (s *Server) within() context.Context {
	now := time.Now()
	if is := s.span.Load(); is != nil && now.Before(is.until) {
		return is.Context
	}
	ctx, end := context.WithTimeout(s.ctx, s.config.Timeout)
	s.span.Store(&span{ctx, end, now.Add(s.config.Timeout / 8)})
	return ctx
}

// Pauses before a write is tried again that has not happened: the first one, and the longest.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// write calls do until the store has taken the write, or has said that it never will, or the time is over. It never
// repeats a call that may have had an effect.
//
// Config.Again decides what is repeated. During an election a group refuses writes for some hundred milliseconds, which
// clients of Redis do not expect; here they only take longer.
func (s *Server) write(do func(ctx context.Context) error) error {
	ctx := s.within()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.Prepare(ctx)
		if err == nil {
			err = do(ctx)
		}
		if err == nil || !s.config.Again(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// read calls fn with what reads are answered from.
func (s *Server) read(fn func(shale.Reader) error) error {
	checked := func(r shale.Reader) error {
		if err := s.mayRead(r); err != nil {
			return err
		}
		return fn(r)
	}
	if s.config.Local {
		return checked(s.config.Store.Local())
	}
	return s.config.Store.Read(s.within(), checked)
}
