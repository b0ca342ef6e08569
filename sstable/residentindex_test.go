package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
)

// largeTable returns a table whose index and filter are too large for the one read with
// ReaderOptions.Later. Its index has one level or, if partition is not 0, two.
func largeTable(t *testing.T, partition int) ([]byte, Info, []entry) {
	t.Helper()
	var list []entry
	for i := range 6000 {
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "key%08d", i), 7, base.KindPut), bytes.Repeat([]byte{byte(i)}, 300)})
	}
	b, info := writeFile(t, WriterOptions{FilterBits: 20, BlockSize: 512, IndexPartition: partition}, list)
	return b, info, list
}

func openWithOptions(t *testing.T, b []byte, info Info, o ReaderOptions) *Reader {
	t.Helper()
	o.Num, o.StoreID, o.Size, o.Checksum, o.Stats = testNum, testStore, info.Size, info.Checksum, new(Stats)
	r, err := Open(bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// With Later, Open reads once. Lookups work before index and filter are loaded, and after.
func TestOpen_Later(t *testing.T) {
	for _, partition := range []int{0, 4 << 10} {
		b, info, list := largeTable(t, partition)
		r := openWithOptions(t, b, info, ReaderOptions{Later: true, Cache: cache.New(8 << 20)})
		index, filter := r.MemoryBytes()
		if index != 0 && partition == 0 || filter != 0 || r.Filter() != nil || r.FilterErr() != nil {
			t.Errorf("partitions of %d: %d bytes of index and %d of filter are in memory at once; %v", partition, index, filter, r.FilterErr())
		}
		checkGet(t, r, list, list[17].key.UserKey, base.MaxSeq)
		checkScan(t, r, IterOptions{}, list)
		for range 2 { // the second time there is nothing to load
			if _, err := r.LoadFilter(false); errors.Join(err, r.LoadIndex()) != nil {
				t.Fatal(err)
			}
		}
		if index, filter = r.MemoryBytes(); index != r.IndexBytes() || index == 0 || filter != r.StoredFilterBytes() || filter == 0 {
			t.Errorf("partitions of %d: %d of %d bytes of index and %d of %d of filter are in memory",
				partition, index, r.IndexBytes(), filter, r.StoredFilterBytes())
		}
		checkGet(t, r, list, list[17].key.UserKey, base.MaxSeq)
	}
}

// What is in the one read of a small table is loaded at once.
func TestOpen_LaterOfASmallTable(t *testing.T) {
	list := shapes()["many"][:20]
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, list)
	r := openWithOptions(t, b, info, ReaderOptions{Later: true})
	if !r.HasIndex() || r.Filter() == nil {
		t.Errorf("index: %v, filter: %v; want both", r.HasIndex(), r.Filter())
	}
}

// An index that is not in memory is read once, as one block. Then it is in the cache, and a
// lookup allocates as little as with an index in memory.
func TestIndex_ThroughTheCache(t *testing.T) {
	b, info, list := largeTable(t, 0)
	r := openWithOptions(t, b, info, ReaderOptions{NoIndex: true, Cache: cache.New(16 << 20)})
	key := list[1000].key.UserKey
	lookUp := func() *Trace {
		trace := new(Trace)
		var v Value
		if found, err := r.Get(key, hashOf(list[1000]), base.MaxSeq, &v, trace); !found || err != nil {
			t.Fatalf("Get = %v, %v", found, err)
		}
		v.Release()
		return trace
	}
	for i := range 2 {
		reads := lookUp().Reads
		if len(reads) != 2 || reads[0].Kind != BlockIndex || reads[1].Kind != BlockData {
			t.Fatalf("a lookup used %+v, want the index and a data block", reads)
		}
		if cached := reads[0].Cached; cached != (i > 0) {
			t.Errorf("lookup %d found the index in the cache: %v", i, cached)
		}
	}
	testenv.SkipRace(t)
	v := Value{Want: WantCopy, Bytes: make([]byte, 0, 1000)}
	it := r.NewIterator(nil)
	defer it.Close()
	if n := testing.AllocsPerRun(100, func() {
		v.Bytes = v.Bytes[:0]
		if found, err := r.Get(key, hashOf(list[1000]), base.MaxSeq, &v, nil); !found || err != nil {
			t.Fatal(found, err)
		}
		it.Reset(r, nil, IterOptions{})
		if it.SeekGE(key, base.MaxSeq) == nil {
			t.Fatal(it.Err())
		}
		_ = it.Close()
	}); n > 0 {
		t.Errorf("a lookup and a seek allocate %v times", n)
	}
}

// Open does not look at an index that it leaves for later. Whoever needs it gets the damage, with
// file and offset, and the table goes on answering for what is loaded.
func TestIndex_DamagedBlock(t *testing.T) {
	b, info, list := largeTable(t, 0)
	at := openWithOptions(t, b, info, ReaderOptions{}).foot.index.offset
	b[at+100] ^= 1
	for _, o := range []ReaderOptions{{NoIndex: true}, {Later: true}} {
		r := openWithOptions(t, b, info, o)
		_, _, _, err := get(r, list[0].key.UserKey, base.MaxSeq)
		it := r.NewIterator(nil)
		if it.First() != nil || it.Last() != nil || it.SeekGE(nil, base.MaxSeq) != nil || it.SeekLT([]byte("z")) != nil {
			t.Error("an iterator without an index shows an entry")
		}
		for what, err := range map[string]error{"Get": err, "LoadIndex": r.LoadIndex(), "iterator": it.Err()} {
			var damage *base.CorruptionError
			if !errors.As(err, &damage) || damage.Offset != at || damage.File != "000007.sst" {
				t.Errorf("%+v: %s: %v, want damage at %d", o, what, err, at)
			}
		}
		_ = it.Close()
	}
}

// Rank is an estimate with an index in memory and without. Both agree on keys that are spread
// evenly.
func TestReader_RankWithoutIndex(t *testing.T) {
	b, info, list := largeTable(t, 0)
	r := openWithOptions(t, b, info, ReaderOptions{})
	bare := openWithOptions(t, b, info, ReaderOptions{NoIndex: true})
	for _, i := range []int{0, 500, 3000, 5999} {
		key := list[i].key.UserKey
		// Decimal digits are not spread evenly as bytes, so the two differ a little.
		if with, without := r.Rank(key), bare.Rank(key); with-without > 0.1 || without-with > 0.1 {
			t.Errorf("Rank(%s) = %.3f with the index, %.3f without", key, with, without)
		}
	}
	for _, tt := range []struct {
		key  string
		want float64
	}{{"", 0}, {"a", 0}, {"key", 0}, {"key9", 1}, {"z", 1}} {
		if got := bare.Rank([]byte(tt.key)); got != tt.want {
			t.Errorf("Rank(%q) = %v, want %v", tt.key, got, tt.want)
		}
	}
}
