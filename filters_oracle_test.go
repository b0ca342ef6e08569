package shale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
	"github.com/shaledb/shale/vfs"
)

// allKinds returns every kind of key that there is here.
func allKinds(t testing.TB) []testkeys.Kind {
	t.Helper()
	return append(testkeys.Made(), testkeys.Listed(t)...)
}

// A filterOracle asks stores for keys that they hold, and for some that they
// don't.
type filterOracle struct {
	t     *testing.T
	rng   *rand.Rand
	kinds []testkeys.Kind

	name    string // of the store that is asked
	db      *DB
	present [][]byte // in random order
	round   []byte   // that wrote each of them last
	absent  [][]byte // some were there and are deleted

	// What was asked: of present keys, of absent ones, and of single filters.
	yes, no, alone int
	stores         int
	twoUnits       int // filters asked that had their second unit
	oneUnit        int
	without        int // tables asked that had no filter

	// Of bundles: runs that were made from memtables, tables without a filter, and absent keys for which
	// bundle and store had to give the same answer.
	memtables, noFilter, equal int
}

// oracleValue is what round r writes for a key.
func oracleValue(dst []byte, key []byte, r byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst[:0], bloom.Hash(key)), r)
}

// options draws the options, with larger tables and memtables than other tests
// have, and without compactions that come by chance.
func (o *filterOracle) options(fs vfs.FS) *Options {
	bits := []float64{2, 3, 4, 5, 6, 7.5, 8, 10, 12, 13.9, 14, 16, 18, 20, 24, 64}
	rules := []PrefixRule{{}, {}, FixedPrefix(3), FixedPrefix(10), DelimitedPrefix('-', 1), DelimitedPrefix('/', 1), DelimitedPrefix(0, 1)}
	opts := Options{FS: fs, Durability: SyncManual, CompactionWorkers: -1, Tuning: Tuning{FilterPrefix: rules[o.rng.IntN(len(rules))]},
		Compression: []Compression{Snappy, NoCompression, Zstd}[o.rng.IntN(3)]}
	opts.FilterBits = bits[o.rng.IntN(len(bits))]
	opts.MemtableSize, opts.TableSize = 64<<10<<o.rng.IntN(5), 16<<10<<o.rng.IntN(6)
	opts.BlockSize = 512 << o.rng.IntN(4)
	opts.testing.baseSize, opts.testing.runs, opts.testing.level0 = 64<<10<<o.rng.IntN(4), 1+o.rng.IntN(4), 4
	opts.OnEvent = func(e Event) {
		if e.Err != nil {
			o.t.Errorf("%s: event %v: %v", o.name, e.Kind, e.Err)
		}
	}
	o.reading(&opts)
	return &opts
}

// reading chooses what may differ from one Open to the next.
func (o *filterOracle) reading(opts *Options) {
	opts.FilterMemory = []int64{0, 0, 1, 500, 20_000, 60_000}[o.rng.IntN(6)]
	opts.CacheSize = []int64{0, 0, 64 << 10, -1}[o.rng.IntN(4)]
	opts.Tuning.FilterHash, opts.Tuning.LastLevelFilter = FilterHash(o.rng.IntN(3)), FilterKind(o.rng.IntN(2))
}

// choose fills present and absent with keys of one to three kinds.
func (o *filterOracle) choose(n int) (names string) {
	o.present, o.absent = nil, nil
	stored := make(map[string]bool)
	kinds := 1 + o.rng.IntN(3)
	for range kinds {
		kind := o.kinds[o.rng.IntN(len(o.kinds))]
		n := n / kinds
		if kind.Few > 0 {
			n = kind.Few / 8 // of long keys fewer do
		}
		present, absent := kind.Make(o.rng.Uint64(), n, n/4)
		names += ", " + kind.Name
		for _, key := range present {
			if !stored[string(key)] {
				stored[string(key)] = true
				o.present = append(o.present, key)
			}
		}
		o.absent = append(o.absent, absent...)
	}
	// What is absent of one kind may be stored of another.
	o.absent = slices.DeleteFunc(o.absent, func(key []byte) bool { return stored[string(key)] })
	o.round = make([]byte, len(o.present))
	o.rng.Shuffle(len(o.present), func(i, j int) { o.present[i], o.present[j] = o.present[j], o.present[i] })
	return names[2:]
}

