package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

func dedup(ctx context.Context, s *session, a arguments) (st status, err error) {
	if s.in == nil {
		return failed, errors.New("dedup reads lines from standard input, where commands come from here")
	}
	memory := int64(defaultMemory)
	if text, given := a.values["memory"]; given {
		if memory, err = parseMemory(text); err != nil {
			return failed, err
		}
	}
	db, err := s.openForDedup(a, memory)
	if err != nil {
		return failed, err
	}
	defer func() {
		if cerr := db.Close(); err == nil && cerr != nil {
			st, err = failed, cerr
		}
	}()
	defer boundHeap(memory)()
	d := &deduper{db: db, hash: a.has("hash"), out: s.out}
	if a.has("sync") {
		d.sync = s.syncOutput
	}
	if err := d.checkMode(); err != nil {
		return failed, err
	}
	begin := time.Now()
	err = d.run(ctx, s, dedupLimits(memory))
	if !a.has("quiet") {
		took := time.Since(begin)
		fmt.Fprintf(s.notes, "%s: %s new, %s seen before; %v, %s lines/s\n", plural(d.lines, "line"), number(d.fresh),
			number(d.lines-d.fresh), since(begin), number(int(float64(d.lines)/max(took.Seconds(), 1e-6))))
	}
	if err != nil {
		return failed, err
	}
	return found, nil
}

// openForDedup opens the store that the command names, or the session's, with
// options that keep within memory.
func (s *session) openForDedup(a arguments, memory int64) (*shale.DB, error) {
	dir := s.dir
	if a.has("store") {
		dir = a.values["store"]
	}
	switch {
	case dir == "":
		return nil, errNoDir
	case s.readOnly:
		return nil, errors.New("dedup writes, and -readonly was given")
	}
	// The session may have it open, under other options.
	if dir == s.dir {
		if err := s.close(); err != nil {
			return nil, err
		}
	}
	db, err := shale.Open(dir, dedupOptions(memory, s.onEvent))
	if errors.Is(err, shale.ErrLocked) {
		return nil, fmt.Errorf("dedup writes, but the store is in use: %w", err)
	}
	return db, err
}

// run handles all lines of s.in.
func (d *deduper) run(ctx context.Context, s *session, limits feedLimits) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := s.newLineProgress()
	defer p.clear()
	feed := feedLines(ctx, s.in, limits)
	var b lineBatch
	for {
		switch err := feed.next(ctx, &b); {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			return fmt.Errorf("standard input, after %s: %w", plural(d.lines, "line"), err)
		}
		if err := d.add(&b); err != nil {
			return err
		}
		p.update(len(b.data), d.lines)
	}
}

// Memory is divided so: two batches of lines, and what sorts one of them, three
// memtables at most, filters, a cache for tables that are read again and again
// while they are in fashion; the rest is the program's own, and indexes'.
const (
	defaultMemory = 64 << 20
	leastMemory   = 16 << 20
)

func dedupLimits(memory int64) feedLimits {
	n := int(min(memory/8, 1<<30))
	return feedLimits{bytes: n, lines: n / 24, line: n}
}

func dedupOptions(memory int64, onEvent func(shale.Event)) *shale.Options {
	return &shale.Options{
		Durability:   shale.SyncManual,
		MemtableSize: min(memory/16, 1<<30),
		CacheSize:    memory / 32,
		FilterMemory: memory / 4,
		MaxOpenFiles: 100,
		OnEvent:      onEvent,
	}
}

// boundHeap makes the collector keep the heap within memory, and returns what
// undoes that. What lies beside the heap counts too, about a fifth.
func boundHeap(memory int64) (undo func()) {
	limit := debug.SetMemoryLimit(memory * 3 / 4)
	percent := debug.SetGCPercent(20)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// parseMemory reads a number of bytes: 64M, 1G.
func parseMemory(text string) (int64, error) {
	digits := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	unit := int64(1)
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			digits, unit = digits[:n-1], 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("--memory %s is no number of bytes, as 64M and 1G are", quote(text))
	}
	if n*unit < leastMemory {
		return 0, fmt.Errorf("--memory %s is less than %s", quote(text), base.FormatBytes(leastMemory))
	}
	return n * unit, nil
}

// syncOf returns what makes durable that which was written to w; nothing, if w is no file.
func syncOf(w io.Writer) func() error {
	f, ok := w.(*os.File)
	if ok {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			ok = false
		}
	}
	if !ok {
		return func() error { return nil }
	}
	return f.Sync
}
