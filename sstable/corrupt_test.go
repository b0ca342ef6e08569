package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
)

func hashOf(e entry) uint64 { return bloom.Hash(e.key.UserKey) }

// checkDamage checks that an error about a damaged table names the file and an offset in it.
func checkDamage(t *testing.T, what string, err error, size int64) {
	t.Helper()
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		t.Fatalf("%s: %v is no CorruptionError", what, err)
	}
	if c.File != base.TableName(testNum) || c.Offset < -1 || c.Offset > size || c.Part == "" {
		t.Fatalf("%s: error without a place: %+v", what, c)
	}
}

// checkDamaged asks a damaged table for everything. Each answer must be right or a
// CorruptionError. It returns the number of errors.
func checkDamaged(t *testing.T, what string, b []byte, size int64, checksum uint32, list []entry) (bad int) {
	t.Helper()
	for _, o := range []ReaderOptions{{}, {NoIndex: true}} {
		o.Num, o.StoreID, o.Size, o.Checksum, o.Cache = testNum, testStore, size, checksum, cache.New(1<<20)
		bad += checkDamagedWith(t, what, b, o, list)
	}
	return bad
}

// checkDamagedWith is checkDamaged for a Reader with options o.
func checkDamagedWith(t *testing.T, what string, b []byte, o ReaderOptions, list []entry) (bad int) {
	t.Helper()
	src, size := bytes.NewReader(b), o.Size
	r, err := Open(src, o)
	if err != nil {
		checkDamage(t, what, err, size)
		bad++
		r = OpenLost(src, o, uint64(len(list)), err)
		if _, _, found, err := get(r, list[0].key.UserKey, base.MaxSeq); err == nil {
			t.Fatalf("%s: a lost table finds an entry: %v", what, found)
		}
		_, _ = r.LoadIndex(), r.Rank(list[len(list)/2].key.UserKey)
	}
	if err := r.FilterErr(); err != nil {
		checkDamage(t, what, err, size)
		if r.Filter() != nil {
			t.Fatalf("%s: a filter although %v", what, err)
		}
		bad++
	}
	for _, e := range list {
		if f := r.Filter(); f != nil && !f.MayContainHash(hashOf(e)) {
			t.Fatalf("%s: the filter hides %v", what, e)
		}
		for _, key := range [][]byte{e.key.UserKey, append(bytes.Clone(e.key.UserKey), '!')} {
			value, trailer, found, err := get(r, key, e.key.Seq())
			want := modelGet(list, key, e.key.Seq())
			switch {
			case err != nil:
				checkDamage(t, what, err, size)
				bad++
			case found != (want != nil) || found && (!bytes.Equal(value, want.value) || trailer != want.key.Trailer):
				t.Fatalf("%s: Get(%q, %d) = %v %q, want %v", what, key, e.key.Seq(), found, value, want)
			}
		}
	}
	for _, o := range []IterOptions{{}, {Readahead: 4 << 10}} {
		if err := scanAll(t, r, list, o); err != nil {
			checkDamage(t, what, err, size)
			bad++
		}
	}
	err = r.Verify(context.Background())
	if err == nil {
		t.Fatalf("%s: Verify finds nothing", what)
	}
	checkDamage(t, what, err, size)
	var c *base.CorruptionError
	if !errors.As(err, &c) || c.Offset < 0 {
		t.Fatalf("%s: Verify names no place: %v", what, err)
	}
	return bad
}

func damageTables(t *testing.T) map[string]WriterOptions {
	t.Helper()
	return map[string]WriterOptions{
		"snappy":                     {Codec: &SnappyCodec, BlockSize: 400, FilterBits: 10},
		"two levels, raw, two units": {BlockSize: 200, FilterBits: 20, IndexPartition: 120},
		"zstd":                       {Codec: &ZstdCodec, BlockSize: 600},
	}
}

func damageEntries() []entry {
	var list []entry
	for i := range 12 { // versions of the empty key fill several blocks, and a partition
		list = append(list, entry{base.NewKey(nil, base.Seq(100-i), base.Kind(i%3+1)/2), bytes.Repeat([]byte{'e'}, 150)})
	}
	return append(list, goldenEntries()...)
}

// goldenEntries are the entries of the golden tables. They never change.
func goldenEntries() []entry {
	var list []entry
	for i := range 60 {
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "key%03d", i/2*2), base.Seq(100-i), base.Kind(i%3+1)/2),
			bytes.Repeat([]byte{'a' + byte(i%7)}, i%5*7)})
	}
	return list
}

// TestDamage_EveryByte flips a bit of every byte of a table.
func TestDamage_EveryByte(t *testing.T) {
	testenv.SkipRace(t)
	list := damageEntries()
	rng := rand.New(rand.NewPCG(3, 4))
	for name, o := range damageTables(t) {
		b, info := writeFile(t, o, list)
		seen := 0
		for at := range b {
			bit := byte(1) << rng.IntN(8)
			b[at] ^= bit
			if checkDamaged(t, fmt.Sprintf("%s: byte %d ^ %#x", name, at, bit), b, info.Size, info.Checksum, list) > 0 {
				seen++
			}
			b[at] ^= bit
		}
		if seen < len(b)*9/10 {
			t.Errorf("%s: only %d of %d flips were noticed by readers", name, seen, len(b))
		}
		t.Logf("%s: %d bytes, %d noticed by readers, all by Verify", name, len(b), seen)
	}
}

