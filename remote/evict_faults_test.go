package remote

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// These tests take the bucket or the power away from a store most of whose tables are in the bucket.

var errUnreachable = errors.New("the bucket is out of reach")

// TestEvict_BucketAway: without the bucket the store answers for absent keys and for what is local, and at once. Other reads
// fail after their time, with an error that says why and is no damage. Writers go on as long as there is room. Then they wait, or
// are refused, and the error says that a compaction needs the bucket. When it is back, all goes on by itself.
func TestEvict_BucketAway(t *testing.T) {
	change := func(o *Options) {
		evicting(o)
		o.MaxKept = testBudget
		o.Publish, o.Retain = time.Second, time.Hour
	}
	inTime(t, change, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		model := make(map[string]string)
		grow(t, s, model, 6000) // with what comes below, all tails fit into the budget
		var away atomic.Bool
		b.Hook(func(string, string) error {
			if away.Load() {
				return errUnreachable
			}
			return nil
		}, nil)
		away.Store(true)
		begun := time.Now()
		put(t, s, model, "news", 10)
		v, err := s.DB().Get([]byte("news0000"))
		if took := time.Since(begun); err != nil || string(v) != model["news0000"] || took > time.Second {
			t.Errorf("what is in the memtable: %q, %v, after %v", v, err, took)
		}
		for i := range 500 {
			if has, err := s.DB().Has(fmt.Appendf(nil, "key%08dx", i*49999)); has || err == nil {
				continue // a false positive asks the bucket
			} else if !errors.Is(err, errUnreachable) {
				t.Fatal(err)
			}
		}
		failed := 0
		for i, key := range slices.Sorted(maps.Keys(model)) {
			if i%300 != 0 {
				continue
			}
			begun = time.Now()
			v, err := s.DB().Get([]byte(key))
			var damage *shale.CorruptionError
			switch took := time.Since(begun); {
			case err == nil && string(v) != model[key]:
				t.Errorf("%s: %q", key, v)
			case took > tablesWait+5*time.Second:
				t.Errorf("%s: %v after %v", key, err, took)
			case err != nil && (!errors.Is(err, errUnreachable) || errors.As(err, &damage)):
				t.Errorf("%s: %v", key, err)
			case err != nil:
				failed++
			}
		}
		if failed == 0 {
			t.Error("no read needed the bucket")
		}
		wrote := make(chan map[string]string)
		go func() {
			more, r := make(map[string]string), rand.New(rand.NewPCG(3, 5))
			for len(more) < 8*testBudget/400 {
				key, value := randomEntry(r)
				switch err := s.DB().Put([]byte(key), value); {
				case err == nil:
					more[key] = string(value)
				case errors.Is(err, shale.ErrReadOnly) && errors.Is(err, errUnreachable):
					time.Sleep(time.Second) // a compaction that makes room needs the bucket
				default:
					t.Error(err)
					close(wrote)
					return
				}
			}
			wrote <- more
		}()
		time.Sleep(10 * time.Minute)
		select {
		case <-wrote:
			t.Error("eight times the budget was written without a bucket")
		default:
		}
		if local := localBytes(t, s.fs, "db"); local > testBudget+s.opts.MaxKept+4*s.opts.memtableSize() {
			t.Errorf("%d bytes of tables are local", local)
		}
		if now := s.Status(); !errors.Is(now.Away, errUnreachable) || now.Err != nil {
			t.Errorf("without the bucket: %+v", now)
		}
		away.Store(false)
		maps.Copy(model, <-wrote)
		settleEvicted(t, s)
		sameMap(t, "when the bucket is back", contents(t, s.DB()), model)
		sameMap(t, "a restore", restoredContents(t, b.Bucket), model)
		if kinds := events.kinds(); !slices.Contains(kinds, EventAway) || !slices.Contains(kinds, EventBack) {
			t.Errorf("events %v", kinds)
		}
	})
}