// write puts the present keys, or one in so many of them, and deletes some of the
// absent ones.
func (o *filterOracle) write(round byte, one int) {
	var b Batch
	flush := func() {
		if err := o.db.Write(context.Background(), &b); err != nil {
			o.t.Fatal(err)
		}
		b.Reset()
	}
	var value []byte
	for i, key := range o.present {
		if one > 1 && o.rng.IntN(one) > 0 {
			continue
		}
		o.round[i] = round
		value = oracleValue(value, key, round)
		if err := b.Put(key, value); err != nil {
			o.t.Fatal(err)
		}
		if b.Len() == 200 {
			flush()
		}
	}
	for _, key := range o.absent {
		if o.rng.IntN(8*one) > 0 {
			continue
		}
		if err := errors.Join(b.Put(key, nil), b.Delete(key)); err != nil {
			o.t.Fatal(err)
		}
	}
	flush()
}

// ask asks for all keys, in all ways.
func (o *filterOracle) ask(when string) {
	o.t.Helper()
	var want, got []byte
	for i, k := range o.present {
		if !o.db.MayContain(k) {
			o.t.Fatalf("%s, %s: MayContain(%.60q) = false for a present key", o.name, when, k)
		}
		has, err := o.db.Has(k)
		if !has || err != nil {
			o.t.Fatalf("%s, %s: Has(%.60q) = %v, %v for a present key", o.name, when, k, has, err)
		}
		want = oracleValue(want, k, o.round[i])
		if got, err = o.db.AppendValue(got[:0], k); err != nil || !bytes.Equal(got, want) {
			o.t.Fatalf("%s, %s: AppendValue(%.60q) = %x, %v; want %x", o.name, when, k, got, err, want)
		}
	}
	o.yes += 3 * len(o.present)
	for _, k := range o.absent {
		if got, err := o.db.Get(k); !errors.Is(err, ErrNotFound) {
			o.t.Fatalf("%s, %s: Get(%.60q) = %x, %v for an absent key", o.name, when, k, got, err)
		}
	}
	o.no += len(o.absent)
	o.askFilters(when)
	o.compare(when)
}

// compare exports the filters, and compares the answers of the bundle with those of the store.
func (o *filterOracle) compare(when string) {
	o.t.Helper()
	b, info := exportTest(o.t, o.db)
	o.memtables += info.Memtables
	o.noFilter += info.NoFilter
	for _, key := range o.present {
		if !b.MayContain(key) {
			o.t.Fatalf("%s, %s: the bundle denies %.60q, which is there", o.name, when, key)
		}
	}
	same := info.Memtables == 0 && o.allResident() && when != "rebuilt" && when != "without filters" // a bundle has those of files
	for _, key := range o.absent {
		got, want := b.MayContain(key), o.db.MayContain(key)
		if same && got != want || info.Memtables == 0 && got && !want {
			o.t.Fatalf("%s, %s: the bundle answers %v for the absent key %.60q, the store %v", o.name, when, got, key, want)
		}
	}
	if same {
		o.equal += len(o.absent)
	}
}

// allResident reports whether the filters of all tables are in memory as a whole.
func (o *filterOracle) allResident() bool {
	v := o.db.mems.Acquire()
	defer o.db.tree.Release(v.Version)
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			if f := t.Filter(); t.Reader.FilterBytes() > 0 && (f == nil || int64(f.SizeBytes()) != t.Reader.FilterBytes()) {
				return false
			}
		}
	}
	return true
}

