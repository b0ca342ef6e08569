package remote_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

// A weather is what the bucket is like for some minutes.
type weather int

const (
	fair  weather = iota
	away          // each call fails
	stuck         // each call hangs
	storm         // one call in six has a fault, of any kind
	numWeathers
)

// A day is that of a store of several times its local disk, under a clock of its own. The bucket is away, hangs, or loses and
// changes what passes for minutes at a time; the process ends now and then, or its machine loses power; and a program
// writes and reads all the time.
type day struct {
	t       *testing.T
	random  *rand.Rand
	bucket  remote.Bucket
	disk    *vfs.Mem
	s       *remote.Store
	life    *life
	old     sync.WaitGroup // Close of the stores whose machines are gone
	model   map[string]string
	tally   map[string]int
	weather struct {
		sync.Mutex
		now     weather
		changes int
		random  *rand.Rand
	}
}

// A life is the time of one process. When its machine is gone, the bucket gets nothing from it.
type life struct {
	*buckettest.Faulty
	gone bool // guarded by day.weather
}

const (
	dayBudget = 1 << 20
	dayKeys   = 12_000 // with values of 300 bytes
)

// next begins the life of a process.
func (d *day) next() {
	d.life = new(life)
	l := d.life
	l.Faulty = buckettest.NewFaulty(d.bucket, 5*time.Second, func(buckettest.Op) buckettest.Fault {
		d.weather.Lock()
		defer d.weather.Unlock()
		switch now := d.weather.now; {
		case l.gone || now == away:
			return buckettest.DropBefore
		case now == stuck:
			return buckettest.HangBefore
		case now == storm && d.weather.random.IntN(6) == 0:
			return stormFaults[d.weather.random.IntN(len(stormFaults))]
		}
		return buckettest.None
	})
}

var stormFaults = []buckettest.Fault{
	buckettest.DropBefore, buckettest.DropAfter, buckettest.Late, buckettest.Duplicate, buckettest.Delay, buckettest.Conflict,
	buckettest.Cut, buckettest.Flip, buckettest.HangBefore, buckettest.HangBody, buckettest.HangAfter,
}

