package remote

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// A sinkBucket keeps all objects but tables and segments, which it reads and forgets, except for their
// sizes. So a benchmark measures what a writer does, and not the memory or the disk of its bucket.
type sinkBucket struct {
	*remotetest.Fake
	sunk sync.Map // Info, by name
}

func (s *sinkBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	n, _ := object.ParseName(name)
	if n.Kind != object.KindTable && n.Kind != object.KindSegment || size < 64<<10 {
		return s.Fake.Put(ctx, name, body, size, crc32c, absent)
	}
	lent := sinkBuffers.Get().(*[256 << 10]byte)
	defer sinkBuffers.Put(lent)
	buf := lent[:]
	for off := int64(0); off < size; {
		m, err := body.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if off += int64(m); err != nil && off < size {
			return err
		}
	}
	s.sunk.Store(name, Info{Name: name, Size: size, CRC32C: crc32c})
	return s.Fake.Put(ctx, name, nothing{}, 0, 0, absent)
}

var sinkBuffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

func (s *sinkBucket) Stat(ctx context.Context, name string) (Info, error) {
	if info, ok := s.sunk.Load(name); ok {
		return info.(Info), nil
	}
	return s.Fake.Stat(ctx, name)
}

// nothing is an empty body.
type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// BenchmarkPut writes values of 1,000 bytes under random keys, as fast as it can and at 10, 50 and 100 MB/s, to
// a store alone and to one that is shipped each second and published each 10 seconds. It reports the
// processor's time of the whole process for each write, the longest waits, and the PUTs for each GB that was
// written:
//
//	go test -run '^$' -bench Put/fast -benchtime 2000000x -count 5 .
//	go test -run '^$' -bench Put/.*MB -benchtime 20s .
func BenchmarkPut(b *testing.B) {
	for _, rate := range []int{0, 10, 50, 100} {
		for _, shipped := range []bool{false, true} {
			name := fmt.Sprintf("%dMB", rate)
			if rate == 0 {
				name = "fast"
			}
			name += map[bool]string{false: "/alone", true: "/shipped"}[shipped]
			b.Run(name, func(b *testing.B) { benchmarkPut(b, shipped, float64(rate)*1e6) })
		}
	}
}

func benchmarkPut(b *testing.B, shipped bool, rate float64) {
	store := shale.Options{Durability: shale.SyncPeriodic, OnEvent: func(shale.Event) {}}
	bucket := remotetest.NewFake(NewMem())
	var db *shale.DB
	if shipped {
		s, err := Open(b.Context(), b.TempDir(), &sinkBucket{Fake: bucket}, &Options{Store: store, Publish: 10 * time.Second})
		mustNil(b, err)
		defer s.Close()
		db = s.DB()
	} else {
		var err error
		db, err = shale.Open(b.TempDir(), &store)
		mustNil(b, err)
		defer db.Close()
	}
	const size = 1000
	value := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(value)
	var key [16]byte
	var waits []time.Duration
	puts, begun, n := bucket.Count("put", ""), time.Now(), 0
	cpu := testenv.CPUTime()
	b.SetBytes(size)
	for b.Loop() {
		binary.BigEndian.PutUint64(key[:], r.Uint64())
		at := time.Now()
		mustNil(b, db.Put(key[:], value))
		waits = append(waits, time.Since(at))
		n++
		if ahead := time.Duration(float64(n*size)/max(rate, 1)*1e9) - time.Since(begun); rate > 0 && ahead > time.Millisecond {
			time.Sleep(ahead)
		}
	}
	b.ReportMetric(float64((testenv.CPUTime()-cpu).Nanoseconds())/float64(n), "cpu-ns/op")
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(waits[len(waits)*999/1000].Nanoseconds()), "p999-ns")
	if shipped {
		b.ReportMetric(float64(bucket.Count("put", "")-puts)/(float64(n*size)/1e9), "puts/GB")
	}
}

// BenchmarkStrict has 64 writers of a store that acknowledges only what is in the bucket. A PUT takes 30 ms there. The
// store is on the disk of the temporary directory:
//
//	go test -run '^$' -bench Strict -benchtime 10000x -count 5 .
func BenchmarkStrict(b *testing.B) {
	const writers, latency = 64, 30 * time.Millisecond
	bucket := remotetest.NewFake(NewMem())
	s, err := Open(b.Context(), b.TempDir(), bucket, &Options{Strict: true})
	mustNil(b, err)
	defer s.Close()
	mustNil(b, s.Publish(b.Context())) // the first step is not part of it
	bucket.Hook(func(call, _ string) error {
		if call == "put" {
			time.Sleep(latency)
		}
		return nil
	}, nil)
	puts := bucket.Count("put", "")
	value := make([]byte, 100)
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				if err := s.DB().Put(fmt.Appendf(nil, "key%012d", i), value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64(b.N)/float64(max(1, bucket.Count("put", "")-puts)), "writes/PUT")
}

