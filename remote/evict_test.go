package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

const testBudget = 1 << 20

// evicting sets options for a store that keeps testBudget bytes of its tables.
func evicting(o *Options) {
	o.LocalBytes = testBudget
	o.Store.MemtableSize, o.Store.TableSize, o.Store.CompactionWorkers = 64<<10, 64<<10, 0
	o.Store.CacheSize = 64 << 10
}

// localBytes returns how many bytes of tables, tails and pages a directory has.
func localBytes(t testing.TB, fsys vfs.FS, dir string) (sum int64) {
	t.Helper()
	names, err := fsys.List(dir)
	mustNil(t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if name == copiesDir || name+"/" == object.TableFolder || filepath.Base(dir)+"/" == object.TableFolder {
			sum += localBytes(t, fsys, path)
			continue
		}
		info, err := fsys.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		case err != nil:
			t.Fatal(err)
		case strings.HasSuffix(name, ".sst") || strings.Contains(dir, copiesDir):
			sum += info.Size
		}
	}
	return sum
}

// grow writes n random entries, and waits until all is in the bucket and evicted.
func grow(t testing.TB, s *Store, model map[string]string, n int) {
	t.Helper()
	fillRandom(t, s, model, n)
	settleEvicted(t, s)
}

// settleEvicted waits until all tables are in the bucket, and as many were evicted as must be.
func settleEvicted(t testing.TB, s *Store) {
	t.Helper()
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	for deadline := time.Now().Add(2 * time.Minute); localBytes(t, s.fs, "db") > testBudget; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of tables are local, of %d that may", localBytes(t, s.fs, "db"), testBudget)
		}
	}
}

// A store of many times its budget answers like a model, keeps the budget, asks the bucket for nothing when a key is absent,
// and opens again without a read of a table.
func TestEvict_Budget(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	for range 4 {
		grow(t, s, model, 5000)
		sameMap(t, "the store", contents(t, s.DB()), model)
	}
	absent := func(when string) {
		t.Helper()
		gets, _ := b.During(func() {
			for i := range 2000 {
				if has, err := s.DB().Has(fmt.Appendf(nil, "key%08dx", i*49999)); has || err != nil {
					t.Fatalf("%s: %v, %v", when, has, err)
				}
			}
		})
		if gets > 40 {
			t.Errorf("%s: 2000 absent keys took %d GETs of tables", when, gets)
		}
	}
	absent("after writing")
	mustNil(t, s.Close())
	o.Store.CompactionWorkers = -1 // so that all GETs are of calls
	gets, _ := b.During(func() { s = openStore(t, "db", b, o) })
	if gets > 0 {
		t.Errorf("opening took %d GETs of tables", gets)
	}
	absent("after opening")
	sameMap(t, "the store opened again", contents(t, s.DB()), model)
	sameMap(t, "a restore", restoredContents(t, b.Bucket), model)
	if gets, largest := b.During(func() {
		for key := range maps.Keys(model) {
			_, err := s.DB().Get([]byte(key))
			mustNil(t, err)
			return
		}
	}); gets > 1 || largest > 64<<10 {
		t.Errorf("a key took %d GETs of up to %d bytes", gets, largest)
	}
}

// Whoever opens the directory without the bucket is told where the tables are, and that is not damage. With the bucket it
// opens also with another budget, or with none.
func TestEvict_OpenedWithoutBucket(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 5000)
	if err := s.DB().Checkpoint("copy"); !errors.Is(err, shale.ErrElsewhere) {
		t.Errorf("a checkpoint: %v, want ErrElsewhere", err)
	}
	mustNil(t, s.Close())
	for _, readOnly := range []bool{false, true} {
		plain := o.Store
		plain.ReadOnly = readOnly
		_, err := shale.Open("db", &plain)
		var damage *shale.CorruptionError
		if !errors.Is(err, shale.ErrElsewhere) || errors.As(err, &damage) || !strings.Contains(err.Error(), "bucket of store") {
			t.Errorf("Open without the bucket, read-only %v: %v", readOnly, err)
		}
	}
	for _, budget := range []int64{0, 2 * testBudget, testBudget} {
		o.LocalBytes = budget
		s = openStore(t, "db", b, o)
		sameMap(t, fmt.Sprintf("with a budget of %d", budget), contents(t, s.DB()), model)
		mustNil(t, s.Close())
	}
}

