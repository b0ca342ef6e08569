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

// A fake is a group of one member that is a store in memory. It counts calls, and fails when it is told to.
type fake struct {
	db *shale.DB

	mu            sync.Mutex // one write at a time, as in a group
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
	return &fake{db: db}
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
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db.Write(ctx, b)
}

func (f *fake) PutTTL(_ context.Context, key, value []byte, ttl time.Duration) error {
	if err := f.begin(true); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db.PutTTL(key, value, ttl)
}

func (f *fake) PutIfAbsent(_ context.Context, key, value []byte) (bool, error) {
	if err := f.begin(true); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db.PutIfAbsent(key, value)
}

func (f *fake) PutIfAbsentTTL(_ context.Context, key, value []byte, ttl time.Duration) (bool, error) {
	if err := f.begin(true); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db.PutIfAbsentTTL(key, value, ttl)
}

func (f *fake) DeletePresent(_ context.Context, keys ...[]byte) (present []bool, err error) {
	if err := f.begin(true); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		has, err := f.db.Has(key)
		if err == nil {
			err = f.db.Delete(key)
		}
		if err != nil {
			return nil, err
		}
		present = append(present, has)
	}
	return present, nil
}

func (f *fake) Read(_ context.Context, fn func(shale.Reader) error) error {
	if err := f.begin(false); err != nil {
		return err
	}
	return fn(f.Local())
}

func (f *fake) Local() shale.Reader { return f.db }

// setup returns a server of a fake group.
func setup(t testing.TB, change ...func(*Config)) (*Server, *fake) {
	t.Helper()
	f := newFake(t)
	c := Config{
		Group: f, Timeout: 2 * time.Second,
		Explain: func(err error) string {
			if errors.Is(err, errUnknown) {
				return "UNKNOWN " + err.Error()
			}
			return "ERR " + err.Error()
		},
		Again:   func(err error) bool { return errors.Is(err, errElection) },
		Info:    func() []Section { return nil },
		Members: func(context.Context) []Member { return nil },
	}
	for _, change := range change {
		change(&c)
	}
	return New(c), f
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
