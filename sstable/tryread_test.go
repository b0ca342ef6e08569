package sstable

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A moodySource reads without waiting, or would wait, can't tell, fails, or reads wrong bytes, as
// chance decides. Iterators must not let it show.
type moodySource struct {
	src io.ReaderAt
	rng *rand.Rand
}

func (m *moodySource) TryReadAt(p []byte, off int64) error {
	switch m.rng.IntN(8) {
	case 0:
		return vfs.ErrUnsupported
	case 1:
		return errDevice
	case 2:
		for i := range p {
			p[i] = byte(m.rng.Uint32())
		}
		return nil
	case 3, 4:
		return vfs.ErrWouldWait
	}
	_, err := m.src.ReadAt(p, off)
	return err
}

func (m *moodySource) WillNeed(int64, int64) {}

// An access is what a seek did to a file: "need", or "read" with a wait.
type access struct {
	what     string
	table    int
	from, to int64
}

// A coldSource is a table none of whose blocks are in the system's memory. It writes to a log
// that several tables share.
type coldSource struct {
	*bytes.Reader
	table int
	log   *[]access
}

func (s *coldSource) ReadAt(p []byte, off int64) (int, error) {
	*s.log = append(*s.log, access{"read", s.table, off, off + int64(len(p))})
	return s.Reader.ReadAt(p, off)
}

func (s *coldSource) TryReadAt([]byte, int64) error { return vfs.ErrWouldWait }

func (s *coldSource) WillNeed(off, n int64) {
	*s.log = append(*s.log, access{"need", s.table, off, off + n})
}

