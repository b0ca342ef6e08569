package sketch

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// specPlace returns a key's fingerprint and buckets as docs/FORMAT.md says.
func specPlace(f *Cuckoo, h uint64) cuckooPlace {
	x := h * 0x9e3779b97f4a7c15 >> 32
	fp := 1 + x*(1<<f.lanes.width-1)>>32
	m := f.buckets
	y := (fp ^ fp>>33) * 0xff51afd7ed558ccd
	y = (y ^ y>>33) * 0xc4ceb9fe1a85ec53
	y ^= y >> 33
	first, _ := bits.Mul64(h, m)
	sum, _ := bits.Mul64(y, m)
	return cuckooPlace{fp, first, (sum + m - first) % m}
}

// specCopies counts the fingerprints of a key, in serialized bytes.
func specCopies(b []byte, p cuckooPlace) (n int) {
	t := b[len(b)-32:]
	width, buckets := uint64(t[3]), uint64(binary.LittleEndian.Uint32(t[12:]))
	at := func(bit, n uint64) (v uint64) {
		for i := range n {
			v |= uint64(b[(bit+i)/8]>>((bit+i)%8)&1) << i
		}
		return v
	}
	for bucket := range buckets {
		if bucket != p.first && bucket != p.second {
			continue
		}
		for slot := range uint64(4) {
			if at((4*bucket+slot)*width, width) == p.fingerprint {
				n++
			}
		}
	}
	for i := range uint64(t[4]) {
		entry := buckets*4*width + 64*i
		if bucket := at(entry, 32); at(entry+32, 32) == p.fingerprint && (bucket == p.first || bucket == p.second) {
			n++
		}
	}
	return n
}

// checkCuckoo checks what always holds: the count, and that a fingerprint in the stash has
// no free place in its buckets.
func checkCuckoo(t *testing.T, f *Cuckoo) {
	t.Helper()
	if got := f.taken() + uint64(f.waiting); got != f.count {
		t.Fatalf("%d fingerprints, Count() = %d", got, f.count)
	}
	for i, s := range f.stash {
		if i >= f.waiting {
			if s != (stashed{}) {
				t.Fatalf("entry %d of %d of the stash is %v", i, f.waiting, s)
			}
			continue
		}
		for _, bucket := range []uint64{s.bucket, f.other(s.bucket, s.fingerprint)} {
			if f.lanes.has(f.load(bucket), 0) {
				t.Fatalf("stash entry %v could be in bucket %d", s, bucket)
			}
		}
	}
}

// The filter is compared with a map of what was added, in any order, and with more than it
// has room for. No key is ever denied, and each is there as often as it should be.
func TestCuckoo_Model(t *testing.T) {
	testenv.SkipRace(t)
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	steps, failed, stashed := 6000, 0, 0
	if filtertest.Short() {
		steps = 800
	}
	for _, o := range []CuckooOptions{
		{}, {Keys: 5, FingerprintBits: 8}, {Keys: 20, FingerprintBits: 16}, {Keys: 60}, {Keys: 1000}, {Keys: 1000, FingerprintBits: 8},
	} {
		f := mustCuckoo(o)
		pool := filtertest.RandomHashes(rng.Uint64(), 2*int(f.Cap()))
		there := make(map[cuckooPlace]int) // by what the filter can tell apart
		kept := make(map[uint64]int)
		total := 0
		for step := range steps {
			h := pool[rng.IntN(len(pool))]
			// Phases with more additions take turns with phases with more removals.
			adding := rng.IntN(8) < 3+step*8/steps%3
			switch {
			case adding && f.AddHash(h) == nil:
				kept[h]++
				total++
			case adding:
				failed++
			case kept[h] > 0:
				kept[h]--
				total--
				if !f.RemoveHash(h) {
					t.Fatalf("%+v: %016x is denied", o, h)
				}
			}
			if f.waiting > 0 {
				stashed++
			}
			if f.Count() != uint64(total) {
				t.Fatalf("%+v: Count() = %d, want %d", o, f.Count(), total)
			}
			if step%(steps/20) == 0 || step == steps-1 {
				checkCuckoo(t, f)
				b, _ := f.MarshalBinary()
				clear(there)
				for h, n := range kept {
					there[identity(specPlace(f, h))] += n
				}
				for _, h := range pool {
					p := specPlace(f, h)
					want := there[identity(p)]
					if got := specCopies(b, p); got != want || f.MayContainHash(h) != (want > 0) {
						t.Fatalf("%+v: %016x is there %d times, want %d; MayContainHash = %v", o, h, got, want, f.MayContainHash(h))
					}
				}
			}
		}
	}
	t.Logf("%d steps each: %d additions failed, the stash was in use in %d", steps, failed, stashed)
	if failed == 0 || stashed == 0 {
		t.Errorf("%d additions failed, the stash was in use in %d steps: nothing is tested", failed, stashed)
	}
}

