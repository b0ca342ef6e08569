package shale

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestLevelRuns_LargeStore writes to stores that have the levels of 40 GiB with default options:
// their memtables and tables are 2,000 times smaller. Such a store lets levels have two runs by
// itself. It then writes at least an eighth less than with one run, and a lookup of an absent
// key asks two filters more at most. SHALE_LONG=1s runs it, for a minute or two. With 5m and
// more the stores have the levels of 100 GiB.
func TestLevelRuns_LargeStore(t *testing.T) {
	testenv.SkipRace(t)
	long := testenv.Long(t)
	if long == 0 {
		t.Skip("takes a minute: SHALE_LONG=1s")
	}
	n, writes, least := 280_000, 60_000, 1./8
	if long >= 5*time.Minute {
		n, writes, least = 700_000, 200_000, 1./5
	}
	written, asked := make(map[int]float64), make(map[int]float64)
	for _, runs := range []int{1, 0} {
		s := newLargeStore(t, runs, n)
		s.overwrite(writes) // until the upper levels are full
		before := s.Metrics()
		most := 0
		for range 8 {
			s.overwrite(writes / 8)
			most = max(most, levelRunsOf(s.DB))
		}
		m := s.Metrics().Sub(before)
		written[runs] = float64(m.FlushBytes+m.CompactBytes) / float64(m.FlushBytes)
		asked[runs] = s.asked(20_000)
		t.Logf("runs %d: %.2f bytes written to tables for each byte flushed, %.2f filters asked a miss\n%s", runs, written[runs], asked[runs], s.Metrics())
		if want := map[int]int{1: 1, 0: 2}[runs]; most != want {
			t.Errorf("option %d: levels with up to %d runs, want %d", runs, most, want)
		}
		closeTest(t, s.DB)
	}
	if written[0] > (1-least)*written[1] {
		t.Errorf("%.2f bytes are written with two runs a level, %.2f with one", written[0], written[1])
	}
	if asked[0] > asked[1]+2 {
		t.Errorf("%.2f filters are asked with two runs a level, %.2f with one", asked[0], asked[1])
	}
}

// A largeStore is a store with many levels for its size.
type largeStore struct {
	*DB
	t     *testing.T
	r     *rand.Rand
	n     int
	value [100]byte
}

// newLargeStore ingests n entries, with keys spread evenly.
func newLargeStore(t *testing.T, runs, n int) *largeStore {
	s := &largeStore{t: t, r: rand.New(rand.NewPCG(1, 2)), n: n}
	s.DB = mustOpen(t, "db", &Options{FS: vfs.NewMem(), MemtableSize: 16 << 10, TableSize: 8 << 10, BlockSize: 1 << 10,
		Durability: SyncManual, CompactionWorkers: 1, Tuning: Tuning{MaxOpenFiles: 10_000}, testing: testOptions{runs: runs}})
	err := s.Ingest(t.Context(), func(yield func(key, value []byte) bool) {
		for i := range uint64(n) {
			if !yield(s.key(i), s.next()) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *largeStore) key(i uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 8, 16), i)
}

// next returns a value of which half compresses.
func (s *largeStore) next() []byte {
	for j := 0; j < len(s.value)/2; j += 8 {
		binary.LittleEndian.PutUint64(s.value[j:], s.r.Uint64())
	}
	return s.value[:]
}

// overwrite writes n values. All compactions that are due end before the next memtable
// fills. Under pressure compactions are larger, and both kinds of stores write less.
func (s *largeStore) overwrite(n int) {
	const memtable = 90 // entries
	for i := range n {
		if err := s.Put(s.key(s.r.Uint64N(uint64(s.n))), s.next()); err != nil {
			s.t.Fatal(err)
		}
		if i%memtable != memtable-1 {
			continue
		}
		mustFlush(s.t, s.DB)
		for !s.scheduler.Idle() {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// asked looks n absent keys up, and returns how many filters below level 0 a lookup asks.
func (s *largeStore) asked(n int) float64 {
	before := s.Metrics()
	for range n {
		key := append(s.key(s.r.Uint64N(uint64(s.n))), 0)
		if has, err := s.Has(key); has || err != nil {
			s.t.Fatalf("Has(%x) = %v, %v", key, has, err)
		}
	}
	m := s.Metrics().Sub(before)
	sum := uint64(0)
	for _, l := range m.Levels[1:] {
		sum += l.FilterAsked
	}
	return float64(sum) / float64(n)
}
