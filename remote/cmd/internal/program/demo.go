package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/counted"
)

// The command demo shows a store that is larger than the room it has: what a crawler has seen.

// A demonstration is a crawler's store with its requests counted.
type demonstration struct {
	*call
	urls, asked uint64
	local       int64 // Options.LocalBytes

	dir     string // of the store
	place   string // the bucket, for people
	b       *counted.Bucket
	store   *remote.Store
	text    atomic.Int64  // bytes of URLs
	added   atomic.Uint64 // URLs so far
	highest int64         // bytes of tables and copies in dir; written by watchRoom
}

// demo shows the store. What it makes in temporary folders is removed at the end.
func demo(c *call) (status int, err error) {
	d := &demonstration{call: c, urls: 1_000_000, asked: 100_000}
	if err := d.demoOptions(); err != nil {
		return failed, err
	}
	temp, err := os.MkdirTemp("", "shale-demo-")
	if err != nil {
		return failed, err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(temp)) }()
	d.dir = filepath.Join(temp, "store")
	if err := d.open(temp); err != nil {
		return failed, err
	}
	defer func() {
		if cerr := d.store.Close(); err == nil && c.ctx.Err() == nil {
			err = cerr
		}
	}()
	if err := d.crawl(); err != nil {
		return failed, err
	}
	if err := d.askNew(); err != nil {
		return failed, err
	}
	if err := d.askSeen(); err != nil {
		return failed, err
	}
	d.bill()
	return found, nil
}

// demoOptions takes over what the options say.
func (d *demonstration) demoOptions() error {
	for name, field := range map[string]*uint64{"urls": &d.urls, "asked": &d.asked} {
		if !d.has(name) {
			continue
		}
		n, err := strconv.ParseUint(d.option(name), 10, 40)
		if err != nil || n < 1000 {
			return fmt.Errorf("--%s %s is not a number of at least 1000", name, d.option(name))
		}
		*field = n
	}
	local := float64(min(200e6, max(d.urls*uint64(len(appendURL(nil, d.urls)))/10, leastLocal)))
	err := d.size("local", &local)
	if d.local = int64(local); err == nil && d.local < leastLocal {
		err = errors.New("--local must be at least 1MiB")
	}
	return err
}

// open makes the bucket and the store. Memtables and tables are as small as the room asks for.
func (d *demonstration) open(temp string) error {
	word := filepath.Join(temp, "bucket")
	if len(d.words) > 0 {
		word = d.words[0]
	}
	place, b, err := d.bucketFor(d.dir, word, true)
	if err != nil {
		return err
	}
	for info, err := range b.List(d.ctx, "", "") {
		return cmp.Or(err, fmt.Errorf("%s is not empty, it has %s: name a new place, such as %s", place, info.Name, place.Below("demo")))
	}
	d.place, d.b = place.String(), counted.New(b)
	memtable := min(32<<20, d.local/16)
	d.store, err = remote.Open(d.ctx, d.dir, d.b, &remote.Options{
		LocalBytes: d.local, Publish: 10 * time.Second,
		Store: shale.Options{
			Durability: shale.SyncPeriodic, MemtableSize: memtable, TableSize: memtable / 2,
			CacheSize: min(64<<20, d.local/8), OnEvent: func(shale.Event) {}, // what fails is an error of a call
		},
	})
	return err
}

// leastLocal is the least room that the store can do with.
const leastLocal = 1 << 20

// crawlers is how many goroutines look at URLs.
const crawlers = 4

// crawl adds all URLs as a crawler does: it asks for each, and goes there if it was not seen. Then it waits until the tables
// that have no room are in the bucket.
func (d *demonstration) crawl() error {
	begin := time.Now()
	ctx, stop := context.WithCancel(d.ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.watchRoom(ctx) })
	err := d.addAll()
	took := time.Since(begin)
	if err == nil {
		err = d.settle()
	}
	stop()
	watching.Wait()
	if err != nil {
		return err
	}
	places, err := d.store.Places()
	if err != nil {
		return err
	}
	now, err := d.room()
	if err != nil {
		return err
	}
	tables := int64(0)
	for _, l := range places {
		tables += l.Local.Bytes + l.Both.Bytes + l.Bucket.Bytes
	}
	fmt.Fprintf(d.out, "%s URLs, %s of text, are %s of tables. Each was asked for, was new, and was added: %v each, with %d at a time; all was in the bucket after %v.\n",
		humanize.Comma(int64(d.urls)), base.FormatBytes(d.text.Load()), base.FormatBytes(tables), each(took, d.urls), crawlers, ago(time.Since(begin)))
	fmt.Fprintf(d.out, "On this disk: %s, and never more than %s; LocalBytes is %s. In %s: all of it.\n\n",
		base.FormatBytes(now), base.FormatBytes(max(now, d.highest)), base.FormatBytes(d.local), d.place)
	if err := writePlaces(d.out, places); err != nil {
		return err
	}
	fmt.Fprintln(d.out)
	return d.out.Flush() // the lookups take a while
}

