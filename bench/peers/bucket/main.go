// Command bucket counts the requests of Pebble to a bucket that has most of its tables. It is the job that remote/s3/internal/figures
// measures for shale: the same entries, as many bits of filters, and a local part of the same size.
//
//	cd bench/peers && go run ./bucket -n 1000000
//
// It prints a table with a column for each way to divide the local part. README.md of the module says how Pebble is set up.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/remote"

	"github.com/shaledb/shale/bench/peers/internal/stores"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bucket:", err)
		os.Exit(1)
	}
}

// A bench has the store, and the table so far.
type bench struct {
	n, ask, bits, block int
	dir                 string
	memtable            int64
	bucket              *bucket
	store               *stores.Pebble
	shape               string // of the filled store
	table               [][]string
}

// A setup says how many bytes the block cache has, and the cache on disk.
type setup struct {
	name         string
	memory, disk int64
}

// run measures what args say, and prints the table to out.
func run(args []string, out io.Writer) (err error) {
	b := &bench{}
	f := flag.NewFlagSet("bucket", flag.ContinueOnError)
	f.IntVar(&b.n, "n", 1_000_000, "`entries`, of 16 bytes of key and 100 of value")
	f.IntVar(&b.ask, "ask", 300_000, "absent `keys` that are asked for, and as many once more")
	f.IntVar(&b.bits, "bits", 16, "`bits` of filters for each key")
	f.IntVar(&b.block, "block", 32<<10, "`bytes` of a block of a table")
	part := f.Int64("part", 20, "the caches have this `part` of the tables' bytes")
	dir := f.String("dir", "", "`directory` for the store and the bucket (default: that of temporary files)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if b.n < 50_000 || b.ask < 100 || b.bits < 1 || b.block < 1<<10 || *part < 2 || f.NArg() > 0 {
		return errors.New("-n is at least 50000, -ask 100, -bits 1, -block 1024, -part 2, and there are no other arguments")
	}
	if b.dir, err = os.MkdirTemp(*dir, "pebble-bucket-"); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(b.dir)) }()
	budget := int64(float64(b.n)*entrySize*tablePart) / *part
	if err := b.fill(budget); err != nil {
		return err
	}
	// The last one is what shale uses: in memory its filters, 0.8 bytes of index for each key and a MiB of blocks; the budget on disk.
	memory := int64(float64(b.n)*(float64(b.bits)/8+0.8)) + 1<<20
	setups := []setup{{"in memory", budget, 0}, {"half on disk", budget / 2, onDisk(budget / 2)}, {"as shale", memory, onDisk(budget)}}
	b.table = [][]string{{"GETs"}, {"---"}}
	for _, s := range setups {
		b.add("GETs", fmt.Sprintf("%s: %.1f + %.1f MB", s.name, float64(s.memory)/1e6, float64(s.disk)/1e6))
		b.add("---", "---")
		if err := b.measure(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := b.compact(setups[len(setups)-1]); err != nil {
		return err
	}
	fmt.Fprintf(out, "Pebble, %d entries: %s\n\n", b.n, b.shape)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for _, cells := range b.table {
		fmt.Fprintf(w, "|\t%s\t|\n", strings.Join(cells, "\t| "))
	}
	return w.Flush()
}

// open opens the store, and waits until Pebble has read the properties of all tables, which it does in the background.
func (b *bench) open(s setup, reading bool) error {
	loaded := make(chan struct{})
	b.store = stores.NewPebble(func(o *pebble.Options) {
		for i := range o.Levels {
			o.Levels[i].FilterPolicy, o.Levels[i].BlockSize = bloom.FilterPolicy(b.bits), b.block
		}
		o.EventListener = &pebble.EventListener{TableStatsLoaded: func(pebble.TableStatsInfo) { close(loaded) }}
		o.Experimental.RemoteStorage = remote.MakeSimpleFactory(map[remote.Locator]remote.Storage{"": b.bucket})
		o.Experimental.CreateOnShared, o.Experimental.SecondaryCacheSizeBytes = remote.CreateOnSharedLower, s.disk
	})
	err := b.store.Open(filepath.Join(b.dir, "store"), stores.Options{Memtable: b.memtable, Cache: s.memory, Compactions: true, Reading: reading})
	if err == nil {
		<-loaded
	}
	return err
}

// fill makes a store of all entries, notes its shape once no compaction runs, and closes it.
func (b *bench) fill(budget int64) (err error) {
	b.memtable = min(32<<20, budget/10)
	if b.bucket, err = newBucket(filepath.Join(b.dir, "bucket")); err != nil {
		return err
	}
	if err := b.open(setup{memory: budget}, false); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, b.store.Close()) }()
	db := b.store.DB()
	err = db.SetCreatorID(1)
	var key, value []byte
	for i := 0; i < b.n && err == nil; i++ {
		key, value = appendKey(key[:0], i), appendValue(value[:0], i)
		err = db.Set(key, value, pebble.NoSync)
	}
	if err := cmp.Or(err, b.store.Settle()); err != nil {
		return err
	}
	var local, far, tables int64
	for i, l := range db.Metrics().Levels {
		if remote.ShouldCreateShared(remote.CreateOnSharedLower, i) {
			far, tables = far+l.TablesSize, tables+l.TablesCount
		} else {
			local += l.TablesSize
		}
	}
	n := b.bucket.take()
	b.shape = fmt.Sprintf("%d tables of %.1f MB in the bucket, %.1f MB of levels that are local, %.2f PUTs for a table",
		tables, float64(far)/1e6, float64(local)/1e6, float64(n.puts)/float64(max(n.tables, 1)))
	return nil
}

