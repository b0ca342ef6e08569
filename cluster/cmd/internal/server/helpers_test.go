package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// Errors of a fake group.
var (
	errElection = errors.New("there is an election")
	errUnknown  = errors.New("nobody knows")
)

// A fake is a store in memory that counts calls, and fails when a test wants it to.
type fake struct {
	Store
	db *shale.DB

	reads, writes atomic.Int64
	fail          atomic.Pointer[func(write bool) error] // asked before each call
}

func newFake(t testing.TB) *fake {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fake{Store: Alone(db, nil), db: db}
}

func (f *fake) begin(write bool) error {
	if fail := f.fail.Load(); fail != nil {
		if err := (*fail)(write); err != nil {
			return err
		}
	}
	if write {
		f.writes.Add(1)
	} else {
		f.reads.Add(1)
	}
	return nil
}

func (f *fake) Write(ctx context.Context, b *shale.Batch) error {
	if err := f.begin(true); err != nil {
		return err
	}
	return f.Store.Write(ctx, b)
}

func (f *fake) Update(ctx context.Context, fn func(Txn) error) error {
	if err := f.begin(true); err != nil {
		return err
	}
	return f.Store.Update(ctx, fn)
}

func (f *fake) PutIfAbsent(ctx context.Context, key, value []byte) (bool, error) {
	if err := f.begin(true); err != nil {
		return false, err
	}
	return f.Store.PutIfAbsent(ctx, key, value)
}

func (f *fake) PutIfAbsentTTL(ctx context.Context, key, value []byte, ttl time.Duration) (bool, error) {
	if err := f.begin(true); err != nil {
		return false, err
	}
	return f.Store.PutIfAbsentTTL(ctx, key, value, ttl)
}

func (f *fake) DeletePresent(ctx context.Context, keys ...[]byte) (present []bool, err error) {
	if err := f.begin(true); err != nil {
		return nil, err
	}
	return f.Store.DeletePresent(ctx, keys...)
}

func (f *fake) Read(ctx context.Context, fn func(shale.Reader) error) error {
	if err := f.begin(false); err != nil {
		return err
	}
	return f.Store.Read(ctx, fn)
}

// setup returns a server of an empty store.
func setup(t testing.TB, change ...func(*Config)) (*Server, *fake) {
	t.Helper()
	f := newFake(t)
	s := newServer(f, change...)
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.writes.Store(0)
	return s, f
}

// newServer returns a server of a store as it is.
func newServer(f *fake, change ...func(*Config)) *Server {
	c := Config{
		Store: f, Timeout: 2 * time.Second,
		Explain: func(err error) string {
			if errors.Is(err, errUnknown) {
				return "UNKNOWN " + err.Error()
			}
			return "ERR " + err.Error()
		},
		Unknown: func(err error) bool { return errors.Is(err, errUnknown) },
		Again:   func(err error) bool { return errors.Is(err, errElection) },
		Info:    func(func(string) bool) []Section { return nil },
		Members: func(context.Context) []Member { return nil },
	}
	for _, change := range change {
		change(&c)
	}
	return New(c)
}

// say does one command and returns its reply.
func (c *client) say(args ...string) string {
	raw := make([][]byte, len(args))
	for i, arg := range args {
		raw[i] = []byte(arg)
	}
	c.Out = c.Out[:0]
	c.run(pipelineOf(raw))
	return string(c.Out)
}

// want checks the reply to a command, whose words are separated by spaces.
func (c *client) want(t testing.TB, line, reply string) {
	t.Helper()
	if got := c.say(strings.Fields(line)...); got != strings.ReplaceAll(reply, "|", "\r\n")+"\r\n" {
		t.Errorf("%s: %q, want %q", line, got, reply)
	}
}

// start serves until the test ends, and returns the address.
func start(t testing.TB, s *Server) (addr string, stop func()) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, inner, 5*time.Second) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return inner.Addr().String(), stop
}

// dial returns a client, which is closed when the test ends.
func dial(t testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, MaxRetries: -1}
	for _, change := range change {
		change(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
