package shale

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// closingStore opens a store with options that r draws, writes closingKeys keys and takes a
// snapshot. alarms returns the events so far that carry an error.
func closingStore(t *testing.T, r *rand.Rand, fsys vfs.FS) (c *closing, alarms func() []Event) {
	t.Helper()
	var mu sync.Mutex
	var raised []Event
	opts := &Options{
		FS:                fsys,
		MemtableSize:      4 << 10,
		TableSize:         int64(4+r.IntN(12)) << 10,
		BlockSize:         512,
		CacheSize:         []int64{-1, 16 << 10, 0}[r.IntN(3)],
		Tuning:            Tuning{MaxOpenFiles: []int{16, 0}[r.IntN(2)], FilterHash: FilterHash(r.IntN(3))},
		CompactionWorkers: []int{-1, 1, 3}[r.IntN(3)],
		Durability:        Durability(r.IntN(3)),
		testing:           testOptions{baseSize: 16 << 10, noMap: r.IntN(2) == 0},
		OnEvent: func(e Event) {
			if e.Err != nil {
				mu.Lock()
				raised = append(raised, e)
				mu.Unlock()
			}
		},
	}
	db, err := Open("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range closingKeys {
		if err := db.Put(closingKey(i), closingValue(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	c = &closing{db: db, snap: mustSnapshot(t, db), ctx: context.Background()}
	return c, func() []Event {
		mu.Lock()
		defer mu.Unlock()
		return raised
	}
}

// repeat makes a call in a goroutine again and again, until it returns an error or stop is
// set. The only right error is ErrClosed itself. begun waits until the call has been made
// once.
func (c *closing) repeat(t *testing.T, wg *sync.WaitGroup, stop *atomic.Bool, name string, call func(c *closing) error) (begun func()) {
	made := make(chan struct{})
	once := sync.OnceFunc(func() { close(made) })
	wg.Go(func() {
		defer once()
		for !stop.Load() {
			err := call(c)
			if err != nil && err != ErrClosed {
				t.Errorf("%s beside Close: %v, want its work or ErrClosed itself", name, err)
			}
			if err != nil {
				return
			}
			once()
		}
	})
	return func() { <-made }
}

// overwrite gives all keys later values, so that the store drops memtables, tables and
// versions.
func overwrite(c *closing) error {
	round := int(c.n.Add(1))
	for i := range closingKeys {
		if err := c.db.Put(closingKey(i), closingValue(i, round)); err != nil {
			return err
		}
	}
	return nil
}

// linger lets other goroutines run for a time that r draws. The limit matters when they
// never block: with eight of them on two processors, this one has a turn every 40 ms.
func linger(r *rand.Rand) {
	begin := time.Now()
	for range r.IntN(2000) {
		if runtime.Gosched(); time.Since(begin) > 20*time.Millisecond {
			return
		}
	}
}

// closingRounds returns how many stores a test opens and closes in each of its cases.
func closingRounds(t testing.TB) int {
	if testenv.Long(t) > 0 {
		return 15
	}
	return 1
}

// Each call runs during Close, next to a busy writer, alone and together with some others.
// It does its work or returns ErrClosed itself. No event carries an error, and no file stays
// open.
func TestClose_BesideEveryCall(t *testing.T) {
	seed := testenv.Seed(t)
	all := slices.Sorted(maps.Keys(closingCalls))
	const several = "several"
	for _, group := range append([]string{several}, all...) {
		t.Run(group, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(len(group))))
			rounds, members := closingRounds(t), []string{group}
			if group == several {
				rounds *= 3
			}
			for range rounds {
				for i := 0; group == several && i < 6; i++ {
					members = append(members[:i], all[r.IntN(len(all))])
				}
				mem := vfs.NewMem()
				c, alarms := closingStore(t, r, mem)
				var wg sync.WaitGroup
				var stop atomic.Bool
				begun := []func(){c.repeat(t, &wg, &stop, "the writer", overwrite)}
				for _, name := range members {
					begun = append(begun, c.repeat(t, &wg, &stop, name, closingCalls[name]))
				}
				for _, wait := range begun[:1+r.IntN(len(begun))] {
					wait()
				}
				linger(r)
				if err := c.db.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				for _, name := range members {
					if err := closingCalls[name](c); err != ErrClosed && !needsNoStore(name) {
						t.Errorf("%s after Close: %v, want ErrClosed itself", name, err)
					}
				}
				stop.Store(true)
				wg.Wait()
				for _, e := range alarms() {
					t.Errorf("event %v: %v", e.Kind, e.Err)
				}
				if n := mem.OpenFiles(); n != 0 {
					t.Errorf("%d files are open after Close", n)
				}
			}
		})
	}
}