// add adds a cell to the row with a name.
func (b *bench) add(name, cell string) {
	for i, r := range b.table {
		if r[0] == name {
			b.table[i] = append(r, cell)
			return
		}
	}
	b.table = append(b.table, []string{name, cell})
}

// count adds what do takes to the row with a name: of all of it if n is 0, or of one of n operations.
func (b *bench) count(name string, n int, do func() error) error {
	b.bucket.take()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := b.bucket.take()
	cell := fmt.Sprintf("%d, %.1f MB; %d HEADs", r.gets, float64(r.bytes)/1e6, r.heads)
	if n > 0 {
		cell = fmt.Sprintf("%.4f, %.1f KB", float64(r.gets)/float64(n), float64(r.bytes)/float64(n)/1e3)
	}
	b.add(name, cell)
	return nil
}

// measure opens the store with a setup, measures what reads take, and closes it. Absent keys are different ones each time.
func (b *bench) measure(s setup) error {
	if err := b.count("opening again, and what follows by itself", 0, func() error { return b.open(s, true) }); err != nil {
		return err
	}
	few := max(b.ask/300, 100)
	return errors.Join(cmp.Or(
		b.count("an absent key, right after that", b.ask, func() error { return b.look(stores.Seeking, b.n, b.ask, 1, false) }),
		b.count("an absent key, as many once more", b.ask, func() error { return b.look(stores.Seeking, b.n+b.ask, b.ask, 1, false) }),
		b.count("an absent key by Get", few, func() error { return b.look(stores.Held, b.n+2*b.ask, few, 1, false) }),
		b.count("a present key", few, func() error { return b.look(stores.Seeking, 0, few, b.n/few, true) }),
		b.count("a scan of all", 0, b.scan),
	), b.store.Close())
}

// look looks up n keys, the first of which has number first. By Get no filter of the last level is asked, by an iterator all are.
func (b *bench) look(way stores.Way, first, n, step int, want bool) error {
	r, err := b.store.Reader(way)
	if err != nil {
		return err
	}
	var key []byte
	for i := 0; i < n && err == nil; i++ {
		var size int
		key = appendKey(key[:0], first+i*step)
		if size, _, err = r.Get(key); err == nil && (size != stores.Absent) != want {
			err = fmt.Errorf("key %s: a value of %d bytes", key, size)
		}
	}
	return cmp.Or(err, r.Close())
}

// scan goes through all entries.
func (b *bench) scan() error {
	it, err := b.store.Iterator()
	if err != nil {
		return err
	}
	n := 0
	for valid := it.First(); valid; valid = it.Next() {
		n++
	}
	if err := it.Close(); err != nil || n == b.n {
		return err
	}
	return fmt.Errorf("a scan has %d entries, want %d", n, b.n)
}

// compact rewrites the store. Pebble does not rewrite tables of the last level that have nothing above them, so some keys from all
// over the store are written once more.
func (b *bench) compact(s setup) error {
	if err := b.open(s, false); err != nil {
		return err
	}
	db, few := b.store.DB(), max(b.n/1000, 1000)
	for i := range few {
		if err := db.Set(appendKey(nil, i*(b.n/few)), appendValue(nil, i*(b.n/few)), pebble.NoSync); err != nil {
			return cmp.Or(b.store.Close(), err)
		}
	}
	err := b.count("a compaction of all", 0, func() error {
		return cmp.Or(db.Compact(context.Background(), []byte("0"), []byte("g"), true), b.store.Settle()) // keys are hexadecimal digits
	})
	return cmp.Or(err, b.store.Close())
}
