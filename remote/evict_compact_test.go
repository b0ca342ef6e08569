package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// pieceBytes is how much of a table a compaction fetches with one GET.
const pieceBytes = 4 << 20

// A readLog notes the GETs of tables, by their names.
type readLog struct {
	mu    sync.Mutex
	gets  map[string]int
	bytes map[string]int64
}

// logReads begins to note the GETs of tables. fail is asked before each; nil: none fails.
func logReads(b *remotetest.Fake, fail func(ctx context.Context) error) *readLog {
	l := &readLog{gets: make(map[string]int), bytes: make(map[string]int64)}
	b.Set(remotetest.Instead{OnRead: func(ctx context.Context, name string, p []byte, off int64) (int, error) {
		if remotetest.FolderOf(name) != object.TableFolder {
			return b.Bucket.ReadAt(ctx, name, p, off)
		}
		if fail != nil {
			if err := fail(ctx); err != nil {
				return 0, err
			}
		}
		l.mu.Lock()
		l.gets[name]++
		l.bytes[name] += int64(len(p))
		l.mu.Unlock()
		return b.Bucket.ReadAt(ctx, name, p, off)
	}})
	return l
}

// openForCompactions opens a store whose tables have several pieces of 4 MiB, and which keeps 8 MiB of them, with a cache of
// eight pages. It has 20 MB in the last level, and 12 MB more above it, of the last third of the keys; all but what it keeps is in
// the bucket only.
func openForCompactions(t *testing.T, b *remotetest.Fake, workers int) (*Store, map[string]string) {
	t.Helper()
	o := manual(vfs.NewMem())
	o.LocalBytes = 8 << 20
	o.Store.MemtableSize, o.Store.TableSize, o.Store.CacheSize, o.Store.CompactionWorkers = 1<<20, 10<<20, -1, workers
	o.testing.closeWait = 10 * time.Millisecond
	s, model := openStore(t, "db", b, o), make(map[string]string)
	r := rand.New(rand.NewPCG(11, 12))
	fill := func(n, least int) {
		t.Helper()
		for range n {
			_, value := randomEntry(r)
			key := fmt.Sprintf("key%08d", least+r.IntN(1e8-least))
			mustNil(t, s.DB().Put([]byte(key), value))
			model[key] = string(value)
		}
	}
	settle := func() {
		t.Helper()
		mustNil(t, s.DB().Flush(t.Context()))
		testenv.WaitFor(t, "tables to be evicted", func() bool {
			mustNil(t, s.Publish(t.Context()))
			return localBytes(t, s.fs, "db") <= o.LocalBytes
		})
	}
	fill(50_000, 0)
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	settle()
	fill(30_000, 7e7)
	settle()
	return s, model
}

// TestEvict_CompactionGets: a compaction of tables that are in the bucket only makes a GET for each 4 MiB of a table and one more, with
// several workers one more for each part that has keys of the table, and fetches nothing twice. Pages that were cached before still are.
func TestEvict_CompactionGets(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, workers := range []int{-1, 3} {
		b := remotetest.NewFake(NewMem())
		s, model := openForCompactions(t, b, workers)
		sizes := make(map[string]int64)
		noteSizes := func() { // also those of tables that are made and merged again meanwhile
			for info, err := range b.List(t.Context(), object.TableFolder, "") {
				mustNil(t, err)
				sizes[info.Name] = info.Size
			}
		}
		noteSizes()
		keys := slices.Sorted(maps.Keys(model))
		readPages := func() (gets int) {
			gets, _ = b.During(func() {
				for i := range 4 {
					key := keys[i*1000]
					if v, err := s.DB().Get([]byte(key)); err != nil || string(v) != model[key] {
						t.Fatalf("%s: %d bytes, %v", key, len(v), err)
					}
				}
			})
			return gets
		}
		if gets := readPages(); gets == 0 {
			t.Fatal("no page of the bucket was read")
		}
		if gets := readPages(); gets > 0 {
			t.Fatalf("%d pages were not cached", gets)
		}
		reads := logReads(b, nil)
		mustNil(t, s.DB().Compact(t.Context(), shale.Range{Lower: []byte("key8")}))
		b.Set(remotetest.Instead{})
		noteSizes()
		tables, large, gets, fetched, whole := 0, 0, 0, int64(0), int64(0)
		for name, n := range reads.gets {
			size := sizes[name]
			if most := int(size/pieceBytes) + 1 + 2*max(workers-1, 0); n > most {
				t.Errorf("%d workers: %d GETs for %s of %d bytes", workers, n, name, size)
			}
			if size > 2*pieceBytes {
				large++
			}
			tables, gets, fetched, whole = tables+1, gets+n, fetched+reads.bytes[name], whole+size
		}
		if large == 0 || tables < 2 || fetched > whole+whole/20 {
			t.Errorf("%d workers: %d tables were read, %d of them large, with %d GETs of %d bytes of %d", workers, tables, large, gets, fetched, whole)
		}
		if gets := readPages(); gets > 0 {
			t.Errorf("%d workers: %d pages are not cached any more", workers, gets)
		}
		t.Logf("%d workers: %d tables were read with %d GETs of %d bytes of %d", workers, tables, gets, fetched, whole)
		sameMap(t, "after the compaction", contents(t, s.DB()), model)
		mustNil(t, s.Close())
	}
}

// TestEvict_CompactionFaults: a compaction bears GETs that fail now and then. If the bucket hangs, Close ends it, and nothing is left.
func TestEvict_CompactionFaults(t *testing.T) {
	testenv.CheckLeaks(t)
	b := remotetest.NewFake(NewMem())
	s, model := openForCompactions(t, b, -1)
	calls := 0
	var mu sync.Mutex
	reads := logReads(b, func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%3 == 1 {
			return errUnreachable
		}
		return nil
	})
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{Lower: []byte("key9")}))
	if calls <= len(reads.gets) {
		t.Errorf("%d calls for %d tables: none has failed", calls, len(reads.gets))
	}
	b.Set(remotetest.Instead{})
	sameMap(t, "after the faults", contents(t, s.DB()), model)

	fillRandom(t, s, model, 1000) // so that there is something to compact
	asked := make(chan struct{}, 1000)
	logReads(b, func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	ended := make(chan error, 1)
	go func() { ended <- s.DB().Compact(context.Background(), shale.Range{}) }()
	<-asked
	_ = s.Close() // it may say that some writes were not shipped
	if err := <-ended; !errors.Is(err, shale.ErrClosed) {
		t.Errorf("the compaction that Close has ended: %v", err)
	}
}