// TestEvict_CloseWithoutBucket: Close ends although reads, flushes and compactions wait for the bucket.
func TestEvict_CloseWithoutBucket(t *testing.T) {
	inTime(t, evicting, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		model := make(map[string]string)
		grow(t, s, model, 20_000)
		b.Hook(func(string, string) error { return errUnreachable }, nil)
		ended := make(chan error, 2)
		go func() {
			for _, err := range s.DB().Scan(shale.Range{}) {
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- errors.New("a scan needed no bucket")
		}()
		go func() { ended <- fillUntil(s, 16*testBudget/400) }()
		time.Sleep(10 * time.Second)
		begun := time.Now()
		_ = s.Close() // it may say that some writes were not shipped
		if took := time.Since(begun); took > s.opts.testing.closeWait+15*time.Second {
			t.Errorf("Close took %v", took)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, errUnreachable) && !errors.Is(err, shale.ErrClosed) && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		b.Hook(nil, nil)
	})
}

// fillRandom writes n random entries of 400 bytes that do not compress, under keys that are not in model.
func fillRandom(t testing.TB, s *Store, model map[string]string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(model)), uint64(n)))
	for range n {
		key, value := randomEntry(r)
		for model[key] != "" {
			key, value = randomEntry(r)
		}
		if err := s.DB().Put([]byte(key), value); err != nil {
			t.Error(err)
			return
		}
		model[key] = string(value)
	}
}

// fillUntil writes up to n random entries, until that fails.
func fillUntil(s *Store, n int) error {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		key, value := randomEntry(r)
		if err := s.DB().Put([]byte(key), value); err != nil {
			return err
		}
	}
	return errors.New("all was written")
}

func randomEntry(r *rand.Rand) (key string, value []byte) {
	value = make([]byte, 400)
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	return fmt.Sprintf("key%08d", r.IntN(1e8)), value
}

// TestEvict_PowerCuts cuts the power at operations of the file system while tables are evicted. Then the store opens with
// the bucket as it was, and has all that was synced, and so has one that is restored. Only one copy of a table is left at
// times, and it is the bucket's then.
func TestEvict_PowerCuts(t *testing.T) {
	step := int64(499)
	if testing.Short() {
		step = 1999
	}
	var cuts []powerCut
	disk, inner := vfs.NewMem(), NewMem()
	b := remotetest.NewFake(inner)
	o := manual(disk)
	evicting(o)
	model := make(map[string]string)
	var synced atomic.Pointer[map[string]string]
	synced.Store(&map[string]string{})
	// Nothing begins an operation while a cut is made, so the disk and the bucket are those of one moment.
	var cutting sync.Mutex
	b.Hook(func(string, string) error {
		cutting.Lock()
		defer cutting.Unlock()
		return nil
	}, nil)
	disk.OnOp(func(vfs.Op, string) {
		cutting.Lock()
		defer cutting.Unlock()
		n := disk.Ops()
		if n/step == int64(len(cuts)) {
			return
		}
		configs := vfs.CrashConfigs(uint64(n))
		cuts = append(cuts, powerCut{n, disk.Crash(configs[len(cuts)%len(configs)]), cloneOf(inner), *synced.Load()})
	})
	s := openStore(t, "db", b, o)
	for range 6 {
		grow(t, s, model, 2000)
		now := maps.Clone(model)
		synced.Store(&now)
	}
	disk.OnOp(nil)
	if countEvicted(t, s) == 0 {
		t.Fatal("no table was evicted")
	}
	mustNil(t, s.Close())
	for _, c := range cuts {
		o.Store.FS = c.fsys
		s := openStore(t, "db", c.bucket, o)
		got := contents(t, s.DB())
		for key, value := range c.synced {
			if got[key] != value {
				t.Fatalf("power cut at operation %d: %q is lost", c.at, key)
			}
		}
		mustNil(t, s.Publish(t.Context()))
		sameMap(t, fmt.Sprint("power cut at operation ", c.at, ": the bucket"), restoredContents(t, c.bucket), got)
		mustNil(t, s.Close())
	}
	t.Log(len(cuts), "power cuts")
}

// countEvicted returns how many tables of a store are in the bucket only.
func countEvicted(t testing.TB, s *Store) (n int) {
	t.Helper()
	state, err := s.state()
	mustNil(t, err)
	for a := range placedTables(state.Version) {
		if s.evicting.has(a.Table) {
			n++
		}
	}
	return n
}
