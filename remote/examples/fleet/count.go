package main

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/shaledb/shale/remote"
)

// A counted is a bucket that counts the requests of the checkers by what they are about.
type counted struct {
	remote.Bucket
	mu     sync.Mutex // protects the following field
	counts counts
}

// counts are numbers of requests.
type counts struct {
	tables   int // GETs of tables
	bytes    int // that these asked for
	segments int // GETs of segments of the log
	steps    int // GETs of steps and states
	other    int // everything else: pins, lists, the identity
}

func (c counts) minus(o counts) counts {
	return counts{c.tables - o.tables, c.bytes - o.bytes, c.segments - o.segments, c.steps - o.steps, c.other - o.other}
}

// now returns the counts so far.
func (c *counted) now() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// count counts a request.
func (c *counted) count(name string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := &c.counts; {
	case bytes > 0 && strings.HasPrefix(name, "t/"):
		n.tables++
		n.bytes += bytes
	case bytes > 0 && strings.HasPrefix(name, "w/"):
		n.segments++
	case bytes > 0 && (strings.HasPrefix(name, "m/") || strings.HasPrefix(name, "s/")):
		n.steps++
	default:
		n.other++
	}
}

func (c *counted) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	c.count(name, len(p))
	return c.Bucket.ReadAt(ctx, name, p, off)
}

func (c *counted) Stat(ctx context.Context, name string) (remote.Info, error) {
	c.count(name, 0)
	return c.Bucket.Stat(ctx, name)
}

func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	c.count(prefix, 0)
	return c.Bucket.List(ctx, prefix, after)
}
