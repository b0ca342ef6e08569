package remotetest

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/shaledb/shale/remote/internal/bucket"
)

// A bucket that tests can count, stop and falsify. buckettest.Faulty is for faults by chance; this
// one is for those that a test chooses.

// A Fake is a bucket for tests. It passes calls to the bucket below it, or to the functions of Instead, and counts them. The
// functions of Hook are called before and after each call. They may wait, and return the error that the caller gets.
type Fake struct {
	bucket.Bucket
	Instead // changed by Set while calls are under way

	mu       sync.Mutex // protects Instead and the following fields
	before   func(call, name string) error
	after    func(call, name string) error
	onAnswer func(name string, p []byte, off int64)
	counts   map[[2]string]int // by call and folder
	largest  int               // bytes of a read of a table
}

// Instead has functions that are called instead of the bucket below; nil: none.
type Instead struct {
	OnPut    func(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error
	OnStat   func(ctx context.Context, name string) (bucket.Info, error)
	OnRead   func(ctx context.Context, name string, p []byte, off int64) (int, error)
	OnList   func(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error]
	OnDelete func(ctx context.Context, name string) error
}

// NewFake returns a Fake over a bucket.
func NewFake(b bucket.Bucket) *Fake { return &Fake{Bucket: b} }

// FolderOf returns the folder of an object, with its slash.
func FolderOf(name string) string {
	folder, _, _ := strings.Cut(name, "/")
	return folder + "/"
}

// Hook sets the functions that are called before and after each call; nil: none.
func (f *Fake) Hook(before, after func(call, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// Refuse makes the bucket refuse the calls of a kind that are about a folder, for good: see Count.
func (f *Fake) Refuse(call, folder string) {
	f.Hook(func(of, name string) error {
		if (call == "" || call == of) && (folder == "" || folder == FolderOf(name)) {
			return errRefused
		}
		return nil
	}, nil)
}

// HookReads sets the function that is called before each read; nil: none.
func (f *Fake) HookReads(before func(name string) error) {
	f.Hook(func(call, name string) error {
		if call != "read" || before == nil {
			return nil
		}
		return before(name)
	}, nil)
}

// OnAnswer sets a function that may change the bytes that a read returns; nil: none.
func (f *Fake) OnAnswer(change func(name string, p []byte, off int64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onAnswer = change
}

// Set sets the functions of Instead.
func (f *Fake) Set(i Instead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Instead = i
}

// Count returns the number of calls so far: "put", "read", "stat", "list" or "delete", of the objects in a folder. ""
// stands for all calls and for all folders.
func (f *Fake) Count(call, folder string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for of, count := range f.counts {
		if (call == "" || call == of[0]) && (folder == "" || folder == of[1]) {
			n += count
		}
	}
	return n
}

// During returns how many reads of tables fn makes, and the bytes of the largest.
// Reads of other goroutines meanwhile count too.
func (f *Fake) During(fn func()) (gets, largest int) {
	f.mu.Lock()
	f.largest = 0
	f.mu.Unlock()
	before := f.Count("read", "t/")
	fn()
	gets = f.Count("read", "t/") - before
	f.mu.Lock()
	defer f.mu.Unlock()
	return gets, f.largest
}

// do counts a call and makes it, between the functions of Hook. call gets the functions to call, of which none is nil.
func (f *Fake) do(what, name string, call func(Instead) error) error {
	f.mu.Lock()
	if f.counts == nil {
		f.counts = make(map[[2]string]int)
	}
	f.counts[[2]string{what, FolderOf(name)}]++
	// The functions are called without the lock, because they may wait for another call, or make
	// one themselves.
	before, after, to := f.before, f.after, f.Instead
	f.mu.Unlock()
	if to.OnPut == nil {
		to.OnPut = f.Bucket.Put
	}
	if to.OnStat == nil {
		to.OnStat = f.Bucket.Stat
	}
	if to.OnRead == nil {
		to.OnRead = f.Bucket.ReadAt
	}
	if to.OnList == nil {
		to.OnList = f.Bucket.List
	}
	if to.OnDelete == nil {
		to.OnDelete = f.Bucket.Delete
	}
	if before != nil {
		if err := before(what, name); err != nil {
			return err
		}
	}
	err := call(to)
	if after != nil {
		if err := after(what, name); err != nil {
			return err
		}
	}
	return err
}

// Put implements bucket.Bucket, with what Hook, Refuse and Set ask for.
func (f *Fake) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return f.do("put", name, func(to Instead) error { return to.OnPut(ctx, name, body, size, crc32c, absent) })
}

// ReadAt implements bucket.Bucket, with what Hook, HookReads, OnAnswer, Refuse and Set ask for.
func (f *Fake) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = f.do("read", name, func(to Instead) error {
		n, err = to.OnRead(ctx, name, p, off)
		f.mu.Lock()
		if FolderOf(name) == "t/" {
			f.largest = max(f.largest, len(p))
		}
		change := f.onAnswer
		f.mu.Unlock()
		if change != nil {
			change(name, p[:n], off)
		}
		return err
	})
	return n, err
}

// Stat implements bucket.Bucket, with what Hook, Refuse and Set ask for.
func (f *Fake) Stat(ctx context.Context, name string) (info bucket.Info, err error) {
	err = f.do("stat", name, func(to Instead) error {
		info, err = to.OnStat(ctx, name)
		return err
	})
	return info, err
}

// List implements bucket.Bucket, with what Hook, Refuse and Set ask for.
func (f *Fake) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		// The whole list is gathered before any of it is passed on. So the hooks enclose the call
		// and not the loop of the caller.
		var all []bucket.Info
		err := f.do("list", prefix, func(to Instead) error {
			for info, err := range to.OnList(ctx, prefix, after) {
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
			yield(bucket.Info{}, err)
		}
	}
}

// Delete implements bucket.Bucket, with what Hook, Refuse and Set ask for.
func (f *Fake) Delete(ctx context.Context, name string) error {
	return f.do("delete", name, func(to Instead) error { return to.OnDelete(ctx, name) })
}
