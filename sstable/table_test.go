package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

const (
	testNum   = base.FileNum(7)
	testStore = 0x1122334455667788
)

// An entry is one line of a table's model.
type entry struct {
	key   base.InternalKey
	value []byte
}

func (e entry) String() string { return fmt.Sprintf("%v=%q", e.key, e.value) }

// parseEntries reads "a#3,PUT=x b#2,DEL".
func parseEntries(t testing.TB, s string) []entry {
	t.Helper()
	var list []entry
	for _, f := range strings.Fields(s) {
		k, v, _ := strings.Cut(f, "=")
		key, err := base.ParseKey(k)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{key, []byte(v)})
	}
	return list
}

// sortEntries orders a model and drops repeated internal keys.
func sortEntries(list []entry) []entry {
	slices.SortStableFunc(list, func(a, b entry) int { return base.Compare(a.key, b.key) })
	return slices.CompactFunc(list, func(a, b entry) bool { return base.Compare(a.key, b.key) == 0 })
}

// writeFile writes a table and returns its bytes.
func writeFile(t testing.TB, o WriterOptions, list []entry) ([]byte, Info) {
	t.Helper()
	if o.Num == 0 {
		o.Num, o.StoreID = testNum, testStore
	}
	f, err := vfs.NewMem().Create("000007.sst")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(f, o)
	for _, e := range list {
		if err := w.Add(e.key, e.value); err != nil {
			t.Fatalf("Add(%v) = %v", e.key, err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatalf("Finish() = %v", err)
	}
	b := make([]byte, info.Size)
	if n, err := f.ReadAt(b, 0); n != len(b) {
		t.Fatalf("ReadAt = %d, %v, want %d bytes", n, err, len(b))
	}
	if size, err := f.Size(); err != nil || size != info.Size {
		t.Fatalf("file has %d bytes (%v), Info says %d", size, err, info.Size)
	}
	return b, info
}

func openFile(b []byte, info Info) (*Reader, error) {
	return Open(bytes.NewReader(b), ReaderOptions{
		Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum, Cache: cache.New(1 << 20),
	})
}

// newTable writes a table, opens it and verifies it. So its filter was asked for every key.
func newTable(t testing.TB, o WriterOptions, list []entry) *Reader {
	t.Helper()
	b, info := writeFile(t, o, list)
	r, err := openFile(b, info)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Fatalf("Verify() = %v", err)
	}
	if want := o.FilterBits > 0 && len(list) > 0; (r.Filter() != nil) != want || r.FilterErr() != nil {
		t.Fatalf("Filter() = %v, FilterErr() = %v, want a filter: %v", r.Filter(), r.FilterErr(), want)
	}
	return r
}

// get is Get with a copied value.
func get(r *Reader, key []byte, seq base.Seq) (value []byte, trailer base.Trailer, found bool, err error) {
	var v Value
	found, err = r.Get(key, bloom.Hash(key), seq, &v, nil)
	value, trailer = bytes.Clone(v.Bytes), v.Trailer
	v.Release()
	return value, trailer, found, err
}

// modelGet returns what get must return.
func modelGet(list []entry, key []byte, seq base.Seq) *entry {
	i, _ := slices.BinarySearchFunc(list, base.NewKey(key, seq, base.KindMax), func(e entry, k base.InternalKey) int {
		return base.Compare(e.key, k)
	})
	if i < len(list) && bytes.Equal(list[i].key.UserKey, key) {
		return &list[i]
	}
	return nil
}

// checkGet compares Get with the model.
func checkGet(t testing.TB, r *Reader, list []entry, key []byte, seq base.Seq) {
	t.Helper()
	value, trailer, found, err := get(r, key, seq)
	want := modelGet(list, key, seq)
	switch {
	case err != nil:
		t.Fatalf("Get(%q, %d) = %v", key, seq, err)
	case found != (want != nil):
		t.Fatalf("Get(%q, %d) = %v, want %v", key, seq, found, want)
	case found && (!bytes.Equal(value, want.value) || trailer != want.key.Trailer):
		t.Fatalf("Get(%q, %d) = %q, %v, want %v", key, seq, value, trailer, want)
	}
}

// checkTable compares everything that a table answers with the model.
func checkTable(t testing.TB, r *Reader, list []entry) {
	t.Helper()
	for _, o := range []IterOptions{{}, {NoFill: true}, {NoFill: true, Readahead: 1 << 10}} {
		checkScan(t, r, o, list)
	}
	for _, e := range list {
		k := e.key.UserKey
		for _, seq := range []base.Seq{e.key.Seq(), max(e.key.Seq(), 1) - 1, e.key.Seq() + 1, base.MaxSeq} {
			checkGet(t, r, list, k, min(seq, base.MaxSeq))
		}
		checkGet(t, r, list, append(slices.Clone(k), 0), base.MaxSeq)
		if len(k) > 0 {
			checkGet(t, r, list, k[:len(k)-1], base.MaxSeq)
		}
	}
}

// checkScan walks the table both ways.
func checkScan(t testing.TB, r *Reader, o IterOptions, list []entry) {
	t.Helper()
	it := r.NewIteratorWith(nil, o)
	defer it.Close()
	n := 0
	for kv := it.First(); kv != nil; kv = it.Next() {
		if n >= len(list) || !sameEntry(kv, list[n]) {
			t.Fatalf("%+v: entry %d = %v, want %v", o, n, kv.InternalKey, list[min(n, len(list)-1)])
		}
		n++
	}
	if it.Err() != nil || n != len(list) {
		t.Fatalf("%+v: %d entries, %v, want %d", o, n, it.Err(), len(list))
	}
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		n--
		if n < 0 || !sameEntry(kv, list[n]) {
			t.Fatalf("%+v: backwards: entry %d = %v", o, n, kv.InternalKey)
		}
	}
	if it.Err() != nil || n != 0 {
		t.Fatalf("%+v: backwards: %d entries left, %v", o, n, it.Err())
	}
}