// addAll adds all URLs.
func (d *demonstration) addAll() error {
	show := d.newDisplay()
	defer show.clear()
	group, ctx := errgroup.WithContext(d.ctx)
	for i := range uint64(crawlers) {
		group.Go(func() error {
			var url []byte
			for n := i; n < d.urls && ctx.Err() == nil; n += crawlers {
				url = appendURL(url[:0], n)
				inserted, err := d.store.DB().PutIfAbsent(url, nil)
				if err != nil {
					return err
				}
				if !inserted {
					return fmt.Errorf("%s was there already, which is a bug: please report it", url)
				}
				d.text.Add(int64(len(url)))
				if done := d.added.Add(1); n%(1024*crawlers) == 0 && show.due() { // one of them shows it
					show.line(fmt.Sprintf("%s of %s URLs", humanize.Comma(int64(done)), humanize.Comma(int64(d.urls))))
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// settle waits until compactions have nothing to do and tables have the room that they may have.
func (d *demonstration) settle() error {
	if err := d.store.DB().Flush(d.ctx); err != nil {
		return err
	}
	for {
		if err := d.store.Publish(d.ctx); err != nil {
			return err
		}
		if s := d.store.Status(); s.Failing != nil {
			return s.Failing
		}
		room, err := d.room()
		places, perr := d.store.Places()
		if err := cmp.Or(err, perr); err != nil {
			return err
		}
		here := int64(0) // filters and indexes alone may take more than there is
		for _, l := range places {
			here += l.Local.Bytes + l.Both.Bytes
		}
		if m := d.store.DB().Metrics(); (room <= d.local || here == 0) && m.CompactionDebt == 0 && m.Compacting == 0 {
			return nil
		}
		select {
		case <-d.ctx.Done():
			return d.ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// room returns how many bytes of the disk the tables take, with the filters and pages of those in the bucket.
func (d *demonstration) room() (sum int64, err error) {
	err = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreAbsence(err)
		}
		info, err := e.Info()
		if err == nil && (filepath.Ext(path) == ".sst" || filepath.Dir(path) != d.dir) {
			sum += info.Size()
		}
		return ignoreAbsence(err)
	})
	return sum, err
}

// ignoreAbsence returns nil for the error of a file that was removed meanwhile.
func ignoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// watchRoom notes the most room that the tables have taken.
func (d *demonstration) watchRoom(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now, err := d.room(); err == nil {
				d.highest = max(d.highest, now)
			}
		}
	}
}

// ask asks for n URLs and returns what that took.
func (d *demonstration) ask(n uint64, number func(i uint64) uint64, want bool) (took time.Duration, requests counted.Counts, wrong uint64, err error) {
	db := d.store.DB()
	before, filters, begin := d.b.Counts(), db.Metrics().FilterFalsePositive, time.Now()
	var url []byte
	for i := range n {
		url = appendURL(url[:0], number(i))
		has, err := db.Has(url)
		if err == nil && has != want {
			err = fmt.Errorf("%s: seen is %v, which is a bug: please report it", url, has)
		}
		if err := cmp.Or(err, d.ctx.Err()); err != nil {
			return 0, requests, 0, err
		}
	}
	return time.Since(begin), d.b.Counts().Since(before), db.Metrics().FilterFalsePositive - filters, nil
}

// askNew asks for URLs that are not there.
func (d *demonstration) askNew() error {
	took, requests, wrong, err := d.ask(d.asked, func(i uint64) uint64 { return d.urls + i }, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%s new URLs: none found. Filters were wrong about %s, which took %s (%.4f a question); %v a question.\n",
		humanize.Comma(int64(d.asked)), humanize.Comma(int64(wrong)), plural(requests.TableGets, "GET"),
		float64(requests.TableGets)/float64(d.asked), each(took, d.asked))
	return nil
}

// askSeen asks for URLs that are there, each once, from all over the store.
func (d *demonstration) askSeen() error {
	n := max(d.asked/100, 1)
	took, requests, _, err := d.ask(n, func(i uint64) uint64 { return i * (d.urls / n) % d.urls }, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%s seen URLs: all found, with %s (%.2f a question) of %s; %v a question.\n",
		humanize.Comma(int64(n)), plural(requests.TableGets, "GET"), float64(requests.TableGets)/float64(n),
		base.FormatBytes(requests.TableGetBytes/max(requests.TableGets, 1)), each(took, n))
	return nil
}

// bill prints all requests so far, and what an object store would ask for them.
func (d *demonstration) bill() {
	n := d.b.Counts()
	price := listPrices.Requests(n.Puts+n.Lists, n.Gets+n.Heads)
	fmt.Fprintf(d.out, "Requests in all: %s PUT, %s GET, %s HEAD, %s LIST, %s DELETE: $%.4f (%s).\n", humanize.Comma(n.Puts), humanize.Comma(n.Gets),
		humanize.Comma(n.Heads), humanize.Comma(n.Lists), humanize.Comma(n.Deletes), price, listPricesOf)
}

// each returns the time of one of n.
func each(took time.Duration, n uint64) time.Duration {
	one := took / time.Duration(max(n, 1))
	if one >= 10*time.Microsecond {
		return one.Round(time.Microsecond)
	}
	return one.Round(10 * time.Nanosecond)
}
