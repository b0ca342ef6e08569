package main

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
	"github.com/tidwall/redcon"
)

// A server has the store and the filters. Each connection has a goroutine of redcon, which
// calls handle.
type server struct {
	config  config
	db      *shale.DB
	logf    func(string, ...any)
	started time.Time

	stripes stripes
	filters filters
	scans   *resp.Scans

	background sync.WaitGroup // deletes what filters have left

	commands atomic.Int64 // commands done since the start
	clients  atomic.Int64 // connections now
	lastID   atomic.Int64 // of a connection
}

// openServer opens the store and reads the filters.
func openServer(c config, logf func(string, ...any)) (*server, error) {
	o := &shale.Options{
		FS:         c.fs,
		Durability: shale.SyncManual,
		Tuning:     shale.Tuning{FilterHash: shale.SipHash}, // clients choose the names
	}
	if c.sync == syncEverysec {
		o.Durability, o.SyncEvery = shale.SyncPeriodic, time.Second
	}
	db, err := shale.Open(c.dir, o)
	if err != nil {
		return nil, err
	}
	s := &server{config: c, db: db, logf: logf, started: time.Now(), scans: newScans(), stripes: stripes{seed: maphash.MakeSeed()}}
	if err := s.loadFilters(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close makes everything durable and closes the store. No command may run.
func (s *server) close() error {
	err := s.db.Close() // which ends what the background does
	s.background.Wait()
	return err
}

// A client is a connection. One goroutine uses it.
type client struct {
	resp.Session
	s    *server
	conn redcon.Conn // nil in tests of commands alone
	// wrote says that a reply in Out depends on a write that may not be on disk yet: its own,
	// or one that it has seen.
	wrote bool

	// What follows is kept between commands, so that lookups do not allocate.
	key, value []byte
	answers    []bool // of a filter
}

func (s *server) newClient() *client {
	c := &client{s: s}
	c.ID, c.Show = s.lastID.Add(1), clipped
	return c
}

func (s *server) accept(conn redcon.Conn) bool {
	c := s.newClient()
	c.conn = conn
	conn.SetContext(c)
	s.clients.Add(1)
	return true
}

func (s *server) closed(redcon.Conn, error) { s.clients.Add(-1) }

// sendAt is the size of waiting replies from which up they are sent in the midst of a pipeline,
// or of an MGET.
const sendAt = 256 << 10

// sendIfLarge sends what is waiting if that is much. It returns false if the connection
// has ended.
func (c *client) sendIfLarge() bool {
	return len(c.Out) < sendAt || c.conn == nil || c.send()
}

// handle does a command and all that came with it, and answers them together.
func (s *server) handle(conn redcon.Conn, first redcon.Command) {
	c := conn.Context().(*client)
	pipeline := append([]redcon.Command{first}, conn.ReadPipeline()...)
	for len(pipeline) > 0 && !c.Quit {
		n, together := leading(pipeline)
		if n > 1 {
			together(c, pipeline[:n])
		} else {
			c.do(pipeline[0].Args)
		}
		pipeline = pipeline[n:]
		if len(pipeline) > 0 && !c.sendIfLarge() {
			return
		}
	}
	if c.send() && c.Quit {
		_ = conn.Close() // the client has asked for it
	}
}

// send sends what the commands have answered, once it is settled: with -sync always there is
// one sync for a whole pipeline. It returns false if the connection has ended.
func (c *client) send() bool {
	if err := c.settle(); err != nil {
		// The replies say that all is well, so they must not be sent.
		c.s.logf("sync: %v", err)
		c.hangUp()
		return false
	}
	c.conn.WriteRaw(c.Out)
	if cap(c.Out) > 4*sendAt {
		c.Out = nil
	}
	c.Out = c.Out[:0]
	return redcon.BaseWriter(c.conn).Flush() == nil
}

// hangUp ends the connection without the replies that are waiting.
func (c *client) hangUp() {
	_ = c.conn.NetConn().Close() // redcon sees that when it writes or reads
	c.Quit, c.Out = true, nil
}

// settle makes what the replies depend on durable, if -sync says so.
func (c *client) settle() error {
	if c.wrote && c.s.config.sync == syncAlways {
		if err := c.s.db.Sync(); err != nil {
			return err
		}
	}
	c.wrote = false
	return nil
}

// write writes a batch for a client, whose reply may have to wait for the disk.
func (c *client) write(b *shale.Batch) error {
	c.wrote = true
	return c.s.write(b)
}

// write writes a batch. It does not wait for the disk: see send.
func (s *server) write(b *shale.Batch) error { return s.db.Write(context.Background(), b) }
