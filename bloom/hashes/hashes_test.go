package hashes

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc64"
	"hash/fnv"
	"slices"
	"sync"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
)

var all = []struct {
	name string
	hash bloom.Hash128
	of   func() hash.Hash
}{
	{"FNV-1a of 64 bits", Of(fnv.New64a), func() hash.Hash { return fnv.New64a() }},
	{"FNV-1a of 128 bits", Of(fnv.New128a), fnv.New128a},
	{"CRC-64", Of(ecma), func() hash.Hash { return ecma() }},
	{"MD5", Of(md5.New), md5.New},
	{"SHA-1", Of(sha1.New), sha1.New},
}

func ecma() hash.Hash64 { return crc64.New(crc64.MakeTable(crc64.ECMA)) }

// unmix is the inverse of form.Finish.
func unmix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0x9cb4b2f8129337db
	h ^= h >> 33
	h *= 0x4f74430c22a54005
	return h ^ h>>33
}

// Without the mixing they are the digests of the standard library, whoever asks at the same time.
func TestOf_Digests(t *testing.T) {
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := range 300 {
				key := make([]byte, n)
				for i := range key {
					key[i] = byte(n*31 + i*17)
				}
				for _, c := range all {
					digest := c.of()
					if _, err := digest.Write(key); err != nil {
						t.Error(err)
					}
					sum := digest.Sum(nil)
					h1, h2 := c.hash(key)
					want1, want2 := binary.LittleEndian.Uint64(sum), h1+0x9e3779b97f4a7c15
					if len(sum) >= 16 {
						want2 = binary.LittleEndian.Uint64(sum[8:])
					}
					if unmix(h1) != want1 || unmix(h2) != want2 {
						t.Errorf("%s of %d bytes = %016x %016x, want %016x %016x", c.name, n, unmix(h1), unmix(h2), want1, want2)
					}
				}
			}
		})
	}
	group.Wait()
}

// Filters contain what these functions return, so it never changes.
func TestOf_Locked(t *testing.T) {
	for i, want := range [][2]uint64{
		{0xbabec1b75c09fd56, 0xa43f3ff036c819ab},
		{0xa7871270b6236c4c, 0x5811c849f4d452e0},
		{0x89101c186e4b1b52, 0x5002e791206a41a9},
		{0x3f9d6801e18575f5, 0xae34948f3c0f1c23},
		{0x27ac77e9e138019c, 0x6d8736f4f4614b04},
	} {
		if h1, h2 := all[i].hash([]byte("key-0")); h1 != want[0] || h2 != want[1] {
			t.Errorf("%s = %#016x, %#016x", all[i].name, h1, h2)
		}
	}
}

func TestOf_TooShort(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "hashes: a digest of 4 bytes" {
			t.Errorf("it panics with %q", got)
		}
	}()
	Of(adler32.New)
}

// A filter over one of them can be read by a program that provides the function again.
func TestSerialized(t *testing.T) {
	for i, c := range all {
		o := bloom.FilterOptions{Keys: 100, Hash: c.hash, HashID: bloom.FirstOwnHashID + bloom.HashID(i)}
		f, err := bloom.NewFilter(o)
		if err != nil {
			t.Fatal(err)
		}
		f.AddString("apple")
		b, err := f.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		g, err := bloom.NewFilter(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.UnmarshalBinary(b); err != nil || !g.MayContainString("apple") || g.MayContainString("pear") {
			t.Errorf("%s: %v, apple %v, pear %v", c.name, err, g.MayContainString("apple"), g.MayContainString("pear"))
		}
		if again, err := g.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: other bytes, %v", c.name, err)
		}
	}
}

func TestAllocate_Nothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	key := bytes.Repeat([]byte("long key "), 40)
	for _, c := range all {
		if n := testing.AllocsPerRun(100, func() { sink, _ = c.hash(key) }); n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

var sink uint64

func BenchmarkOf(b *testing.B) {
	key := []byte("sixteen bytes 16")
	functions := append(slices.Clone(all), all[0], all[0])
	functions[len(all)].name, functions[len(all)].hash = "murmur3", bloom.Murmur3
	functions[len(all)+1].name, functions[len(all)+1].hash = "XXH3", bloom.Must(bloom.NewHasher(bloom.HashXXH3, 0)).Hash128
	for _, c := range functions {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = c.hash(key)
			}
		})
	}
}
