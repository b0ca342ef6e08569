package remote

import (
	"context"
	"github.com/shaledb/shale/remote/internal/object"
	"io"
	"iter"
	"sync"
	"time"
)

// A hooked bucket calls a function before each call of another bucket, and one after it. Both may wait,
// and return an error that the caller gets instead of the answer. It counts the calls.
type hooked struct {
	b Bucket

	mu     sync.Mutex // protects the following fields
	before func(call, name string) error
	after  func(call, name string) error
	counts map[string]int      // by call
	bytes  int64               // that were put
	slow   map[object.Kind]int // how many seconds a Put of an object takes, in which bytes move
}

func newHooked(b Bucket) *hooked { return &hooked{b: b, counts: make(map[string]int)} }

// hook sets the functions.
func (h *hooked) hook(before, after func(call, name string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

// calls returns the number of calls so far.
func (h *hooked) calls() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.counts {
		n += c
	}
	return n
}

// count returns the number of one kind of calls so far.
func (h *hooked) count(call string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[call]
}

func (h *hooked) do(call, name string, fn func() error) error {
	h.mu.Lock()
	h.counts[call]++
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(call, name); err != nil {
			return err
		}
	}
	err := fn()
	if after != nil {
		if err := after(call, name); err != nil {
			return err
		}
	}
	return err
}

func (h *hooked) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return h.do("put", name, func() error {
		h.mu.Lock()
		h.bytes += size
		seconds := 0
		if n, ok := object.ParseName(name); ok {
			seconds = h.slow[n.Kind]
		}
		h.mu.Unlock()
		for range seconds {
			time.Sleep(time.Second)
			Progress(ctx)
		}
		return h.b.Put(ctx, name, body, size, crc32c, absent)
	})
}

func (h *hooked) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = h.do("read", name, func() error {
		n, err = h.b.ReadAt(ctx, name, p, off)
		return err
	})
	return n, err
}

func (h *hooked) Stat(ctx context.Context, name string) (info Info, err error) {
	err = h.do("stat", name, func() error {
		info, err = h.b.Stat(ctx, name)
		return err
	})
	return info, err
}

func (h *hooked) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		var all []Info
		err := h.do("list", prefix, func() error {
			all = nil
			for info, err := range h.b.List(ctx, prefix, after) {
				if err != nil {
					return err
				}
				all = append(all, info)
			}
			return nil
		})
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(Info{}, err)
		}
	}
}

func (h *hooked) Delete(ctx context.Context, name string) error {
	return h.do("delete", name, func() error { return h.b.Delete(ctx, name) })
}