// identity is a place with its buckets in order: two keys with the same identity
// are one to the filter.
func identity(p cuckooPlace) cuckooPlace {
	return cuckooPlace{p.fingerprint, min(p.first, p.second), max(p.first, p.second)}
}

// At least 95 % of the places can be taken, in a filter of any size. An addition that fails
// changes nothing, and all keys can be removed again.
func TestCuckoo_Full(t *testing.T) {
	sizes := []int{1, 2, 3, 7, 50, 1000, 12345, 100_000}
	switch {
	case testenv.Long(t) > 0:
		sizes = append(sizes, 1e6, 1e7)
	case filtertest.Short():
		sizes = sizes[:6]
	}
	seed := testenv.Seed(t)
	for _, width := range []int{8, 12, 16} {
		for _, n := range sizes {
			f := mustCuckoo(CuckooOptions{Keys: uint64(n), FingerprintBits: width})
			hs := filtertest.RandomHashes(seed, 4*int(f.Cap())+100)
			full := 0
			for f.AddHash(hs[full]) == nil {
				full++
			}
			if full < n || f.Load() < 0.95 {
				t.Errorf("%d bits, room for %d: full with %d, load %.4f", width, n, full, f.Load())
			}
			before, _ := f.MarshalBinary()
			if err := f.AddHash(hs[full]); !errors.Is(err, ErrFull) {
				t.Errorf("%d bits, room for %d: AddHash = %v, want ErrFull", width, n, err)
			}
			if after, _ := f.MarshalBinary(); string(after) != string(before) {
				t.Errorf("%d bits, room for %d: a failed addition changes the filter", width, n)
			}
			checkCuckoo(t, f)
			t.Logf("%2d bits, room for %8d: full with %8d, load %.4f, %.2f bits a key, %d in the stash", width, n, full, f.Load(),
				8*float64(len(before))/float64(full), f.waiting)
			for i, h := range hs[:full] {
				if !f.RemoveHash(h) {
					t.Fatalf("%d bits, room for %d: number %d of %d is denied", width, n, i, full)
				}
			}
			if empty, _ := NewCuckoo(CuckooOptions{Keys: uint64(n), FingerprintBits: width}); f.Count() != 0 || string(f.table) != string(empty.table) {
				t.Errorf("%d bits, room for %d: %d left of an emptied filter", width, n, f.Count())
			}
		}
	}
}

// One key has eight copies at most, and cannot fill the stash.
func TestCuckoo_Copies(t *testing.T) {
	f := cuckooFor(1000)
	for _, h := range filtertest.RandomHashes(testenv.Seed(t), 100) {
		p := specPlace(f, h)
		want := 8
		if p.first == p.second {
			want = 4
		}
		copies := 0
		for f.AddHash(h) == nil {
			copies++
		}
		if copies != want || f.waiting != 0 {
			t.Errorf("%016x: %d copies, want %d; %d in the stash", h, copies, want, f.waiting)
		}
		for i := range copies {
			if !f.RemoveHash(h) {
				t.Fatalf("%016x: copy %d of %d is denied", h, i, copies)
			}
		}
		if f.MayContainHash(h) || f.RemoveHash(h) {
			t.Errorf("%016x: there after all copies were removed", h)
		}
	}
}

func TestNewCuckoo_Options(t *testing.T) {
	for _, c := range []struct {
		o     CuckooOptions
		bytes int
	}{{CuckooOptions{}, 8}, {CuckooOptions{Keys: 1e6}, 263158*6 + 2}, {CuckooOptions{Keys: 1e6, FingerprintBits: 8}, 263158*4 + 4}, {CuckooOptions{Keys: 1e6, FingerprintBits: 16}, 263158 * 8}} {
		f := mustCuckoo(c.o)
		if f.SizeBytes() != c.bytes || f.Count() != 0 || f.FPR() != 0 || f.MayContain(nil) {
			t.Errorf("NewCuckoo(%+v): %d bytes, want %d", c.o, f.SizeBytes(), c.bytes)
		}
	}
}
