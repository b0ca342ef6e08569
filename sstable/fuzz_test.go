package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/fuzzing"
)

// goldenFiles are the seeds of fuzzing.
func goldenFiles(f *testing.F) [][]byte {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.sst"))
	if err != nil || len(paths) == 0 {
		f.Fatal("no golden tables", err)
	}
	var files [][]byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// goldenBlocks calls fn with the payloads of all blocks of a kind in the golden tables.
func goldenBlocks(f *testing.F, kind BlockKind, fn func(payload []byte)) {
	for _, b := range goldenFiles(f) {
		r, err := openFile(b, Info{Size: int64(len(b))})
		if err != nil {
			f.Fatal(err)
		}
		switch kind {
		case BlockIndex:
			if payload, err := r.readMeta(tail{}, r.foot.index, BlockIndex, alignedBytes); err == nil {
				fn(payload)
			}
		case BlockProperties:
			if payload, err := r.readMeta(tail{}, r.foot.props, BlockProperties, alignedBytes); err == nil {
				fn(payload)
			}
		case BlockData:
			err := r.eachLeaf(func(x *index) error {
				if x.n == 0 {
					return nil
				}
				block, err := r.readBlock(x.handle(0), BlockData, false, nil)
				if err == nil {
					fn(bytes.Clone(block.Bytes()[:x.handle(0).raw]))
					block.Release()
				}
				return err
			})
			if err != nil {
				f.Fatal(err)
			}
		}
	}
}

// inPlace is for decoders that allocate nothing but their errors and one struct.
var inPlace = fuzzing.Limit{Bytes: 1 << 10}

// FuzzDataBlock checks that a payload which is accepted can be searched and walked, and that
// its entries, encoded again, are no longer than the payload.
func FuzzDataBlock(f *testing.F) {
	goldenBlocks(f, BlockData, func(b []byte) { f.Add(b, []byte("key010"), uint64(math.MaxUint64)) })
	f.Fuzz(func(t *testing.T, b, key []byte, limit uint64) {
		var d dataBlock
		inPlace.Check(t, len(b), func() {
			lookIn(b, key, byte(bloom.Hash(key)), base.Trailer(limit)) // must end, for any b
			if checkData(b) != nil {
				return
			}
			d = viewData(b)
			for i := range d.n {
				d.entry(i)
				d.suffix(i)
				d.trailer(i)
			}
			d.seek(key, base.Trailer(limit), 0)
		})
		if d.n == 0 {
			return
		}
		list := dataEntries(t, &d, b)
		for _, at := range []int{0, d.n / 2, d.n - 1} {
			checkFind(t, &d, list, list[at].key.UserKey, list[at].key.Trailer)
		}
		checkFind(t, &d, list, key, base.Trailer(limit))

		var again dataBuilder
		for i, e := range list {
			again.add(e.key, e.value, d.b[dataHeader+i])
		}
		payload := again.finish()
		if err := checkData(payload); err != nil || len(payload) > len(b) {
			t.Fatalf("block of %d bytes comes back with %d, %v", len(b), len(payload), err)
		}
		back := viewData(payload)
		for i, e := range dataEntries(t, &back, payload) {
			if base.Compare(e.key, list[i].key) != 0 || !bytes.Equal(e.value, list[i].value) || payload[dataHeader+i] != b[dataHeader+i] {
				t.Fatalf("entry %d is %v, comes back as %v", i, list[i], e)
			}
		}
	})
}

// dataEntries returns the entries of a block. They are parts of the block.
func dataEntries(t *testing.T, d *dataBlock, b []byte) (list []entry) {
	total := 0
	for i := range d.n {
		suffix, value := d.entry(i)
		total += len(suffix) + len(value)
		trailer := d.trailer(i)
		if kind := trailer.Kind(); !kind.InTables() || kind == base.KindExpiring && len(value) < base.ExpirySize || trailer.Seq() > base.MaxSeq {
			t.Fatalf("entry %d has trailer %v", i, trailer)
		}
		list = append(list, entry{base.InternalKey{UserKey: append(bytes.Clone(d.prefix), suffix...), Trailer: trailer}, value})
	}
	if total > len(b) {
		t.Fatalf("entries have %d bytes, the block %d", total, len(b))
	}
	return list
}

// found returns which entry lookIn finds, or -1. It recognises the entry by the place of its
// value.
func found(d *dataBlock, key []byte, tag byte, limit base.Trailer) int {
	value, trailer, ok := lookIn(d.b, key, tag, limit)
	if !ok {
		return -1
	}
	for i := range d.n {
		if _, v := d.entry(i); cap(v) == cap(value) && len(v) == len(value) && d.trailer(i) == trailer {
			return i
		}
	}
	return -2
}

// checkFind compares lookIn with a walk. If the block is in order, it compares seek too.
func checkFind(t *testing.T, d *dataBlock, list []entry, key []byte, limit base.Trailer) {
	tag := byte(bloom.Hash(key))
	want := slices.IndexFunc(list, func(e entry) bool { return bytes.Equal(e.key.UserKey, key) && e.key.Trailer <= limit })
	for want >= 0 && d.b[dataHeader+want] != tag { // lookIn only looks at entries with the tag
		next := slices.IndexFunc(list[want+1:], func(e entry) bool { return bytes.Equal(e.key.UserKey, key) && e.key.Trailer <= limit })
		if next < 0 {
			want = -1
		} else {
			want += 1 + next
		}
	}
	if got := found(d, key, tag, limit); got != want {
		t.Fatalf("lookIn(%q, %v) = %d, want %d", key, limit, got, want)
	}
	if !slices.IsSortedFunc(list, func(a, b entry) int { return base.Compare(a.key, b.key) }) {
		return
	}
	wanted := base.InternalKey{UserKey: key, Trailer: limit}
	want = slices.IndexFunc(list, func(e entry) bool { return base.Compare(e.key, wanted) >= 0 })
	if want < 0 {
		want = d.n
	}
	if got := d.seek(key, limit, 0); got != want {
		t.Fatalf("seek(%q, %v) = %d of %d, want %d", key, limit, got, d.n, want)
	}
}

// FuzzIndex checks that a search in an accepted index finds what a walk finds, that its
// handles are in bounds, and that its entries, encoded again, are no longer than the payload.
func FuzzIndex(f *testing.F) {
	goldenBlocks(f, BlockIndex, func(b []byte) { f.Add(b, []byte("user000300"), uint64(0)) })
	f.Fuzz(func(t *testing.T, b, key []byte, limit uint64) {
		const end = 1 << 20
		var x index
		accepted := false
		inPlace.Check(t, len(b), func() {
			if accepted = checkIndex(b, end) == nil; accepted {
				x = viewIndex(b)
				x.search(key, base.Trailer(limit))
			}
		})
		if !accepted {
			return
		}
		again := indexBuilder{start: x.start}
		for i := range x.n {
			h, sep := x.handle(i), x.separator(i)
			if h.offset < 0 || h.stored <= 0 || h.offset+int64(h.stored)+blockTail > end || h.raw > h.stored*maxRatio {
				t.Fatalf("handle %d = %+v", i, h)
			}
			if got := x.search(sep.UserKey, sep.Trailer); got != i {
				t.Fatalf("search(%v) = %d, want %d", sep, got, i)
			}
			again.add(sep.UserKey, sep.Trailer, h.offset+int64(h.stored)+blockTail, h.raw)
		}
		want := 0
		for want < x.n && base.Compare(x.separator(want), base.InternalKey{UserKey: key, Trailer: base.Trailer(limit)}) < 0 {
			want++
		}
		if got := x.search(key, base.Trailer(limit)); got != want {
			t.Fatalf("search(%q, %d) = %d of %d, want %d", key, limit, got, x.n, want)
		}
		payload := again.payload(0, x.n)
		if err := checkIndex(payload, end); err != nil || len(payload) > len(b) {
			t.Fatalf("index of %d bytes comes back with %d, %v", len(b), len(payload), err)
		}
		back := viewIndex(payload)
		for i := range x.n {
			if back.handle(i) != x.handle(i) || base.Compare(back.separator(i), x.separator(i)) != 0 {
				t.Fatalf("entry %d, %v %+v, comes back as %v %+v", i, x.separator(i), x.handle(i), back.separator(i), back.handle(i))
			}
		}
	})
}

// FuzzProperties checks that accepted properties are the same after encoding and decoding,
// and that the encoding is no longer.
func FuzzProperties(f *testing.F) {
	goldenBlocks(f, BlockProperties, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		var p *Properties
		var err error
		inPlace.Check(t, len(b), func() { p, err = decodeProperties(b) })
		if err != nil {
			return
		}
		again := p.appendTo(nil)
		q, err := decodeProperties(again)
		const noKeys = 4 // the bounds are written also if they are empty
		if err != nil || !bytes.Equal(q.appendTo(nil), again) || len(again) > len(b)+noKeys {
			t.Fatalf("%+v of %d bytes comes back as %+v of %d, %v", p, len(b), q, len(again), err)
		}
	})
}