// coldTables opens n tables of a key space that they share, with one cache.
func coldTables(t *testing.T, n int, o WriterOptions) (readers []*Reader, keys [][]byte, log *[]access) {
	t.Helper()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	lists := make([][]entry, n)
	for i := range 9000 {
		key := fmt.Appendf(nil, "key%08d", i)
		keys = append(keys, key)
		at := rng.IntN(n)
		lists[at] = append(lists[at], entry{base.NewKey(key, 7, base.KindPut), bytes.Repeat(fmt.Append(nil, i), 10)})
	}
	log = new([]access)
	blocks := cache.New(64 << 20)
	for i, list := range lists {
		o.Num, o.StoreID = testNum+base.FileNum(i), testStore
		b, info := writeFile(t, o, list)
		src := &coldSource{bytes.NewReader(b), i, log}
		r, err := Open(src, ReaderOptions{Num: o.Num, StoreID: testStore, Size: info.Size, Cache: blocks})
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	*log = nil
	return readers, keys, log
}

// TestSeek_AsksForAllBeforeItWaits seeks in several tables whose blocks are neither in the cache
// nor in the system's memory. Every block is asked for before the first is waited for, and only
// once, and never if it is in the cache. With an index of two levels the same holds of the
// partitions before that, and of indexes that are not in memory.
func TestSeek_AsksForAllBeforeItWaits(t *testing.T) {
	for n := range 6 {
		partition, back := []int{0, 300, 0}[n%3], n >= 3
		const tables = 6
		readers, keys, log := coldTables(t, tables, WriterOptions{Codec: &SnappyCodec, BlockSize: 1 << 10, IndexPartition: partition})
		its := make([]base.Iterator, tables)
		for i, r := range readers {
			if n%3 == 2 {
				r.DropIndex()
			}
			its[i] = r.NewIterator(nil)
		}
		m := iter.NewMerging(its...)
		rng := rand.New(rand.NewPCG(testenv.Seed(t), 4))
		inCache := make(map[access]bool) // as reads
		all := 0                         // seeks that missed in all tables
		for round := range 300 {
			*log = nil
			key := keys[rng.IntN(len(keys))]
			seekEither(m, key, back)
			if round == 0 && n%3 > 0 {
				checkIndexesAsked(t, readers, *log)
			}
			missed := checkAccesses(t, readers, *log, inCache)
			if missed == tables {
				all++
			}
			*log = nil
			if seekEither(m, key, back); len(*log) > 0 {
				t.Fatalf("the same seek again: %v", *log)
			}
		}
		if all < 3 {
			t.Errorf("partition %d, back %v: only %d seeks have missed in all tables", partition, back, all)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkIndexesAsked checks that the first seek has asked for an index, or a partition, of each table.
func checkIndexesAsked(t *testing.T, readers []*Reader, log []access) {
	t.Helper()
	asked := 0
	for _, a := range log {
		if a.what == "need" && a.from >= int64(readers[a.table].props.DataBytes) {
			asked++
		}
	}
	if asked != len(readers) {
		t.Errorf("%d indexes or partitions of %d tables were asked for: %v", asked, len(readers), log)
	}
}

func seekEither(it base.Iterator, key []byte, back bool) {
	if back {
		it.SeekLT(key)
	} else {
		it.SeekGE(key, base.MaxSeq)
	}
}

// checkAccesses checks what one seek did, adds the blocks that it read to inCache, and returns how
// many data blocks it asked for. A seek may read one more block of a table, unasked: the neighbour,
// if the block that it asked for ends before the target.
func checkAccesses(t *testing.T, readers []*Reader, log []access, inCache map[access]bool) (asked int) {
	t.Helper()
	isData := func(a access) bool { return a.to <= int64(readers[a.table].props.DataBytes) }
	for _, data := range []bool{false, true} {
		part := slices.DeleteFunc(slices.Clone(log), func(a access) bool { return isData(a) != data })
		waited, needed := false, make(map[int]access)
		for _, a := range part {
			before, twice := needed[a.table]
			switch {
			case a.what == "read":
				waited = true
				if inCache[a] {
					t.Fatalf("%v: in the cache, and read again", a)
				}
				inCache[a] = true
			case waited:
				t.Fatalf("%v is asked for after a wait: %v", a, part)
			case twice:
				t.Fatalf("%v and %v are both asked for", before, a)
			default:
				needed[a.table] = a
			}
		}
		for _, a := range needed {
			if !slices.ContainsFunc(part, func(r access) bool {
				return r.what == "read" && r.table == a.table && a.from <= r.from && r.to <= a.to
			}) {
				t.Fatalf("%v is asked for, and not read: %v", a, part)
			}
			for r := range inCache {
				if r.table == a.table && a.from <= r.from && r.to <= a.to && !slices.Contains(part, r) {
					t.Fatalf("%v is asked for with %v, which is in the cache", a, r)
				}
			}
		}
		asked = len(needed)
	}
	return asked
}

// TestSeek_ReadsWhatIsInMemory checks that a seek takes what the system has in memory without a
// read that may wait. A few seeks go on to the next block, by a read like that of a step, which may
// read two blocks at once.
func TestSeek_ReadsWhatIsInMemory(t *testing.T) {
	readers, keys, log := coldTables(t, 2, WriterOptions{BlockSize: 1 << 10})
	its := make([]base.Iterator, len(readers))
	for i, r := range readers {
		r.try = inMemory{r.src.(*coldSource).Reader}
		its[i] = r.NewIterator(nil)
	}
	m := iter.NewMerging(its...)
	defer m.Close()
	for i := range keys {
		if kv := m.SeekGE(keys[i*7%len(keys)], base.MaxSeq); kv == nil || !bytes.Equal(kv.UserKey, keys[i*7%len(keys)]) {
			t.Fatalf("SeekGE(%q) = %v, %v", keys[i*7%len(keys)], kv, m.Err())
		}
	}
	if len(*log) > len(keys)/100 {
		t.Errorf("%d accesses that may wait, the first is %v", len(*log), (*log)[0])
	}
	for i, r := range readers {
		if got, want := r.stats.CacheMisses.Load(), uint64(r.index.Load().n); got != want || r.stats.ReadCalls.Load()+uint64(len(*log)) < want {
			t.Errorf("table %d: %d misses and %d reads, want %d", i, got, r.stats.ReadCalls.Load(), want)
		}
	}
}

// inMemory is a source that has everything in memory.
type inMemory struct{ r *bytes.Reader }

func (s inMemory) TryReadAt(p []byte, off int64) error {
	_, err := s.r.ReadAt(p, off)
	return err
}

func (s inMemory) WillNeed(int64, int64) {}

// TestIterator_ReadaheadBothWays counts the reads of passes over a table with
// IterOptions.Readahead, in both directions, and checks that they leave the cache alone, index
// partitions included.
func TestIterator_ReadaheadBothWays(t *testing.T) {
	r, src, list := windowTable(t, &SnappyCodec, 64<<20)
	passes(t, r, src, list)
	readers, keys, log := coldTables(t, 1, WriterOptions{Codec: &SnappyCodec, IndexPartition: 300})
	it := readers[0].NewIteratorWith(nil, IterOptions{Readahead: 64 << 10})
	defer it.Close()
	n := 0
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		n++
	}
	if held := readers[0].cache.Stats().Blocks; n != len(keys) || held > 0 || len(*log) == 0 {
		t.Errorf("%d of %d entries; %d blocks are in the cache", n, len(keys), held)
	}
}

// passes makes a pass in each direction.
func passes(t *testing.T, r *Reader, src *badSector, list []entry) {
	t.Helper()
	const size = 64 << 10
	it := r.NewIteratorWith(nil, IterOptions{Readahead: size})
	defer it.Close()
	for _, pass := range []struct{ start, step func() *base.KV }{{it.First, it.Next}, {it.Last, it.Prev}} {
		src.calls = 0
		n := 0
		for kv := pass.start(); kv != nil; kv = pass.step() {
			n++
		}
		// A window begins with a whole block, so up to a block of it is read twice.
		if most := int(r.props.DataBytes/(size-8<<10)) + 2; n != len(list) || src.calls > most {
			t.Errorf("%d of %d entries in %d reads, want %d", n, len(list), src.calls, most)
		}
	}
}

// TestIterator_AsksAheadBackwards checks that a scan towards smaller keys asks for each window
// while it has the one before, and a scan towards larger keys for none: there the system reads
// ahead by itself.
func TestIterator_AsksAheadBackwards(t *testing.T) {
	readers, keys, log := coldTables(t, 1, WriterOptions{})
	it := readers[0].NewIterator(nil)
	defer it.Close()
	n := 0
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		n++
	}
	asked, reads := access{}, 0
	for _, a := range *log {
		switch {
		case a.what == "need":
			asked = a
		case a.to-a.from >= minAhead && reads > 0 && (a.from < asked.from || a.from >= asked.to):
			t.Errorf("%v begins outside of %v", a, asked)
		}
		if a.what == "read" && a.to-a.from >= minAhead {
			reads++
		}
	}
	if n != len(keys) || reads < 3 {
		t.Errorf("%d of %d entries in %d windows", n, len(keys), reads)
	}
	readers[0].cache = cache.New(0)
	forward := readers[0].NewIterator(nil)
	defer forward.Close()
	kv := forward.First()
	for *log = nil; kv != nil; kv = forward.Next() {
	}
	if slices.ContainsFunc(*log, func(a access) bool { return a.what == "need" }) {
		t.Errorf("a scan forward asks: %v", *log)
	}
}