// changeWeather changes it until ctx is done.
func (d *day) changeWeather(ctx context.Context) {
	for {
		d.weather.Lock()
		mean := 25 * time.Minute
		if d.weather.now == fair {
			d.weather.now, mean = 1+weather(d.weather.random.IntN(int(numWeathers)-1)), 8*time.Minute
		} else {
			d.weather.now = fair
		}
		d.weather.changes++
		wait := time.Duration(d.weather.random.ExpFloat64() * float64(mean))
		d.weather.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// must says whether err is nil. It may be something else only if the bucket was not fair all the time since changes, and never says
// that the store is damaged or lacks what it has.
func (d *day) must(what string, changes int, err error) bool {
	d.t.Helper()
	d.weather.Lock()
	always := d.weather.now == fair && d.weather.changes == changes
	d.weather.Unlock()
	var damage *shale.CorruptionError
	switch {
	case err == nil:
		return true
	case always || errors.As(err, &damage) || errors.Is(err, shale.ErrNotFound):
		d.t.Fatalf("%s, in fair weather: %v: %v", what, always, err)
	}
	d.tally["failed "+what]++
	return false
}

func (d *day) changes() int {
	d.weather.Lock()
	defer d.weather.Unlock()
	return d.weather.changes
}

// open opens the store, as often as it takes.
func (d *day) open() {
	d.t.Helper()
	for {
		changes, err := d.changes(), error(nil)
		d.s, err = remote.Open(d.t.Context(), "db", d.life, &remote.Options{
			LocalBytes: dayBudget, Retain: 2 * time.Hour,
			Store: shale.Options{FS: d.disk, MemtableSize: 64 << 10, TableSize: 64 << 10, CacheSize: 64 << 10, OnEvent: func(shale.Event) {}},
		})
		if d.must("open", changes, err) {
			return
		}
		time.Sleep(time.Minute)
	}
}

// write writes some entries. It may wait for room, but it never fails.
func (d *day) write() {
	d.t.Helper()
	var b shale.Batch
	for range 1 + d.random.IntN(100) {
		key := fmt.Sprintf("key%05d", d.random.IntN(dayKeys))
		if _, old := d.model[key]; old && d.random.IntN(4) == 0 {
			delete(d.model, key)
			mustNil(d.t, b.Delete([]byte(key)))
			continue
		}
		value := make([]byte, 300)
		for i := range value {
			value[i] = byte(d.random.Uint32())
		}
		d.model[key] = string(value)
		mustNil(d.t, b.Put([]byte(key), value))
	}
	mustNil(d.t, d.s.DB().Write(d.t.Context(), &b))
	d.tally["writes"] += b.Len()
}

// read looks some keys up, or goes through a part of the store.
func (d *day) read() {
	d.t.Helper()
	changes := d.changes()
	if d.random.IntN(10) == 0 {
		lo := fmt.Sprintf("key%05d", d.random.IntN(dayKeys))
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(d.model)), func(k string) bool { return k < lo })
		for e, err := range d.s.DB().Scan(shale.Range{Lower: []byte(lo)}) {
			if !d.must("scan", changes, err) {
				return
			}
			if len(want) == 0 || string(e.Key) != want[0] || string(e.Value) != d.model[want[0]] {
				d.t.Fatalf("a scan has %q with %.20q", e.Key, e.Value)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			d.t.Fatalf("a scan lacks %q and %d more", want[0], len(want)-1)
		}
		d.tally["scans"]++
		return
	}
	for range 20 {
		key := fmt.Sprintf("key%05d", d.random.IntN(dayKeys))
		want, there := d.model[key]
		value, err := d.s.DB().Get([]byte(key))
		if !there && errors.Is(err, shale.ErrNotFound) {
			d.tally["absent"]++
		} else if d.must("get", changes, err) {
			if !there || string(value) != want {
				d.t.Fatalf("%s is %.20q, want %.20q, %v", key, value, want, there)
			}
			d.tally["present"]++
		}
	}
}

// end ends the process, or the machine loses power. All that was acknowledged is there when it runs again.
func (d *day) end() {
	d.t.Helper()
	configs := vfs.CrashConfigs(d.random.Uint64())
	if i := d.random.IntN(2 * len(configs)); i < len(configs) {
		d.weather.Lock()
		d.life.gone = true
		d.weather.Unlock()
		s := d.s
		d.disk = d.disk.Crash(configs[i])
		d.old.Go(func() { _ = s.Close() }) // nobody is there to hear of an error
		d.tally["power cuts"]++
	} else {
		changes := d.changes()
		d.must("close", changes, d.s.Close())
		d.tally["restarts"]++
	}
	d.life.Replay(d.t.Context())
	d.next()
	d.open()
}

// restored checks that what the bucket has is the store, if a step can be made now.
func (d *day) restored() {
	d.t.Helper()
	if changes := d.changes(); !d.must("publish", changes, d.s.Publish(d.t.Context())) {
		return
	}
	fsys := vfs.NewMem()
	_, err := remote.Restore(d.t.Context(), d.bucket, "restored", remote.At{}, &remote.RestoreOptions{FS: fsys})
	mustNil(d.t, err)
	db, err := shale.Open("restored", &shale.Options{FS: fsys, ReadOnly: true, OnEvent: func(shale.Event) {}})
	mustNil(d.t, err)
	d.same("restored", db)
	mustNil(d.t, db.Close())
	d.tally["restores"]++
}

// same checks that all of the store is as it should be.
func (d *day) same(what string, r shale.Reader) {
	d.t.Helper()
	got := make(map[string]string)
	for e, err := range r.Scan(shale.Range{}) {
		mustNil(d.t, err)
		got[string(e.Key)] = string(e.Value)
	}
	if !maps.Equal(got, d.model) {
		d.t.Fatalf("%s: %d keys, want %d, or other values", what, len(got), len(d.model))
	}
}

// TestEvict_ADay lets a day pass for a store most of whose tables are in the bucket only. Nothing is lost or wrong at any time,
// reads fail only when the bucket does, and some hours after the last fault there is nothing left of all that.
func TestEvict_ADay(t *testing.T) {
	seed, long, begin := testenv.Seed(t), testenv.Long(t), time.Now()
	for n := uint64(0); n == 0 || time.Since(begin) < long && !t.Failed(); n++ {
		synctest.Test(t, func(t *testing.T) { passDay(t, seed+n) })
	}
}

// passDay lets one day pass.
func passDay(t *testing.T, seed uint64) {
	d := &day{t: t, random: rand.New(rand.NewPCG(seed, 1)), bucket: remote.NewMem(), disk: vfs.NewMem(), model: make(map[string]string), tally: make(map[string]int)}
	d.weather.random = rand.New(rand.NewPCG(seed, 2))
	d.next()
	d.open()
	ctx, cancel := context.WithCancel(t.Context())
	var sky sync.WaitGroup
	sky.Go(func() { d.changeWeather(ctx) })
	for begun := time.Now(); time.Since(begun) < dayLength(t); {
		switch n := d.random.IntN(100); {
		case n < 45:
			d.write()
		case n < 95:
			d.read()
		case n < 97:
			d.restored()
		case n < 98:
			d.end()
		default:
			d.life.Replay(ctx)
		}
		time.Sleep(time.Duration(d.random.ExpFloat64() * float64(30*time.Second)))
	}
	cancel()
	sky.Wait()
	d.weather.Lock()
	d.weather.now = fair
	d.weather.Unlock()
	d.settled()
	d.old.Wait()
	t.Logf("seed %d: %v", seed, d.tally)
}

// dayLength returns 24 hours, or fewer if the tests are to be brief.
func dayLength(t *testing.T) time.Duration {
	if testing.Short() {
		return 2 * time.Hour
	}
	return 24 * time.Hour
}

// settled checks that some hours after the last fault the store is as if there had been none.
func (d *day) settled() {
	d.t.Helper()
	time.Sleep(4 * time.Hour) // two after Retain
	d.restored()
	if status := d.s.Status(); status.Away != nil || status.Failing != nil || status.Err != nil {
		d.t.Errorf("at the end: %+v", status)
	}
	d.same("the store", d.s.DB())
	mustNil(d.t, d.s.DB().Verify(d.t.Context()))
	report, err := remote.Verify(d.t.Context(), d.bucket, true)
	mustNil(d.t, err)
	if len(report.Findings) > 0 || len(report.Leftovers) > report.Tables {
		d.t.Errorf("the bucket: %d findings, %d leftovers next to %d tables: %v", len(report.Findings), len(report.Leftovers), report.Tables, report.Findings)
	}
	var tables int64
	names, err := d.disk.List("db")
	mustNil(d.t, err)
	for _, name := range names {
		if info, err := d.disk.Stat(filepath.Join("db", name)); err == nil && filepath.Ext(name) == ".sst" {
			tables += info.Size
		}
	}
	if tables > dayBudget {
		d.t.Errorf("%d bytes of tables are local, of %d that may", tables, dayBudget)
	}
	mustNil(d.t, d.s.Close())
}

func mustNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
