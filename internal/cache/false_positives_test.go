package cache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/shaledb/shale/internal/testenv"
)

// fpHash is a bad hash, so that many keys share one.
func fpHash(key []byte) uint64 { return uint64(len(key)) }

func TestFalsePositives_ExactUnderEqualHashes(t *testing.T) {
	f := NewFalsePositives(1 << 16)
	remembered := map[string]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		table := 1 + rng.Uint64N(3)
		key := fmt.Appendf(nil, "key%03d", rng.IntN(200))
		id := fmt.Sprint(table, string(key))
		if f.Has(table, key, fpHash(key)) && !remembered[id] {
			t.Fatalf("table %d is said not to hold %q, which nobody has proven", table, key)
		}
		if rng.IntN(10) == 0 {
			f.Remember(table, key, fpHash(key))
			remembered[id] = true
			if !f.Has(table, key, fpHash(key)) {
				t.Fatalf("Has(%d, %q) = false right after Remember", table, key)
			}
		}
	}
}

func TestFalsePositives_Bounded(t *testing.T) {
	for _, limit := range []int{0, 100, 1000, 4 << 10, 64 << 10, 1 << 20} {
		f := NewFalsePositives(limit)
		rng := rand.New(rand.NewPCG(3, uint64(limit)))
		key := make([]byte, 4096)
		for i := range 30000 {
			k := key[:rng.IntN(1+rng.IntN(len(key)))]
			if i%2 == 0 {
				k = key[:rng.IntN(20)]
			}
			f.Remember(uint64(i%100), k, rng.Uint64())
			if got := f.Bytes(); got > limit || limit >= 4<<10 && got < limit*3/4 {
				t.Fatalf("%d bytes after %d keys; the limit is %d", got, i+1, limit)
			}
		}
		for table := range uint64(100) {
			f.Forget(table)
		}
		if n := fpEntries(t, f); n != 0 {
			t.Errorf("limit %d: %d entries after all tables were forgotten", limit, n)
		}
	}
}

// A store without false positives pays nothing for their memory.
func TestFalsePositives_NothingBeforeTheFirst(t *testing.T) {
	f := NewFalsePositives(1 << 20)
	f.Forget(1)
	f.Remember(1, make([]byte, fpLongest+1), 5)
	if f.Has(1, []byte("key"), 7) || f.Bytes() != 0 {
		t.Errorf("%d bytes although nothing was remembered", f.Bytes())
	}
	f.Remember(1, []byte("key"), 7)
	if !f.Has(1, []byte("key"), 7) || f.Bytes() < 1<<19 {
		t.Errorf("%d bytes after the first", f.Bytes())
	}
}

// fpEntries checks that no entry overlaps another one
// or the hand, and returns how many entries there are.
func fpEntries(t *testing.T, f *FalsePositives) (n int) {
	t.Helper()
	if f == nil {
		return 0
	}
	for i := range f.all() {
		s := &f.all()[i]
		end := 0
		for j := range fpWays {
			tag, span := s.tags[j].Load(), int(s.span[j])
			if tag != 0 != (span > 0) || span > 0 && j < end || j+span > fpWays {
				t.Fatalf("set %d: tag %x and %d ways at %d, where the entry before ends at %d", i, tag, span, j, end)
			}
			if j < s.hand && s.hand < j+span {
				t.Fatalf("set %d: the hand is at %d, within an entry at %d of %d ways", i, s.hand, j, span)
			}
			if span > 0 {
				n, end = n+1, j+span
			}
		}
	}
	return n
}

// Keys of all lengths are added and replaced. Each is found right after
// it was added, entries never overlap, and as many fit as there are ways.
func TestFalsePositives_Ways(t *testing.T) {
	testenv.SkipRace(t)
	for _, longest := range []int{16, 17, 60, fpLongest} {
		f := NewFalsePositives(20 * int(unsafe.Sizeof(fpSet{})))
		rng := rand.New(rand.NewPCG(5, uint64(longest)))
		for i := range 20000 {
			key := make([]byte, rng.IntN(longest+1))
			for j := range key {
				key[j] = byte(rng.Uint32())
			}
			table, hash := uint64(1+rng.IntN(3)), rng.Uint64()
			f.Remember(table, key, hash)
			if !f.Has(table, key, hash) {
				t.Fatalf("key %d, of %d bytes, is not there right after Remember", i, len(key))
			}
			if rng.IntN(4) == 0 {
				f.Has(table, key, hash)
			}
			if rng.IntN(2000) == 0 {
				f.Forget(table)
			}
			fpEntries(t, f)
		}
		if n := fpEntries(t, f); longest <= 16 && n != f.n*fpWays {
			t.Errorf("%d entries of at most 16 bytes, want one in each of %d ways", n, f.n*fpWays)
		}
	}
}