func sameEntry(kv *base.KV, e entry) bool {
	return kv != nil && kv.Trailer == e.key.Trailer && bytes.Equal(kv.UserKey, e.key.UserKey) && bytes.Equal(kv.Value, e.value)
}

// shapes are models that tables must be equal to.
func shapes() map[string][]entry {
	rng := rand.New(rand.NewPCG(7, 7))
	put := func(key string, seq base.Seq, value string) entry {
		return entry{base.NewKey([]byte(key), seq, base.KindPut), []byte(value)}
	}
	s := map[string][]entry{
		"none":      nil,
		"one":       {put("k", 1, "v")},
		"empty key": {put("", 9, "x"), put("", 3, "y"), put("\x00", 1, "")},
		"nothing":   {put("", 0, "")},
		"high": {put("\xff", 1, "a"), put("\xff\xff", base.MaxSeq, "b"), put("\xff\xff", 0, "b0"),
			put("\xff\xff\xff", 2, "c")},
		"prefixes": {put("a", 1, "1"), put("aa", 1, "2"), put("aaa", 1, "3"), put("aaaaaaaa", 1, "4"),
			put("aaaaaaaa\x00", 1, "5"), put("aaaaaaaaa", 1, "6"), put("b", 1, "7")},
		"long keys": {put(strings.Repeat("k", 127), 1, "1"), put(strings.Repeat("k", 128), 1, "2"),
			put(strings.Repeat("k", 20_000)+"x", 1, "3"), put(strings.Repeat("z", maxKeySize), 1, "4")},
		"huge value": {put("a", 1, "1"), put("b", 1, strings.Repeat("value ", 40_000)), put("c", 1, "3")},
	}
	var many, versions, random, ints, equalHeads []entry
	for i := range 1500 {
		many = append(many, put(fmt.Sprintf("user%06d", i*3), base.Seq(i*7919%5000), fmt.Sprintf("value %d of many", i)))
		e := put("same key", base.Seq(5000-i), fmt.Sprintf("version %d", i))
		if i%5 == 0 {
			e.key = base.NewKey(e.key.UserKey, e.key.Seq(), base.KindDelete)
			e.value = nil
		}
		versions = append(versions, e)
		ints = append(ints, put(string([]byte{0, 0, byte(i >> 8), byte(i)}), 0, ""))
		equalHeads = append(equalHeads, put(fmt.Sprintf("%c-https://example.org/%d", 'a'+i%2, i), 5, "x"))
		key := make([]byte, rng.IntN(12))
		for j := range key {
			key[j] = byte(rng.IntN(4)) * 85 // 0x00, 0x55, 0xaa, 0xff
		}
		random = append(random, entry{base.NewKey(key, base.Seq(rng.IntN(50)), base.Kind(rng.IntN(2))),
			bytes.Repeat([]byte{byte(i)}, rng.IntN(40))})
	}
	versions = append(versions, put("same kex", 3, "before"), put("same key and more", 3, "after"))
	s["many"], s["versions"], s["random"], s["integers"] = many, sortEntries(versions), sortEntries(random), ints
	s["equal heads"] = sortEntries(equalHeads)
	return s
}