// FuzzFooter checks that an accepted footer encodes to the same bytes.
func FuzzFooter(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b[len(b)-footerSize:], int64(len(b)), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, size int64, fix bool) {
		if size < int64(len(b)) {
			return
		}
		if fix && len(b) >= footerSize {
			b = bytes.Clone(b)
			foot := b[len(b)-footerSize:]
			binary.LittleEndian.PutUint32(foot[footerChecksum:], footerCRC(foot))
		}
		var foot *footer
		var err error
		inPlace.Check(t, len(b), func() { foot, err = decodeFooter(b, size) })
		if err != nil {
			return
		}
		if again := foot.appendTo(nil); !bytes.Equal(again, b[len(b)-footerSize:]) {
			t.Fatalf("footer %x comes back as %x", b, again)
		}
	})
}

// A table may make a reader allocate what its blocks grow to when they are
// decompressed, once for each time that they are read; a block of the file is
// read into a buffer of its own before.
var (
	openLimit = fuzzing.Limit{Bytes: 80<<10 + zstdTable, PerByte: maxRatio + 2}       // the index; the file's end, the filter
	passLimit = fuzzing.Limit{Bytes: 80<<10 + zstdTable, PerByte: 2 * (maxRatio + 2)} // all blocks, of a table that is opened a second time
)