// needsNoStore reports whether a call works when the store is closed.
func needsNoStore(name string) bool {
	switch name {
	case "DB.MayContain", "DB.MayContainMany", "DB.Err", "DB.Metrics", "DB.Inspect", "Inspector.Tables", "Inspector.RecentEvents", "Snapshot.Seq",
		"Shipping.Position", "Shipping.HoldLogs", "Shipping.HeldLogBytes", "Shipping.Needs", "Shipping.Sought", "Shipping.Fence", "Hold.State", "Hold.Release":
		return true
	}
	return false
}

// Each call of a snapshot runs during the snapshot's own Close. It answers from the
// snapshot's state or returns ErrClosed, although a writer and compactions drop what the
// snapshot has protected.
func TestClose_SnapshotBesideEveryCall(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	for range 3 * closingRounds(t) {
		c, alarms := closingStore(t, r, vfs.NewMem())
		var wg, writer sync.WaitGroup
		var stop, stopWriter atomic.Bool
		c.repeat(t, &writer, &stopWriter, "the writer", overwrite)()
		for name, call := range closingCalls {
			if strings.HasPrefix(name, "Snapshot.") {
				defer c.repeat(t, &wg, &stop, name, call)()
			}
		}
		linger(r)
		if err := c.snap.Close(); err != nil {
			t.Error(err)
		}
		if err := c.snap.Close(); err != ErrClosed {
			t.Errorf("second Close: %v, want ErrClosed", err)
		}
		for range 3 { // open iterators still work
			linger(r)
		}
		stop.Store(true)
		wg.Wait()
		stopWriter.Store(true)
		writer.Wait()
		for _, call := range []func(Reader) error{c.get, c.appendValue, c.viewValue, c.has, c.scan, c.walk} {
			if err := call(c.snap); err != ErrClosed {
				t.Errorf("a call of the snapshot after its Close: %v, want ErrClosed", err)
			}
		}
		closeTest(t, c.db)
		for _, e := range alarms() {
			t.Errorf("event %v: %v", e.Kind, e.Err)
		}
	}
}

// After an iterator's own Close every movement fails with ErrClosed. An iterator is for one
// goroutine, but meanwhile other goroutines open, move and close iterators that use its
// memory again.
func TestClose_IteratorBesideOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	c, _ := closingStore(t, r, vfs.NewMem())
	var wg sync.WaitGroup
	var stop atomic.Bool
	for name, call := range closingCalls {
		if strings.HasPrefix(name, "Iterator.") {
			c.repeat(t, &wg, &stop, name, call)
		}
	}
	for range 20 * closingRounds(t) {
		it := c.db.NewIterator(Range{})
		if it.First(); r.IntN(2) == 0 {
			it.Last()
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		if it.First() || it.Last() || it.Next() || it.Prev() || it.SeekGE(closingKey(1)) || it.SeekLT(closingKey(1)) ||
			it.Valid() || len(it.Key()) > 0 || len(it.Value()) > 0 || it.Err() != ErrClosed {
			t.Errorf("a closed iterator is at %q, Err %v; want ErrClosed", it.Key(), it.Err())
		}
	}
	stop.Store(true)
	wg.Wait()
	closeTest(t, c.db)
}