func TestTable_RoundTrip(t *testing.T) {
	testenv.SkipRace(t)
	options := []WriterOptions{
		{Codec: &SnappyCodec, FilterBits: 10},
		{Codec: nil, BlockSize: 128, IndexPartition: 200},
		{Codec: &ZstdCodec, BlockSize: 512, FilterBits: 20, IndexPartition: 64},
		{Codec: &SnappyCodec, BlockSize: 1, FilterBits: 5, IndexPartition: 1},
		{Codec: &SnappyCodec, BlockSize: 200_000, FilterBits: 24},
	}
	for name, list := range shapes() {
		for _, o := range options {
			t.Run(fmt.Sprintf("%s/%d %v", name, o.BlockSize, o.Codec), func(t *testing.T) {
				r := newTable(t, o, list)
				checkTable(t, r, list)
				if !r.DropIndex() || r.HasIndex() {
					t.Fatal("the index is still in memory")
				}
				checkTable(t, r, list)
			})
		}
	}
}

// failingReader fails its k-th read and all after it, with an error or as if
// the file ended.
type failingReader struct {
	b    []byte
	left int
	err  error
}

func (f *failingReader) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

var errDevice = errors.New("device failed")

// TestReader_ReadErrorIsNoEnd opens and reads a table, and fails each of its reads in turn.
func TestReader_ReadErrorIsNoEnd(t *testing.T) {
	list := shapes()["many"]
	b, info := writeFile(t, WriterOptions{Codec: &SnappyCodec, BlockSize: 128, FilterBits: 10, IndexPartition: 300}, list)
	failed := 0
	for k := range 400 {
		src := &failingReader{b: b, left: k, err: errDevice}
		r, err := Open(src, ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size})
		if err == nil && r.FilterErr() != nil {
			if !errors.Is(r.FilterErr(), errDevice) || r.Filter() != nil {
				t.Fatalf("read %d: FilterErr() = %v, Filter() = %v", k, r.FilterErr(), r.Filter())
			}
			failed++
			continue
		}
		if err == nil {
			err = scanAll(t, r, list, IterOptions{Readahead: k % 2 * 700})
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errDevice) {
			t.Fatalf("read %d: %v, want %v", k, err, errDevice)
		}
		failed++
	}
	if failed < 50 || failed == 400 {
		t.Fatalf("%d reads failed", failed)
	}
}

// scanAll walks both ways. Entries must be right, and an end without an error must be the end
// of the table.
func scanAll(t testing.TB, r *Reader, list []entry, o IterOptions) error {
	t.Helper()
	it := r.NewIteratorWith(nil, o)
	defer it.Close()
	n := 0
	for kv := it.First(); kv != nil; kv = it.Next() {
		if n >= len(list) || !sameEntry(kv, list[n]) {
			t.Fatalf("entry %d = %v=%q is wrong", n, kv.InternalKey, kv.Value)
		}
		n++
	}
	if err := it.Err(); err != nil {
		if it.Next() != nil || it.Prev() != nil || it.Err() == nil {
			t.Fatal("an error went away by itself")
		}
		return err
	}
	if n != len(list) {
		t.Fatalf("%d entries, want %d, and no error", n, len(list))
	}
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		if n--; n < 0 || !sameEntry(kv, list[n]) {
			t.Fatalf("backwards: entry %d = %v is wrong", n, kv.InternalKey)
		}
	}
	if it.Err() == nil && n != 0 {
		t.Fatalf("backwards: %d entries left, and no error", n)
	}
	return it.Err()
}