// zstdTable is the memory that a decoder of zstd allocates and drops for a damaged block
// whose checksum fits.
const zstdTable = 160 << 10

// FuzzTable opens, scans, asks and salvages any bytes as a table. With fix it makes the
// checksums fit, so that the decoders behind them are reached.
func FuzzTable(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if len(b) > 256<<10 {
			return
		}
		if fix {
			b = fixChecksums(bytes.Clone(b))
		}
		useTable(t, b)
		limit := passLimit
		limit.Bytes += zstdTable * salvageTable(t, b)
		limit.Check(t, len(b), func() { salvageTable(t, b) })
	})
}

// mustBeDamage fails unless err is nil, damage, or base.ErrFormatTooNew.
func mustBeDamage(t *testing.T, err error) {
	var c *base.CorruptionError
	if err != nil && !errors.As(err, &c) && !errors.Is(err, base.ErrFormatTooNew) {
		t.Fatalf("%v is neither damage nor the future", err)
	}
}

// useTable asks a table in a file for everything.
func useTable(t *testing.T, b []byte) {
	var r *Reader
	var err error
	openLimit.Check(t, len(b), func() { r, err = Open(sized{bytes.NewReader(b)}, ReaderOptions{Cache: cache.New(1 << 20)}) })
	mustBeDamage(t, err)
	if err != nil {
		return
	}
	mustBeDamage(t, r.FilterErr())
	passLimit.Check(t, len(b), func() { mustBeDamage(t, r.Verify(context.Background())) })
	var keys []base.InternalKey
	passLimit.Check(t, len(b), func() {
		it := r.NewIterator(nil)
		keys = keys[:0]
		for kv := it.First(); kv != nil; kv = it.Next() {
			if len(keys) < 4 {
				keys = append(keys, base.InternalKey{UserKey: bytes.Clone(kv.UserKey), Trailer: kv.Trailer})
			}
		}
		mustBeDamage(t, it.Err())
		mustBeDamage(t, it.Close())
	})
	passLimit.Check(t, len(b), func() {
		it := r.NewIterator(nil)
		for kv := it.Last(); kv != nil; kv = it.Prev() {
			continue
		}
		mustBeDamage(t, it.Err())
		mustBeDamage(t, it.Close())
	})
	for _, key := range []string{"", "key010", "user000300", "zz"} {
		keys = append(keys, base.NewKey([]byte(key), base.MaxSeq, base.KindPut))
	}
	for _, k := range keys {
		openLimit.Check(t, len(b), func() {
			_, _, _, err := get(r, k.UserKey, k.Seq())
			mustBeDamage(t, err)
		})
		it := r.NewIterator(nil)
		openLimit.Check(t, len(b), func() { it.SeekGE(k.UserKey, k.Seq()) })
		mustBeDamage(t, it.Err())
		openLimit.Check(t, len(b), func() { it.SeekLT(k.UserKey) })
		mustBeDamage(t, it.Err())
		mustBeDamage(t, it.Close())
	}
}

