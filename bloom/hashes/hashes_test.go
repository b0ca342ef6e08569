package hashes

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"hash/fnv"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
)

var all = []struct {
	name string
	id   bloom.HashID
	hash bloom.Hash128
}{
	{"FNV", IDFNV, FNV}, {"FNVa", IDFNVa, FNVa}, {"CRC", IDCRC, CRC}, {"XXH3", IDXXH3, XXH3}, {"MD5", IDMD5, MD5}, {"SHA1", IDSHA1, SHA1},
}

// unmix is the inverse of mix.
func unmix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0x9cb4b2f8129337db
	h ^= h >> 33
	h *= 0x4f74430c22a54005
	return h ^ h>>33
}

// Without mix they are the functions of the standard library.
func TestDigests(t *testing.T) {
	for n := range 300 {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(n*31 + i*17)
		}
		one, a, wide := fnv.New64(), fnv.New64a(), fnv.New128a()
		for _, h := range []interface{ Write([]byte) (int, error) }{one, a, wide} {
			if _, err := h.Write(key); err != nil {
				t.Fatal(err)
			}
		}
		sum := wide.Sum(nil)
		m, s := md5.Sum(key), sha1.Sum(key)
		for _, c := range []struct {
			name   string
			hash   bloom.Hash128
			mixed  bool
			w1, w2 uint64
		}{
			{"FNV", FNV, true, one.Sum64(), a.Sum64()},
			{"FNVa", FNVa, true, binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])},
			{"CRC", CRC, true, crc64.Checksum(key, iso), crc64.Checksum(key, ecma)},
			{"MD5", MD5, false, binary.LittleEndian.Uint64(m[:]), binary.LittleEndian.Uint64(m[8:])},
			{"SHA1", SHA1, false, binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:])},
		} {
			h1, h2 := c.hash(key)
			if c.mixed {
				h1, h2 = unmix(h1), unmix(h2)
			}
			if h1 != c.w1 || h2 != c.w2 {
				t.Errorf("%s of %d bytes = %016x %016x, want %016x %016x", c.name, n, h1, h2, c.w1, c.w2)
			}
		}
	}
}

// Filters contain what these functions return, so it never changes. XXH3's hash of the
// empty key is in the test suite of its specification.
func TestDigests_Locked(t *testing.T) {
	if h1, h2 := XXH3(nil); h1 != 0x6001c324468d497f || h2 != 0x99aa06d3014798d8 {
		t.Errorf("XXH3 of nothing = %016x %016x", h1, h2)
	}
	for i, c := range all {
		if c.id != bloom.HashID(64+i) {
			t.Errorf("the id of %s is %d", c.name, c.id)
		}
		h1, h2 := c.hash([]byte("key-0"))
		if got := ByID(c.id); got == nil {
			t.Errorf("ByID(%d) = nil", c.id)
		} else if g1, g2 := got([]byte("key-0")); g1 != h1 || g2 != h2 {
			t.Errorf("ByID(%d) is not %s", c.id, c.name)
		}
	}
	if ByID(1) != nil || ByID(IDSHA1+1) != nil {
		t.Error("ByID of no function of this package")
	}
}

// Filters over them let pass what theory says, whatever the keys are like.
func TestRates(t *testing.T) {
	n, asked := 1000, 10_000
	if testenv.Race || testing.Short() {
		n, asked = 20, 150
	} else if testenv.Long(t) > 0 {
		n, asked = 20_000, 2_000_000
	}
	worst, sum, cells := 0.0, 0.0, 0
	for _, kind := range testkeys.Made() {
		present, absent := kind.Make(1, n, asked)
		for _, c := range all {
			f, err := bloom.NewFilter(bloom.FilterOptions{Keys: uint64(len(present)), Hash: c.hash, HashID: c.id})
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range present {
				f.Add(key)
			}
			passed := 0
			for _, key := range absent {
				if f.MayContain(key) {
					passed++
				}
			}
			for _, key := range present {
				if !f.MayContain(key) {
					t.Fatalf("%s, %s: a key is denied", c.name, kind.Name)
				}
			}
			fill := bloom.SizeFill(f.Cap(), f.K(), uint64(len(present)))
			// Bits that are set have less than half of a multinomial's variance.
			if sigmas := (f.FillRatio() - fill) * 2 * math.Sqrt(float64(f.Cap())); math.Abs(sigmas) > 5 {
				t.Errorf("%s, %s: %.4f of the bits are set, expected %.4f", c.name, kind.Name, f.FillRatio(), fill)
			}
			mean := f.FPR() * float64(len(absent))
			z := 2 * (math.Sqrt(float64(passed)+3./8) - math.Sqrt(mean+3./8))
			worst, sum, cells = max(worst, math.Abs(z)), sum+z, cells+1
			if math.Abs(z) > 5 {
				t.Errorf("%s, %s: %d pass, %.1f expected", c.name, kind.Name, passed, mean)
			}
		}
	}
	t.Logf("%d cells, %d questions each: the farthest %.2f sigma, all together %.2f", cells, asked, worst, sum/math.Sqrt(float64(cells)))
}

// A filter over one of them can be read by a program that provides the function again.
func TestSerialized(t *testing.T) {
	for _, c := range all {
		o := bloom.FilterOptions{Keys: 100, Hash: c.hash, HashID: c.id}
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

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{8, 16, 100, 1000} {
		key := make([]byte, n)
		for _, c := range append(all, struct {
			name string
			id   bloom.HashID
			hash bloom.Hash128
		}{"Murmur3", 0, bloom.Murmur3}) {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					sink, _ = c.hash(key)
				}
			})
		}
	}
}