// TestDamage_Truncated cuts a table at every length, and also makes it longer.
func TestDamage_Truncated(t *testing.T) {
	testenv.SkipRace(t)
	list := damageEntries()
	for name, o := range damageTables(t) {
		b, info := writeFile(t, o, list)
		for n := range b {
			if _, err := openFile(b[:n], info); err == nil {
				t.Fatalf("%s: opens with %d of %d bytes", name, n, len(b))
			} else {
				checkDamage(t, name, err, info.Size)
			}
			// The same without the length that the manifest knows.
			r, err := Open(bytes.NewReader(b[:n]), ReaderOptions{Num: testNum, StoreID: testStore, Size: int64(n)})
			if err == nil && n > 0 {
				t.Fatalf("%s: opens with %d bytes: %v", name, n, r.props)
			}
		}
		longer := append(bytes.Clone(b), 0)
		_, err := openFile(longer, info)
		checkDamage(t, name+" and a byte", err, info.Size)
	}
}

// TestOpen_AnotherTable opens files that are tables, but not the wanted one.
func TestOpen_AnotherTable(t *testing.T) {
	list := damageEntries()
	b, info := writeFile(t, WriterOptions{}, list)
	good := ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum}
	cases := map[string]func(o *ReaderOptions){
		"number":   func(o *ReaderOptions) { o.Num++ },
		"store":    func(o *ReaderOptions) { o.StoreID++ },
		"checksum": func(o *ReaderOptions) { o.Checksum++ },
	}
	for name, change := range cases {
		o := good
		change(&o)
		_, err := Open(bytes.NewReader(b), o)
		var c *base.CorruptionError
		if !errors.As(err, &c) || c.File != base.TableName(o.Num) || c.Part != "footer" {
			t.Errorf("other %s: Open = %v", name, err)
		}
	}
}

// TestOpen_UnknownSize opens a file about which nothing is known, like a tool does.
func TestOpen_UnknownSize(t *testing.T) {
	b, _ := writeFile(t, WriterOptions{FilterBits: 10}, damageEntries())
	r, err := Open(sized{bytes.NewReader(b)}, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.num != testNum || r.size != int64(len(b)) {
		t.Errorf("number %v, size %d", r.num, r.size)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := Open(&failingReader{b: b, left: 9}, ReaderOptions{}); err == nil {
		t.Error("Open without any size succeeds")
	}
}

type sized struct{ *bytes.Reader }

func (s sized) Size() (int64, error) { return s.Reader.Size(), nil }

// A write that went to the wrong place leaves a whole block there, whose bytes
// are right but for that.
func TestDamage_BlocksSwapped(t *testing.T) {
	var list []entry
	for i := range 200 {
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "key%03d", i), base.Seq(i+1), base.KindPut), fmt.Appendf(nil, "value%03d", i)})
	}
	b, info := writeFile(t, WriterOptions{BlockSize: 200, FilterBits: 10}, list)
	r, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	swapped := 0
	for i := 1; i < r.index.Load().n; i++ {
		x, y := r.index.Load().handle(i-1), r.index.Load().handle(i)
		if x.stored != y.stored {
			continue
		}
		damaged, n := bytes.Clone(b), int64(x.stored+blockTail)
		copy(damaged[x.offset:], b[y.offset:y.offset+n])
		copy(damaged[y.offset:], b[x.offset:x.offset+n])
		checkDamaged(t, fmt.Sprintf("blocks %d and %d swapped", i-1, i), damaged, info.Size, info.Checksum, list)
		swapped++
	}
	if swapped < 5 {
		t.Errorf("only %d of %d blocks are as long as their neighbours", swapped, r.index.Load().n)
	}
}

// reseal gives a block new bytes and a right checksum.
func reseal(b []byte, h handle, kind BlockKind, c Compression) {
	seed := checksumSeed(testStore, testNum)
	at := int(h.offset)
	appendBlockTail(b[:at+h.stored], at, c, seed, kind, h.offset)
}

// TestUnknown_IsTooNew changes what a newer version may change, under right checksums.
func TestUnknown_IsTooNew(t *testing.T) {
	list := parseEntries(t, "a#9,PUT=1 a#8,DEL b#1,PUT=2")
	fresh := func() ([]byte, Info, *Reader) {
		b, info := writeFile(t, WriterOptions{FilterBits: 10}, list)
		r, err := openFile(b, info)
		if err != nil {
			t.Fatal(err)
		}
		return b, info, r
	}
	t.Run("kind of entry", func(t *testing.T) {
		b, info, r := fresh()
		h := r.index.Load().handle(0)
		d := viewData(b[:h.stored])
		b[d.trailers] = b[d.trailers]&0xf0 | 3 ^ byte(putBit)
		reseal(b, h, BlockData, noCompression)
		r, err := openFile(b, info)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := get(r, []byte("a"), base.MaxSeq); !errors.Is(err, base.ErrFormatTooNew) {
			t.Errorf("Get = %v, want ErrFormatTooNew", err)
		}
	})
	t.Run("compression", func(t *testing.T) {
		b, info, r := fresh()
		reseal(b, r.index.Load().handle(0), BlockData, 9)
		r, _ = openFile(b, info)
		if _, _, _, err := get(r, []byte("a"), base.MaxSeq); !errors.Is(err, base.ErrFormatTooNew) {
			t.Errorf("Get = %v, want ErrFormatTooNew", err)
		}
	})
	t.Run("filter", func(t *testing.T) {
		b, info, r := fresh()
		h := r.foot.filter
		b[int(h.offset)+h.stored-32] = 0xee // the kind in the filter's trailer
		reseal(b, h, BlockFilter, noCompression)
		r, err := openFile(b, info)
		if err != nil || r.Filter() != nil || r.FilterErr() == nil {
			t.Fatalf("Open = %v, Filter() = %v, FilterErr() = %v", err, r.Filter(), r.FilterErr())
		}
		checkScan(t, r, IterOptions{}, list)
	})
}