// An iterator reads a state whose tables were evicted, although later states lack them and everything that these do not
// need was collected.
func TestEvict_IteratorsKeepObjects(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	o.Retain = 1
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	fillRandom(t, s, model, 5000)
	// No compaction is due after this one, so a step names all tables that the iterator needs: others can't be evicted.
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	settleEvicted(t, s)
	snap, err := s.DB().Snapshot()
	mustNil(t, err)
	defer snap.Close()
	it := s.DB().NewIterator(shale.Range{})
	defer it.Close()
	collect := func() {
		for range 3 { // steps, so that the floor passes what there was before
			mustNil(t, s.DB().Put([]byte("a"), []byte("b")))
			settleEvicted(t, s)
			_, err := s.Collect(t.Context())
			mustNil(t, err)
		}
	}
	mustNil(t, s.DB().DeleteRange(nil, nil))
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	collect()
	got := make(map[string]string)
	for ok := it.First(); ok; ok = it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	mustNil(t, it.Err())
	sameMap(t, "the iterator", got, model)
	sameMap(t, "the snapshot", contents(t, snap), model)
	mustNil(t, errors.Join(it.Close(), snap.Close()))
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{})) // the snapshot had kept all entries
	collect()
	if n := countTables(t, b); n > 5 {
		t.Errorf("%d tables are left in the bucket when nothing needs them", n)
	}
}

// A table whose file can't be removed is local, and Status says why. It is tried again until it has gone.
func TestEvict_FailsAndTriesAgain(t *testing.T) {
	disk := faultfs.New(vfs.NewMem(), nil)
	b, o := remotetest.NewFake(NewMem()), manual(disk)
	evicting(o)
	o.Store.CompactionWorkers = -1 // so that nobody but the evictor removes tables
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 2000)
	disk.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRemove && strings.HasSuffix(name, ".sst") {
			return syscall.EIO
		}
		return nil
	})
	more := maps.Clone(model)
	var writing sync.WaitGroup
	writing.Go(func() { fillRandom(t, s, more, 1500) }) // it may wait for room
	testenv.WaitFor(t, "the failure to be told", func() bool {
		mustNil(t, s.Publish(t.Context()))
		return errors.Is(s.Status().Failing, syscall.EIO)
	})
	disk.Inject(nil)
	writing.Wait()
	settleEvicted(t, s)
	testenv.WaitFor(t, "the failure to be over", func() bool { return s.Status().Failing == nil })
	sameMap(t, "with tables that could be removed", contents(t, s.DB()), more)
}

// countTables returns how many tables and sidecars a bucket has.
func countTables(t testing.TB, b Bucket) (n int) {
	t.Helper()
	for _, err := range b.List(t.Context(), object.TableFolder, "") {
		mustNil(t, err)
		n++
	}
	return n
}

// A budget that a few flushes would exceed is refused, and so is any in a store that was opened without the bucket.
func TestEvict_OptionsRefused(t *testing.T) {
	o := manual(vfs.NewMem())
	for _, budget := range []int64{-1, 8*o.Store.MemtableSize - 1} {
		o.LocalBytes = budget
		if _, err := Open(t.Context(), "db", NewMem(), o); err == nil || !strings.Contains(err.Error(), "LocalBytes: it is less than eight memtables (524288 bytes)") {
			t.Errorf("LocalBytes of %d: %v", budget, err)
		}
	}
	db, err := shale.Open("db", &o.Store)
	mustNil(t, err)
	defer db.Close()
	if _, err := Attach(t.Context(), db, "db", NewMem(), &Options{LocalBytes: 1 << 30}); err == nil || !strings.Contains(err.Error(), "LocalBytes") {
		t.Errorf("Attach with LocalBytes: %v", err)
	}
}
