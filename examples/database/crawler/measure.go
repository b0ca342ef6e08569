package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"
)

// unknown is a number of bytes that this operating system does not tell.
const unknown = -1

// A result is what one way did with the stream.
type result struct {
	Way      string
	URLs     int
	Distinct int
	URLBytes int64 // of the distinct ones

	// Wrong is how many URLs were taken for seen at their first visit, Missed
	// how many for new at a later one.
	Wrong, Missed int

	Nanos int64 // for all visits and the close
	Held  int64 // bytes of memory at the end, after a garbage collection
	Most  int64 // bytes of memory on the way, garbage included
	Disk  int64 // bytes of files after the close

	FilterBytes int64
	Spared      uint64 // tables of shale that were passed over by their filters
	LookedInto  uint64 // tables of shale whose blocks were asked
	InVain      uint64 // of these: a filter had said maybe, wrongly
}

// chunk is how many URLs are made at a time, before the clock runs.
const chunk = 4096

// measure walks the stream with the way of a name, which may use dir. This
// process should do nothing else: its memory is what is measured.
func measure(ctx context.Context, c config, name, dir string) (r *result, err error) {
	open := opener(name)
	if open == nil {
		return nil, fmt.Errorf("%q is not a way", name)
	}
	s, err := newStream(c)
	if err != nil {
		return nil, err
	}
	t := walkOnce(s)
	r = &result{Way: name, URLs: len(t.seen), Distinct: t.distinct, URLBytes: t.bytes}
	before := memory()
	w, err := open(plan{config: c, dir: dir, distinct: t.distinct})
	if err != nil {
		return nil, err
	}
	if err := r.walk(ctx, s, t.seen, w, before); err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.counts(r)
	if r.Held = memory(); r.Held != unknown {
		r.Held -= before
		r.Most = max(r.Most, r.Held)
	}
	runtime.KeepAlive(s) // as it was when before was taken
	runtime.KeepAlive(t)
	begin := time.Now()
	if err := w.close(); err != nil {
		return nil, err
	}
	r.Nanos += time.Since(begin).Nanoseconds()
	if r.Disk, err = sizeOf(dir); err != nil {
		return nil, err
	}
	return r, r.check()
}

// check holds a way to its promise: to none is a URL new twice, and only to a
// filter alone may a new one have been seen.
func (r *result) check() error {
	if r.Missed > 0 || r.Wrong > 0 && r.Way != filterAlone {
		return fmt.Errorf("%s took %d new URLs for seen, and %d seen ones for new", r.Way, r.Wrong, r.Missed)
	}
	return nil
}

// walk visits all URLs, and compares the answers with the right ones.
func (r *result) walk(ctx context.Context, s *stream, right []bool, w way, before int64) error {
	var buf []byte
	var ends []int
	done := 0
	r.Most = unknown
	visit := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin := time.Now()
		from := 0
		for _, end := range ends {
			seen, err := w.visit(buf[from:end:end])
			if err != nil {
				return fmt.Errorf("URL %d, %q: %w", done+1, buf[from:end], err)
			}
			switch {
			case seen && !right[done]:
				r.Wrong++
			case !seen && right[done]:
				r.Missed++
			}
			from = end
			done++
		}
		r.Nanos += time.Since(begin).Nanoseconds()
		if now := anonymous(); now != unknown {
			r.Most = max(r.Most, now-before)
		}
		buf, ends = buf[:0], ends[:0]
		return nil
	}
	for url := range s.all() {
		buf = append(buf, url...)
		if ends = append(ends, len(buf)); len(ends) == chunk {
			if err := visit(); err != nil {
				return err
			}
		}
	}
	return visit()
}

func opener(name string) func(plan) (way, error) {
	for _, w := range ways {
		if w.name == name {
			return w.open
		}
	}
	return nil
}

// memory returns the bytes that the process holds when its garbage is gone.
func memory() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	return anonymous()
}

// sizeOf returns the sum of the sizes of the files below dir.
func sizeOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