// The limit is true for the memory that the allocator really uses, and not only
// for the sums kept here. With keys of usual length, most of that memory is used.
func TestFalsePositives_LimitHoldsForTheHeap(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what allocations take")
	}
	liveHeap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const slack = 16 << 10 // other allocations of the runtime
	for _, limit := range []int{700 << 10, 1 << 20} {
		for _, keyLen := range []int{8, 16, 100, 257, 300, 385} {
			key := make([]byte, keyLen)
			before := liveHeap()
			f := NewFalsePositives(limit)
			for i := range uint64(25000) {
				binary.LittleEndian.PutUint64(key, i)
				f.Remember(1, key, i*mixA)
			}
			took, bytes := liveHeap()-before, f.Bytes()
			runtime.KeepAlive(f)
			if took > bytes+slack || bytes > limit {
				t.Errorf("limit %d, keys of %d bytes: %d are taken, Bytes says %d", limit, keyLen, took, bytes)
			}
		}
	}
}

// All bytes of a key count. A key may be empty.
func TestFalsePositives_EmptyKeyAndPrefixes(t *testing.T) {
	f := NewFalsePositives(1 << 16)
	f.Remember(1, nil, 1)
	f.Remember(1, []byte("ab"), 1)
	for _, c := range []struct {
		table uint64
		key   string
		want  bool
	}{{1, "", true}, {1, "ab", true}, {1, "a", false}, {1, "abc", false}, {1, "\x00", false}, {2, "", false}, {0, "ab", false}} {
		if got := f.Has(c.table, []byte(c.key), 1); got != c.want {
			t.Errorf("Has(%d, %q) = %v, want %v", c.table, c.key, got, c.want)
		}
	}
}

func TestFalsePositives_Forget(t *testing.T) {
	f := NewFalsePositives(1 << 16)
	for i := range 50 {
		key := fmt.Append(nil, i)
		f.Remember(1, key, uint64(i))
		f.Remember(2, key, uint64(i))
	}
	f.Forget(1)
	kept := 0
	for i := range 50 {
		key := fmt.Append(nil, i)
		if f.Has(1, key, uint64(i)) {
			t.Fatalf("table 1 is remembered after Forget: %q", key)
		}
		if f.Has(2, key, uint64(i)) {
			kept++
		}
	}
	if kept != 50 {
		t.Errorf("Forget(1) left %d of 50 entries of table 2", kept)
	}
}

func TestFalsePositives_LongKey(t *testing.T) {
	f := NewFalsePositives(1 << 16)
	for _, n := range []int{fpLongest, fpLongest + 1, 65535, 1<<16 + 1} {
		long := []byte(strings.Repeat("x", n))
		f.Remember(1, long, 1)
		if f.Has(1, long, 1) != (n == fpLongest) {
			t.Errorf("Has = %v for a key of %d bytes; %d fit", n != fpLongest, n, fpLongest)
		}
	}
	for table, want := range map[uint64]bool{1<<48 - 1: true, 1 << 48: false, 1<<48 + 7: false} {
		f.Remember(table, []byte("key"), 1)
		if f.Has(table, []byte("key"), 1) != want {
			t.Errorf("Has = %v for table %d", !want, table)
		}
	}
}

func TestFalsePositives_Concurrent(t *testing.T) {
	f := NewFalsePositives(8 << 10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for range 20000 {
				n := rng.IntN(400)
				key := fmt.Append(nil, n)
				hash := uint64(n % 3) // even and odd keys share hash and table
				// Only even keys are ever proven absent, each from one table.
				switch {
				case n%2 == 0 && rng.IntN(3) == 0:
					f.Remember(uint64(n/6%3), key, hash)
				case f.Has(uint64(n/6%3), key, hash) && n%2 == 1, f.Has(uint64(n/6%3+1), key, hash):
					t.Errorf("key %q is said to be absent from a table that nobody looked into", key)
					return
				}
				if rng.IntN(1000) == 0 {
					f.Forget(uint64(rng.IntN(4)))
				}
			}
		})
	}
	wg.Wait()
}

func TestFalsePositives_NoAllocation(t *testing.T) {
	f := NewFalsePositives(1 << 16)
	key, other := []byte("a key"), []byte("another")
	f.Remember(1, key, 5)
	if n := testing.AllocsPerRun(1000, func() { _ = f.Has(1, key, 5) && f.Has(1, other, 6) }); n != 0 {
		t.Errorf("Has allocates %v times", n)
	}
	hash := uint64(1)
	if n := testing.AllocsPerRun(10000, func() { hash *= mixA; f.Remember(1, key, hash) }); n != 0 {
		t.Errorf("Remember allocates %v times", n)
	}
}
