package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/vfs"
)

// fleetOptions say what run does.
type fleetOptions struct {
	URLs     string // file; "": URLs are made up
	Made     int    // how many
	Checkers int
	Bucket   string // directory; "": a temporary one
	Out      io.Writer
}

// interval is how often checkers look for something new by themselves.
const interval = 200 * time.Millisecond

// run lets the crawler and the checkers do their work, and prints what it has cost.
func run(ctx context.Context, o fleetOptions) (err error) {
	urls, err := loadURLs(o.URLs, o.Made)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if o.Bucket == "" {
		o.Bucket = filepath.Join(tmp, "bucket")
	}
	dir, err := remote.NewDir(vfs.Default, o.Bucket)
	if err != nil {
		return err
	}
	crawler, err := remote.Open(ctx, filepath.Join(tmp, "crawler"), dir, &remote.Options{
		Ship: 50 * time.Millisecond, Publish: -1,
		Store: shale.Options{Durability: shale.SyncManual, MemtableSize: 1 << 20, TableSize: 1 << 20},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crawler.Close()) }()
	f := &fleet{crawler: crawler, bucket: &counted{Bucket: dir}, rows: tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)}
	defer func() { err = errors.Join(err, f.close()) }()
	return f.work(ctx, urls, o.Checkers)
}

// A fleet is the crawler with its checkers.
type fleet struct {
	crawler  *remote.Store
	bucket   *counted
	checkers []*remote.Reader
	rows     *tabwriter.Writer
}

// close closes the checkers.
func (f *fleet) close() (err error) {
	for _, c := range f.checkers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// work is what happens, phase by phase.
func (f *fleet) work(ctx context.Context, urls [][]byte, checkers int) error {
	known, unknown := urls[:len(urls)/2], urls[len(urls)/2:]
	late := known[len(known)*9/10:]
	known = known[:len(known)*9/10]
	if err := f.crawl(ctx, known); err != nil {
		return err
	}
	if err := errors.Join(f.crawler.DB().Flush(ctx), f.crawler.Publish(ctx)); err != nil {
		return err
	}
	fmt.Fprintf(f.rows, "phase\tlookups\tGETs of tables\ta lookup\tKiB\tsegments\tsteps\tother\t\n")
	phases := []struct {
		name string
		do   func() (lookups int, err error)
	}{
		{"open", func() (int, error) { return 0, f.open(ctx, checkers) }},
		{"unknown URLs", func() (int, error) { return f.ask(unknown, false) }},
		{"known URLs", func() (int, error) { return f.ask(known, true) }},
		{"known URLs again", func() (int, error) { return f.ask(known, true) }},
		{"new URLs", func() (int, error) { return f.follow(ctx, late) }},
		{"a second of nothing", func() (int, error) { return 0, sleep(ctx, time.Second) }},
	}
	for _, p := range phases {
		before := f.bucket.now()
		lookups, err := p.do()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		n := f.bucket.now().minus(before)
		each := ""
		if lookups > 0 {
			each = fmt.Sprintf("%.4f", float64(n.tables)/float64(lookups))
		}
		fmt.Fprintf(f.rows, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t\n", p.name, lookups, n.tables, each, n.bytes>>10, n.segments, n.steps, n.other)
	}
	return f.rows.Flush()
}

// crawl writes URLs, a thousand at a time.
func (f *fleet) crawl(ctx context.Context, urls [][]byte) error {
	var b shale.Batch
	for i, url := range urls {
		if err := b.Put(url, fmt.Appendf(nil, "seen by the crawler as number %d", i)); err != nil {
			return err
		}
		if b.Len() == 1000 || i == len(urls)-1 {
			if err := f.crawler.DB().Write(ctx, &b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// open opens the checkers.
func (f *fleet) open(ctx context.Context, checkers int) error {
	for range checkers {
		r, err := remote.OpenReader(ctx, f.bucket, &remote.ReaderOptions{Interval: interval, Owner: "a checker of the fleet"})
		if err != nil {
			return err
		}
		f.checkers = append(f.checkers, r)
	}
	return nil
}

// ask lets all checkers look up all URLs, at the same time. found says whether they must be there.
func (f *fleet) ask(urls [][]byte, found bool) (lookups int, err error) {
	errs := make([]error, len(f.checkers))
	var wg sync.WaitGroup
	for i, c := range f.checkers {
		wg.Go(func() {
			for _, url := range urls {
				there, err := c.Has(url)
				if err == nil && there != found {
					err = fmt.Errorf("%s is known: %v, but should be %v", bytes.Clone(url), there, found)
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return len(urls) * len(f.checkers), errors.Join(errs...)
}

// follow writes URLs and asks for them as soon as the checkers have them.
func (f *fleet) follow(ctx context.Context, urls [][]byte) (lookups int, err error) {
	if err := f.crawl(ctx, urls); err != nil {
		return 0, err
	}
	// A crawler would send this number with its message about new URLs.
	seq := f.crawler.DB().LogPosition().LastSeq
	for _, c := range f.checkers {
		if err := c.WaitFor(ctx, seq); err != nil {
			return 0, err
		}
	}
	return f.ask(urls, true)
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