// askFilters asks each filter, that of the memtable too, for each key of its
// table, also those that newer runs hide: no other filter answers in its place.
func (o *filterOracle) askFilters(when string) {
	o.t.Helper()
	v := o.db.mems.Acquire()
	defer o.db.tree.Release(v.Version)
	it := v.Mem.NewIterator()
	for kv := it.First(); kv != nil; kv = it.Next() {
		if !v.Mem.MayContain(kv.UserKey) {
			o.t.Fatalf("%s, %s: the memtable's filter denies %.60q", o.name, when, kv.UserKey)
		}
		o.alone++
	}
	o.close(it)
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			f := t.Filter()
			switch {
			case f == nil:
				o.without++
				continue
			case f.Units() == 1:
				o.oneUnit++
			default:
				o.twoUnits++
			}
			it := t.Reader.NewIterator(nil)
			for kv := it.First(); kv != nil; kv = it.Next() {
				if !f.MayContainHash(f.Hasher().Hash(kv.UserKey)) {
					o.t.Fatalf("%s, %s: the filter of table %d denies %.60q", o.name, when, t.Meta.Num, kv.UserKey)
				}
				o.alone++
			}
			o.close(it)
		}
	}
}

func (o *filterOracle) close(it base.Iterator) {
	o.t.Helper()
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		o.t.Fatal(err)
	}
}

func (o *filterOracle) open(dir string, opts *Options) {
	o.t.Helper()
	db, err := Open(dir, opts)
	if err != nil {
		o.t.Fatalf("%s: Open: %v", o.name, err)
	}
	o.db = db
}

// life makes one store and asks it at each stage of its life.
func (o *filterOracle) life(n int) {
	opts := o.options(vfs.NewMem())
	if o.stores%5 == 1 {
		opts.FilterBits = -1
	}
	o.name = o.choose(n) + " with " + fmt.Sprintf("%+v", *opts)
	o.stores++
	o.open("db", opts)
	o.write(1, 1)
	o.ask("written")
	mustFlush(o.t, o.db)
	o.write(2, 5)
	mustFlush(o.t, o.db)
	o.ask("in level 0")
	settle(o.t, o.db)
	o.ask("settled")
	o.write(3, 10)
	mustFlush(o.t, o.db)
	o.write(4, 50)
	if err := o.db.Checkpoint("copy"); err != nil {
		o.t.Fatal(err)
	}
	if o.rng.IntN(2) == 0 {
		if err := o.db.Compact(context.Background(), Range{}); err != nil {
			o.t.Fatal(err)
		}
		o.ask("compacted")
	}
	closeTest(o.t, o.db)
	o.reading(opts)
	for _, c := range []struct {
		dir, when string
		bits      float64
	}{{"db", "read-only", opts.FilterBits}, {"db", "opened again", opts.FilterBits}, {"copy", "a checkpoint", opts.FilterBits},
		{"db", "rebuilt", 10}, {"db", "without filters", -1}} {
		opts := *opts
		opts.FilterBits, opts.ReadOnly = c.bits, c.when == "read-only"
		o.open(c.dir, &opts)
		if c.when == "rebuilt" {
			mustRebuild(o.t, o.db)
		}
		o.ask(c.when)
		closeTest(o.t, o.db)
	}
}

// A filter never denies a key that its table holds: whatever the keys, the bits,
// the memory for filters, and what has happened to the store. With filters and
// without, every answer is the same. A long run asks ten million times at least.
func TestFilterOracle_Stores(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	o := &filterOracle{t: t, rng: rand.New(rand.NewPCG(seed, 0)), kinds: allKinds(t)}
	n, limit, enough := 4000, 800*time.Millisecond, 0
	switch {
	case testenv.Race:
		n, limit = 300, 100*time.Millisecond
	case testing.Short():
		n, limit = 1000, 200*time.Millisecond
	}
	if long > 0 {
		n, limit, enough = 20_000, long, 10_000_000
	}
	begin := time.Now()
	for time.Since(begin) < limit || o.yes+o.alone < enough || min(o.oneUnit, o.twoUnits, o.without, o.memtables, o.noFilter, o.equal) == 0 {
		o.life(n)
	}
	t.Logf("%d questions for present keys, %d more to filters alone (%d of one unit, %d of two, %d tables without), %d for absent keys, %d of them compared with bundles; %d stores in %v",
		o.yes, o.alone, o.oneUnit, o.twoUnits, o.without, o.no, o.equal, o.stores, time.Since(begin).Round(time.Millisecond))
}
