package damage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A filterDamage is a table of which only the filter is not what it was.
type filterDamage struct {
	what  string
	file  string
	table []byte
	found bool // as damage; else there is just no filter
	many  bool // one of a kind of which there is one for each byte
}

func (d filterDamage) String() string { return d.file + ": " + d.what }

// filterDamages returns all that is done to the filter of a table: each byte
// changed, each shorter length, at the end and at the beginning, the filter of
// another table, and what a later version may write; each with a checksum of
// the block that fits, and with one that does not.
func filterDamages(rng *rand.Rand, file string, table, other []byte) (all []filterDamage) {
	add := func(what string, seal bool, change func(table []byte)) {
		b := bytes.Clone(table)
		change(b)
		if seal {
			testenv.SealFilter(b)
			what += ", sealed"
		}
		all = append(all, filterDamage{what, file, b, true, strings.Contains(what, " of ")})
	}
	payload, block := testenv.FilterBlock(table)
	at, size := bytes.Index(table, block), len(payload)
	theirs, theirBlock := testenv.FilterBlock(other)
	for _, seal := range []bool{false, true} {
		for i := range size + 1 { // the byte behind is the compression
			bit := byte(1) << rng.IntN(8)
			add(fmt.Sprintf("byte %d of %d xor %#x", i, size, bit), seal, func(b []byte) { b[at+i] ^= bit })
		}
		for n := 1; n < size; n++ {
			add(fmt.Sprintf("cut to %d of %d", n, size), seal, func(b []byte) { testenv.PlaceFilter(b, at, n) })
			add(fmt.Sprintf("begins %d of %d late", n, size), seal, func(b []byte) { testenv.PlaceFilter(b, at+n, size-n) })
		}
		add("zeros", seal, func(b []byte) { clear(b[at : at+size+testenv.BlockTail]) })
		if len(theirs) <= size {
			add("another table's", seal, func(b []byte) {
				testenv.PlaceFilter(b, at, copy(b[at:], theirBlock)-testenv.BlockTail)
			})
		}
	}
	for i := range 4 {
		add(fmt.Sprintf("checksum byte %d", i), false, func(b []byte) { b[at+size+1+i] ^= 1 << rng.IntN(8) })
	}
	for i, name := range []string{"kind", "version", "hash"} {
		add("next "+name, false, func(b []byte) { testenv.BumpFilter(b, i) })
	}
	if payload[size-testenv.FilterTrailer+2] == byte(bloom.HashMurmur3) { // which has none; another seed than the right one nothing could tell
		add("a seed", true, func(b []byte) {
			b[at+size-testenv.FilterTrailer+20]++
			testenv.SealTrailer(b[at : at+size])
		})
	}
	add("with more keys", true, func(b []byte) {
		b[at+size-testenv.FilterTrailer+8]++
		testenv.SealTrailer(b[at : at+size])
	})
	missing := bytes.Clone(table)
	testenv.PlaceFilter(missing, 0, 0)
	return append(all, filterDamage{"missing", file, missing, false, false})
}

// A filteredStore is a store of two tables, for copies of which one filter is
// damaged.
type filteredStore struct {
	mem   *vfs.Mem
	seed  uint64
	opts  string // that it was written with
	files map[string]string
	state harness.State
}

func newFilteredStore(t *testing.T, seed uint64) *filteredStore {
	s := &filteredStore{mem: vfs.NewMem(), seed: seed}
	opts := harness.DrawSeeded(s.mem, seed, 0)
	s.opts = harness.OptionsText(&opts)
	opts.MemtableSize = 64 << 10 // only the script flushes
	opts.FilterMemory = 0
	opts.TableSize, opts.CompactionWorkers, opts.FilterBits = 64<<10, -1, 9 // one unit below, two in the flushed table
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	put := func(step int, value string) {
		for i := 0; i < 90; i += step {
			w := harness.Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: fmt.Appendf(nil, "key%03d", 2*i), Value: []byte(value)}}}
			s.state = s.state.With(w.Ops...)
			if err := db.Write(t.Context(), w.Batch()); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(1, "first")
	put(2, "second") // else the table would be moved down as it is
	if err := db.Compact(t.Context(), shale.Range{}); err != nil {
		t.Fatal(err)
	}
	put(4, "third")
	tables := db.Inspect().Tables()
	if len(tables) != 2 || tables[0].Level != 0 || tables[0].FilterBits < 14 || tables[1].FilterBits > 20 {
		t.Fatalf("not the tables that were wanted: %+v", tables)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s.files = storeFiles(t, s.mem)
	return s
}

