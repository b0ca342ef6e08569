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

	"github.com/shaledb/shale/internal/weburl"
)

// unknown stands for a number of bytes that this operating system does not report.
const unknown = -1

// A result is what one way did with the stream. Processes exchange it as JSON.
type result struct {
	Way       string
	URLs      int
	Spellings int   // how many different ones the stream has
	Distinct  int   // the same, after normalize
	URLBytes  int64 // of the distinct URLs

	// Wrong is how many URLs were taken for seen at their first visit. Missed is how many
	// were taken for new at a later visit.
	Wrong, Missed int

	Nanos int64 // of all visits and the close
	Held  int64 // bytes of memory at the end, after a garbage collection
	Most  int64 // maximum of the bytes of memory, garbage included
	Disk  int64 // bytes of files after the close

	FilterBytes int64
	Spared      uint64 // tables of shale that its filters have excluded
	LookedInto  uint64 // tables of shale that were searched
	InVain      uint64 // of these: the filter's maybe was wrong
}

// chunk is how many URLs are made and normalized at a time, while the clock stands still.
const chunk = 4096

// measure goes through the stream with the way called name, which may use dir. Requires:
// this process does nothing else, because all of its memory is measured.
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
	r = &result{Way: name, URLs: len(t.seen), Spellings: t.spellings, Distinct: t.distinct, URLBytes: t.bytes}
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
	runtime.KeepAlive(s) // both were in memory when before was taken
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

// check returns an error if a way breaks its promise. No way may take a seen URL for new.
// Only the filter and the bitmap may take a new URL for seen.
func (r *result) check() error {
	if r.Missed > 0 || r.Wrong > 0 && r.Way != filterAlone && r.Way != bitmapAlone {
		return fmt.Errorf("%s took %d new URLs for seen, and %d seen ones for new", r.Way, r.Wrong, r.Missed)
	}
	return nil
}

// walk visits all URLs, and compares the answers with right. It makes a chunk of URLs, and
// then visits them with the clock running.
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
		buf = append(buf, weburl.Normalize(string(url))...)
		if ends = append(ends, len(buf)); len(ends) == chunk {
			if err := visit(); err != nil {
				return err
			}
		}
	}
	return visit()
}

// opener returns the function that opens the way called name, or nil.
func opener(name string) func(plan) (way, error) {
	for _, w := range ways {
		if w.name == name {
			return w.open
		}
	}
	return nil
}

// memory returns how many bytes the process has after a garbage collection.
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
