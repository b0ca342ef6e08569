package command

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
	"sync"
	"syscall"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

func dedupCommand() *Command {
	var store string
	var hash, durable, skip, quiet bool
	memory := int64(defaultMemory)
	c := New("dedup", NeedsNothing, "print the lines never seen before, and remember them", `
Reads lines from standard input, prints those that are not in the store, unchanged and in order, and adds
them to the store. The next run goes on from there. Every line is printed at least once. It is never printed
again after a run that came to the end of its input, or was ended by Ctrl-C or SIGTERM. If a run is killed,
the next one may print the lines of the last batch again; it prints them whole, even if the last line was cut
off. With --sync, all of this also holds after a crash of the machine.

Lines are compared by their bytes without \n or \r\n. A line of more than 65,535 bytes is compared by its
SHA-256. The lines are the keys of the store, so scan and filter can read it.

With --hash the keys are hashes instead. After n lines, a new line is then taken for an old one with a
probability of n/2^128: 1 in 3·10^29 after a billion lines. A line may have (SIZE - 14M)/11 bytes, which is
4.5 MiB if --memory is not given. A longer line ends the run with status 2; with --skip-long it is neither
printed nor remembered, but counted. Creates the store as put does.`)
	c.text(&store, "store", "DIR", "the store that remembers; else that of -C")
	c.option("memory", "SIZE", "about how much memory to use; at least 24M, default 64M", func(w Word) (err error) {
		memory, err = parseMemory(w.Text)
		return err
	})
	c.flag(&hash, "hash", "for long lines: remember 16 bytes of a line's SHA-256 instead of the line")
	c.flag(&durable, "sync", "make each batch of lines durable, first in the output, then in the store")
	c.flag(&skip, "skip-long", "skip lines that are too long, and count them")
	c.flag(&quiet, "quiet", "print no totals")
	return c.Does(func(ctx context.Context, s *Session, _ []Word) (st Status, err error) {
		if err := s.checkLines(c); err != nil {
			return Failed, err
		}
		var words []Word
		if store != "" {
			words = []Word{{Text: store}}
		}
		db, err := s.openOwn(c, words, s.openOrMake, dedupOptions(memory, hash, eachOnce(s.onEvent)))
		if err != nil {
			return Failed, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		defer boundHeap()()
		d := &deduper{db: db, hash: hash, out: lineWriter{out: s.Out}}
		if durable {
			d.sync = s.syncOutput
		}
		if err := d.checkMode(); err != nil {
			return Failed, err
		}
		begin, limits := time.Now(), dedupLimits(memory)
		limits.skip = skip
		d.reserve(limits)
		skipped, err := s.eachBatch(ctx, limits, d.add)
		if !quiet {
			d.report(s.Notes, time.Since(begin), skipped, limits.line)
		}
		switch {
		case errors.Is(err, errLongLine):
			return Failed, fmt.Errorf("%w; --skip-long skips such lines, and a larger --memory allows them", err)
		case errors.Is(err, syscall.EPIPE):
			return Failed, errors.New("dedup: the reader of the output has closed it; the last lines printed may come again")
		case errors.Is(err, syscall.ENOSPC):
			return Failed, fmt.Errorf("%w; the last lines printed may come again", plainly(err))
		case err != nil:
			return Failed, err
		}
		return Found, nil
	})
}

// eachBatch calls fn for all lines of s.in, in batches, and shows the progress. fn must flush
// what it prints, because a program that sends lines one by one waits for the answer.
//
// It returns the number of lines that were skipped because they are too long.
func (s *Session) eachBatch(ctx context.Context, limits feedLimits, fn func(*lineBatch) error) (skipped int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := s.newLineProgress()
	defer p.clear()
	feed := feedLines(ctx, s.in, limits)
	defer func() { skipped = int(feed.skipped.Load()) }()
	b := limits.batch()
	lines := 0
	for {
		switch err := feed.next(ctx, &b); {
		case errors.Is(err, io.EOF):
			return 0, nil
		case errors.Is(err, context.Canceled):
			return 0, err
		case err != nil:
			return 0, fmt.Errorf("standard input, after %s: %w", output.Plural(lines, "line"), err)
		}
		if err := fn(&b); err != nil {
			return 0, err
		}
		lines += b.len()
		p.done += int64(len(b.data))
		p.show(lines, "lines")
	}
}

const (
	defaultMemory = 64 << 20
	leastMemory   = 24 << 20
	// ownMemory is the memory that the program uses before it has read a line.
	ownMemory = 14 << 20
)

// The rest of the memory is for two batches of lines, and about as much to sort one of them;
// for up to three memtables and their logs; for filters; and for the table that a compaction
// writes. The indexes of tables are not included: they take a byte for about eight lines in
// the store.

func dedupLimits(memory int64) feedLimits {
	n := int(min((memory-ownMemory)/11, 1<<30))
	return feedLimits{bytes: n, lines: n / 24, line: n}
}

func dedupOptions(memory int64, hash bool, onEvent func(shale.Event)) *shale.Options {
	memory -= ownMemory
	o := &shale.Options{
		Durability:   shale.SyncManual,
		MemtableSize: min(memory/11, 1<<30),
		FilterMemory: memory / 6,
		CacheSize:    memory / 64,
		TableSize:    memory / 8,
		BlockSize:    8 << 10,
		MaxOpenFiles: 100,
		OnEvent:      onEvent,
	}
	if hash {
		o.Compression = shale.NoCompression
	}
	return o
}

// eachOnce returns a function that calls tell for the first event with each error. Background
// work is repeated, so the same error may come often.
func eachOnce(tell func(shale.Event)) func(shale.Event) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(e shale.Event) {
		if e.Err == nil {
			return
		}
		text := e.Err.Error()
		mu.Lock()
		known := told[text]
		told[text] = true
		mu.Unlock()
		if !known {
			tell(e)
		}
	}
}

// boundHeap makes the garbage collector run more often, so that it leaves little garbage.
// This costs little, because buffers are reused. It returns a function that undoes this.
func boundHeap() (undo func()) {
	percent := debug.SetGCPercent(10)
	return func() { debug.SetGCPercent(percent) }
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
		return 0, errors.New("is not a size; write 64M or 1G")
	}
	if n*unit < leastMemory {
		return 0, fmt.Errorf("is less than %s", base.FormatBytes(leastMemory))
	}
	return n * unit, nil
}

// syncOf returns a function that makes everything written to w durable. If w is no file, the
// function does nothing.
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