// TestStore_PutsAGB writes a gigabyte at 10 MB/s, in values of 1,000 bytes that can't be compressed, under a clock of
// its own, and counts the PUTs of a store with the default intervals: for segments, tables, steps and states, up
// to a last Publish. It takes a minute or two, so it runs with SHALE_LONG only.
func TestStore_PutsAGB(t *testing.T) {
	if testenv.Long(t) == 0 {
		t.Skip("set SHALE_LONG to write two gigabytes")
	}
	for _, c := range []struct {
		tableSize int64
		most      int
	}{{16 << 20, 500}, {64 << 20, 300}} {
		synctest.Test(t, func(t *testing.T) {
			bucket := remotetest.NewFake(NewMem())
			store := shale.Options{Durability: shale.SyncManual, TableSize: c.tableSize, OnEvent: func(shale.Event) {}}
			s, err := Open(t.Context(), t.TempDir(), &sinkBucket{Fake: bucket}, &Options{Store: store})
			mustNil(t, err)
			defer s.Close()
			puts := bucket.Count("put", "")
			const size, rate = 1000, 10_000
			value, key := make([]byte, size), [16]byte{}
			r := rand.NewChaCha8([32]byte{2})
			for i := range 1_000_000 {
				_, _ = r.Read(value)
				binary.BigEndian.PutUint64(key[:], r.Uint64())
				mustNil(t, s.DB().Put(key[:], value))
				if i%(rate/100) == 0 {
					time.Sleep(time.Second / 100)
				}
			}
			mustNil(t, s.Publish(t.Context()))
			n := bucket.Count("put", "") - puts
			t.Logf("tables of %d MiB: %d PUTs for 1 GB", c.tableSize>>20, n)
			if n > c.most {
				t.Errorf("tables of %d MiB: %d PUTs for 1 GB, want at most %d", c.tableSize>>20, n, c.most)
			}
		})
	}
}

// BenchmarkSegment makes a segment of 8 MiB of a log with records of about 1,000 bytes, which is in the page cache, and
// sends it nowhere. floor only reads the same bytes once and sums them once:
//
//	go test -run '^$' -bench Segment .
func BenchmarkSegment(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(b.Context(), dir, NewMem(), &Options{Ship: -1, Publish: -1, Flush: -1, Store: shale.Options{Durability: shale.SyncManual}})
	mustNil(b, err)
	defer s.Close()
	value := make([]byte, 1000)
	for i := range 9000 {
		mustNil(b, s.DB().Put(fmt.Appendf(nil, "key%012d", i), value))
	}
	mustNil(b, s.DB().Sync())
	pos := shale.ShippingOf(s.DB()).Position()
	buf := make([]byte, 0, segmentSize+(1<<20))
	b.Run("floor", func(b *testing.B) {
		f, err := s.fs.Open(s.logs.Path(pos.Log))
		mustNil(b, err)
		defer f.Close()
		b.SetBytes(segmentSize)
		p, cpu, n := buf[:segmentSize], testenv.CPUTime(), 0
		for b.Loop() {
			n++
			for off := 0; off < segmentSize; off += 256 << 10 {
				_, err := f.ReadAt(p[off:off+256<<10], int64(off))
				mustNil(b, err)
			}
			Checksum(p)
		}
		b.ReportMetric(float64((testenv.CPUTime()-cpu).Nanoseconds())/float64(n)/(segmentSize/1000), "cpu-ns/kB")
	})
	b.Run("segment", func(b *testing.B) {
		b.SetBytes(segmentSize)
		cpu, n := testenv.CPUTime(), 0
		for b.Loop() {
			n++
			st, err := s.logs.Cut(pos.Log, 0, pos.Synced, segmentSize, 0, &buf)
			mustNil(b, err)
			seg := &object.Segment{StoreID: s.id, Log: pos.Log, FirstSeq: st.FirstSeq, LastSeq: st.Last, Written: time.Now(), Body: st.Body}
			_, _, err = object.EncodeSegmentHeader(seg, nil)
			mustNil(b, err)
		}
		b.ReportMetric(float64((testenv.CPUTime()-cpu).Nanoseconds())/float64(n)/(segmentSize/1000), "cpu-ns/kB")
	})
}
