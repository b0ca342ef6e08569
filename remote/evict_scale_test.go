package remote

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// tinyTables ingests about n tables of 4 KiB, and returns how many there are.
func tinyTables(t testing.TB, s *Store, n int) int {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	mustNil(t, s.DB().Ingest(t.Context(), func(yield func(key, value []byte) bool) {
		for i := range 10 * n {
			value := make([]byte, 400)
			for j := 0; j < len(value); j += 8 {
				binary.LittleEndian.PutUint64(value[j:], r.Uint64())
			}
			if !yield(binary.BigEndian.AppendUint64(nil, uint64(i)), value) {
				return
			}
		}
	}))
	return len(s.DB().Inspect().Tables())
}

// A tinyStore has many tiny tables, all of which are published.
type tinyStore struct {
	*Store
	t      testing.TB
	disk   *vfs.Mem
	b      *remotetest.Fake
	o      *Options
	tables int
}

// newTinyStore makes a store with about n tables, and checks that publishing them takes as many requests.
func newTinyStore(t testing.TB, n int) *tinyStore {
	disk := vfs.NewMem()
	s := &tinyStore{t: t, disk: disk, b: remotetest.NewFake(NewMem()), o: manual(disk)}
	s.o.Store.MemtableSize, s.o.Store.TableSize = 64<<10, 4<<10
	s.o.Store.CompactionWorkers, s.o.Retain = 1, 1
	s.Store = openStore(t, "db", s.b, s.o)
	s.tables = tinyTables(t, s.Store, n)
	mustNil(t, s.Publish(t.Context()))
	puts, stats := s.b.Count("put", object.TableFolder), s.b.Count("stat", object.TableFolder)
	if s.tables < n*9/10 || puts > s.tables+s.tables/10 || stats > puts {
		t.Errorf("%d tables took %d PUTs and %d looks", s.tables, puts, stats)
	}
	return s
}

// reopen opens the store again, checks that this takes no request for a table, and returns the processor time that it takes.
func (s *tinyStore) reopen() time.Duration {
	s.t.Helper()
	mustNil(s.t, s.Close())
	gets, calls, began := s.b.Count("read", object.TableFolder), s.disk.Ops(), testenv.CPUTime()
	s.Store = openStore(s.t, "db", s.b, s.o)
	took := testenv.CPUTime() - began
	if calls = s.disk.Ops() - calls; calls > 200 {
		s.t.Errorf("opening %d tables took %d changes of the file system", s.tables, calls)
	}
	if now := s.b.Count("read", object.TableFolder); now > gets {
		s.t.Errorf("opening took %d GETs of tables", now-gets)
	}
	return took
}

// evictMany publishes about n tables, evicts nearly all of them, opens the store again and collects. It checks that each of
// that takes as many requests as there are tables, or none, and returns the processor time that opening takes with all tables
// local, and with nearly all in the bucket, and that of a look of the evictor.
func evictMany(t *testing.T, n int) (local, evicted, look time.Duration) {
	near, s := newTinyStore(t, n), newTinyStore(t, n)
	s.o.LocalBytes = 8 * s.o.Store.MemtableSize
	mustNil(t, s.Close())
	all := s.b.Count("", object.TableFolder)
	s.Store = openStore(t, "db", s.b, s.o)
	testenv.WaitFor(t, "the tables to go", func() bool { return inBucketOnly(t, s.Store) > s.tables*9/10 })
	if now := s.b.Count("", object.TableFolder); now > all {
		t.Errorf("evicting took %d requests", now-all)
	}
	s.stop()
	s.background.Wait() // so that the test may look in the place of the loop
	began, calls := testenv.CPUTime(), s.disk.Ops()
	for range 10 {
		mustNil(t, s.evict())
	}
	look = (testenv.CPUTime() - began) / 10
	if now := s.disk.Ops(); now > calls {
		t.Errorf("looks at the room made %d changes of the file system", now-calls)
	}
	// Both are opened in turn, and the medians count: how fast the machine is, and how often garbage is collected, is the same for
	// both.
	var times [2][]time.Duration
	rounds := 5
	if testenv.Long(t) > 0 {
		rounds = 51
	}
	for range rounds {
		times[0], times[1] = append(times[0], near.reopen()), append(times[1], s.reopen())
	}
	local, evicted = slices.Sorted(slices.Values(times[0]))[rounds/2], slices.Sorted(slices.Values(times[1]))[rounds/2]
	mustNil(t, near.Close())
	mustNil(t, s.DB().DeleteRange(nil, nil))
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	all, deleted := s.b.Count("", ""), s.b.Count("delete", "")
	for range 3 {
		mustNil(t, s.DB().Put([]byte("a"), nil))
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		_, err := s.Collect(t.Context())
		mustNil(t, err)
	}
	all, deleted = s.b.Count("", "")-all, s.b.Count("delete", "")-deleted
	if left := countTables(t, s.b); left > 10 || deleted < s.tables || all > deleted+deleted/10+300 {
		t.Errorf("collecting %d tables took %d requests, of which %d delete; %d are left", s.tables, all, deleted, left)
	}
	return local, evicted, look
}

// inBucketOnly returns how many tables are in the bucket only.
func inBucketOnly(t testing.TB, s *Store) (n int) {
	t.Helper()
	levels, err := s.Places()
	mustNil(t, err)
	for _, l := range levels {
		n += l.Bucket.Tables
	}
	return n
}

// Tables that were made count at once, before the evictor has looked: else others begin to be made meanwhile.
func TestEvict_MadeTablesCountAtOnce(t *testing.T) {
	o := manual(vfs.NewMem())
	o.Store.MemtableSize, o.LocalBytes = 64<<10, 1<<20
	s := openStore(t, "db", remotetest.NewFake(NewMem()), o)
	s.stop()
	s.background.Wait() // so that the test may look in the place of the loop
	mustNil(t, s.evict())
	for _, c := range []struct {
		made int64
		full bool
	}{{o.LocalBytes / 2, false}, {o.LocalBytes / 2, true}} {
		s.evicting.grow(c.made)
		if full := s.evicting.isFull(); full != c.full {
			t.Errorf("with %d bytes more: full is %v", c.made, full)
		}
	}
	mustNil(t, s.evict()) // nothing is there
	if s.evicting.isFull() {
		t.Error("a look has found no room")
	}
}

// With ten times the tables, publishing, eviction, opening and collection take ten times as much, and opening a store whose
// tables are in the bucket takes not much longer than one that has them.
func TestEvict_ManyTables(t *testing.T) {
	few, many := 300, 1000
	if testenv.Long(t) > 0 {
		few, many = 1000, 10_000
	}
	local, evicted, look := evictMany(t, few)
	t.Logf("%d tables: opened in %v, %v if evicted; a look %v", few, local, evicted, look)
	local, evicted, look = evictMany(t, many)
	t.Logf("%d tables: opened in %v, %v if evicted; a look %v", many, local, evicted, look)
	if testenv.Long(t) > 0 && evicted > local*3/2 {
		t.Errorf("opening %d tables took %v of the processor's time, %v if they are local", many, evicted, local)
	}
}