// A call that flushes in its own goroutine returns ErrClosed itself when Close interrupts
// that flush, and not context.Canceled: its caller has cancelled nothing.
func TestClose_InTheMidstOfAFlush(t *testing.T) {
	for name, call := range map[string]func(db *DB) error{
		"Flush":   func(db *DB) error { return db.Flush(context.Background()) },
		"Compact": func(db *DB) error { return db.Compact(context.Background(), Range{}) },
		"Ingest": func(db *DB) error {
			return db.Ingest(context.Background(), func(yield func(key, value []byte) bool) { yield([]byte("k"), nil) })
		},
		"Resume": (*DB).Resume,
	} {
		fault := faultfs.New(vfs.NewMem(), nil)
		flushFailed := make(chan struct{}, 100)
		db, err := Open("db", &Options{FS: fault, Durability: SyncManual, OnEvent: func(e Event) {
			if e.Kind == EventBackgroundError {
				flushFailed <- struct{}{}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 5000, 0) // enough for a flush to check its context more than once
		creates := func(op vfs.Op, name string) bool { return op == vfs.OpCreate && strings.HasSuffix(name, ".sst") }
		if name == "Resume" {
			fault.Inject(faultfs.FailAt(1, syscall.EIO, vfs.OpSync))
			if err := db.Sync(); err == nil {
				t.Fatal("the sync does not fail")
			}
		} else { // a flush fails, and the call tries it again
			fault.Inject(func(op vfs.Op, name string, _ int64) error {
				if creates(op, name) {
					return syscall.ENOSPC
				}
				return nil
			})
			if err := db.Flush(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Flush: %v, want ENOSPC", err)
			}
			<-flushFailed
		}
		var own atomic.Bool // Ingest makes a table of its own before it flushes
		own.Store(name == "Ingest")
		var once sync.Once
		closed := make(chan error, 1)
		fault.Inject(func(op vfs.Op, name string, _ int64) error {
			if creates(op, name) && !own.CompareAndSwap(true, false) {
				once.Do(func() {
					go func() { closed <- db.Close() }()
					<-db.life.Context.Done()
				})
			}
			return nil
		})
		if err := call(db); err != ErrClosed {
			t.Errorf("%s: %v, want ErrClosed itself", name, err)
		}
		if err := <-closed; err != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("Close: %v", err)
		}
	}
}

// Each call that takes a context keeps a cancellation by its caller and Close apart. If its
// context is cancelled, it does its work or returns an error that wraps context.Canceled and
// not ErrClosed. If the store is closed at the same time, the error is one of the two.
func TestClose_OwnCancellation(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 5))
	found := 0
	for row, call := range closingCalls {
		typ, name, _ := strings.Cut(row, ".")
		method, _ := storeTypes[typ].MethodByName(name)
		if method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		found++
		for range closingRounds(t) {
			c, _ := closingStore(t, r, vfs.NewMem())
			var cancel func()
			c.ctx, cancel = context.WithCancel(c.ctx)
			early, beside := r.IntN(2) == 0, r.IntN(2) == 0
			if early {
				cancel()
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				switch err := call(c); {
				case err == nil || err == ErrClosed && beside:
				case !errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) || errors.Is(err, ErrReadOnly):
					t.Errorf("%s, cancelled (Close beside it: %v): %v, want context.Canceled", row, beside, err)
				}
			})
			linger(r)
			cancel()
			if !beside {
				wg.Wait()
			}
			closeTest(t, c.db)
			wg.Wait()
		}
	}
	if found < 6 {
		t.Errorf("%d methods take a context, want more", found)
	}
}

// A compaction that fails on the disk while Close interrupts it is reported by an event. Only
// errors that Close has caused are not.
func TestClose_ReportsAFailedCompaction(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), nil)
	opts := tinyStore(faults)
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	for round := range 6 {
		fill(t, db, 100, round)
		mustFlush(t, db)
	}
	closeTest(t, db)

	errDevice := errors.New("the device has failed")
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op != vfs.OpCreate || !strings.HasSuffix(name, ".sst") {
			return nil
		}
		once.Do(func() { close(entered) })
		<-leave
		return errDevice
	})
	var mu sync.Mutex
	var told []error
	opts.CompactionWorkers = 1
	opts.OnEvent = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventBackgroundError {
			told = append(told, e.Err)
		}
	}
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	<-db.life.Context.Done()
	close(leave)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if len(told) != 1 || !errors.Is(told[0], errDevice) {
		t.Errorf("told of %v, want the failure of the compaction", told)
	}
}

// Close returns the error of an earlier Sync that has failed, because writes may not be durable.
func TestClose_ReturnsTheErrorOfAFailedSync(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), nil)
	db := openTest(t, &Options{FS: faults, Durability: SyncManual, testing: testOptions{noMap: true}})
	mustPut(t, db, "k", "v")
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".wal") {
			return syscall.EIO
		}
		return nil
	})
	if err := db.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync = %v; want EIO", err)
	}
	if err := db.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close after a failed Sync = %v; want EIO", err)
	}
}

// Close gives up all tables. It does not look through the caches for each of them, as a
// compaction does for the tables that it replaces: with 100,000 tables, Close took 6 s.
func TestClose_CachesAsAWhole(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "key", "value")
	mustFlush(t, db)
	table := db.Inspect().Tables()[0].Number
	db.falsePositives.Remember(table, []byte("absent"), 1)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if !db.falsePositives.Has(table, []byte("absent"), 1) {
		t.Error("Close has looked through the remembered false positives for those of a table")
	}
}

// orWrong returns err, or an error with the text if err is nil.
func orWrong(err error, wrong string) error {
	if err == nil {
		err = errors.New(wrong)
	}
	return err
}