// try opens a copy with the damage, read-only or not, and asks it for all keys.
func (s *filteredStore) try(d filterDamage, nth int) (err error) {
	opts, readOnly := harness.DrawSeeded(nil, s.seed, uint64(1+nth)), nth%5 > 0
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; %s; written with %s", err, harness.OptionsText(&opts), s.opts)
		}
	}()
	mem := s.mem.Crash(harness.KeepAll)
	if err := writeFile(mem, d.file, string(d.table)); err != nil {
		return err
	}
	var told atomic.Int64
	var wrong atomic.Pointer[error]
	opts.FS, opts.FilterMemory = mem, 0 // all filters are loaded
	opts.CompactionWorkers, opts.ReadOnly, opts.FilterBits = -1, readOnly, 9
	opts.OnEvent = func(e shale.Event) {
		var c *shale.CorruptionError
		named := errors.As(e.Err, &c) && c.File == d.file || errors.Is(e.Err, shale.ErrFormatTooNew) && strings.Contains(e.Err.Error(), d.file)
		switch {
		case e.Err != nil && !named:
			wrong.Store(&e.Err)
		case e.Kind == shale.EventFilterUnusable:
			told.Add(1)
		}
	}
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.ask(db); err != nil {
		return err
	}
	m := db.Metrics()
	if told := told.Load(); told != int64(m.UnusableFilters) || d.found != (told == 1) {
		return fmt.Errorf("%d events tell of it, %d unusable filters", told, m.UnusableFilters)
	}
	for _, info := range db.Inspect().Tables() {
		is := fmt.Sprintf("%06d.sst", info.Number) == d.file
		if is != (info.FilterBytes == 0) || is == (info.FilterKind == "blocked" || info.FilterKind == "fuse") || is && d.found == (info.FilterKind == "none") {
			return fmt.Errorf("table %+v", info)
		}
	}
	if err := db.Verify(context.Background()); d.found && err == nil {
		return errors.New("Verify finds nothing")
	}
	if err := wrong.Load(); err != nil {
		return fmt.Errorf("event: %w", *err)
	}
	if readOnly {
		return nil
	}
	if err := db.Compact(context.Background(), shale.Range{}); err != nil { // which reads no filter and writes a new one
		return err
	}
	if err := s.ask(db); err != nil {
		return fmt.Errorf("compacted: %w", err)
	}
	return db.Verify(context.Background())
}

// ask asks for what is there and for what is not.
func (s *filteredStore) ask(db *shale.DB) error {
	for _, e := range s.state.Entries() {
		k := []byte(e.Key)
		if !db.MayContain(k) {
			return fmt.Errorf("MayContain(%q) = false; it is there", k)
		}
		if got, err := db.Get(k); err != nil || string(got) != e.Value {
			return fmt.Errorf("Get(%q) = %q, %w; want %q", k, got, err, e.Value)
		}
		if got, err := db.Get(append(k, 'x')); !errors.Is(err, shale.ErrNotFound) {
			return fmt.Errorf("Get(%qx) = %q, %w; want ErrNotFound", k, got, err)
		}
	}
	return nil
}

// Whatever becomes of a filter, its checksum right or wrong, no key is denied:
// the filter is not used, which an event, Metrics, Tables and Verify tell.
func TestFilterDamage_DeniesNothing(t *testing.T) {
	seed := testenv.Seed(t)
	begin := time.Now()
	s := newFilteredStore(t, seed)
	share := testenv.ShareOf(t, seed, 1)
	var cases []filterDamage
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.files)), func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	for i, file := range names {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		cases = append(cases, filterDamages(rng, file, []byte(s.files[file]), []byte(s.files[names[1-i]]))...)
	}
	all := len(cases)
	n := uint64(0)
	cases = slices.DeleteFunc(cases, func(d filterDamage) bool {
		n++
		return d.many && !share.Takes(n)
	})
	testenv.Sweep(t, cases, func(i int, d filterDamage) error { return s.try(d, i) })
	t.Logf("%d of %d damages to filters in %v", len(cases), all, time.Since(begin).Round(time.Millisecond))
}