// salvageTable walks what can be read of a file, and returns the number of damages that it
// met.
func salvageTable(t *testing.T, b []byte) (damages uint64) {
	num, storeID, err := Identify(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		num, storeID = testNum, testStore
	}
	s, err := Salvage(context.Background(), bytes.NewReader(b), int64(len(b)), SalvageOptions{Num: num, StoreID: storeID, Filter: true,
		Lost: func(l Lost) { damages++; mustBeDamage(t, l.Err) }})
	mustBeDamage(t, err)
	if err != nil {
		return damages
	}
	for kv := s.First(); kv != nil; kv = s.Next() {
		continue
	}
	mustBeDamage(t, s.Err())
	mustBeDamage(t, s.Close())
	return damages
}

// fixChecksums makes the checksums right of the footer and of each block that the footer and
// the index name.
func fixChecksums(b []byte) []byte {
	if len(b) < footerSize {
		return b
	}
	foot := b[len(b)-footerSize:]
	binary.LittleEndian.PutUint32(foot[footerChecksum:], footerCRC(foot))
	ft, err := decodeFooter(b, int64(len(b)))
	if err != nil {
		return b
	}
	seed := checksumSeed(ft.storeID, ft.num)
	fix := func(h handle, kind BlockKind) {
		at := int(h.offset)
		appendBlockTail(b[:at+h.stored], at, Compression(b[at+h.stored]), seed, kind, h.offset)
	}
	fix(ft.props, BlockProperties)
	fix(ft.index, BlockIndex)
	if ft.filter.stored > 0 {
		fix(ft.filter, BlockFilter)
	}
	r, err := Open(sized{bytes.NewReader(b)}, ReaderOptions{})
	if err != nil {
		return b
	}
	kind := BlockData
	if ft.levels == 2 {
		kind = BlockIndexPartition
	}
	for i := range r.index.Load().n {
		fix(r.index.Load().handle(i), kind)
	}
	if ft.levels == 2 {
		_ = r.eachLeaf(func(x *index) error { // damaged partitions stay damaged
			for i := range x.n {
				fix(x.handle(i), BlockData)
			}
			return nil
		})
	}
	return b
}
