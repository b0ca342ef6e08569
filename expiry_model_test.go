package shale

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// handClock is a system's clock that a test sets.
type handClock struct{ ms atomic.Int64 }

func newHandClock() *handClock {
	c := new(handClock)
	c.ms.Store(1_800_000_000_000)
	return c
}

func (c *handClock) now() time.Time       { return time.UnixMilli(c.ms.Load()) }
func (c *handClock) jump(d time.Duration) { c.ms.Add(d.Milliseconds()) }
func (c *handClock) options(o Options) *Options {
	o.testing.now = c.now
	return &o
}

func mustPutTTL(t *testing.T, w Writer, key, value string, ttl time.Duration) {
	t.Helper()
	if err := w.PutTTL([]byte(key), []byte(value), ttl); err != nil {
		t.Fatal(err)
	}
}

func dumpReader(t *testing.T, r Reader) string {
	t.Helper()
	var b strings.Builder
	for e, err := range r.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%s ", e.Key, e.Value)
	}
	return b.String()
}

func difference(got, want map[string]string) string {
	var b strings.Builder
	for k, v := range want {
		if g, there := got[k]; g != v {
			fmt.Fprintf(&b, "%s is %q, %v, want %q; ", k, g, there, v)
		}
	}
	for k, v := range got {
		if _, there := want[k]; !there {
			fmt.Fprintf(&b, "%s is %q, want none; ", k, v)
		}
	}
	return b.String()
}

func collect(t *testing.T, r Reader) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range r.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// A ttlModel is a sorted map with all versions of its keys.
type ttlModel struct {
	latest int64 // the store's time
	values map[string]ttlValue
}

type ttlValue struct {
	value  string
	expiry int64 // 0: never
}

func (m *ttlModel) at(ms int64) map[string]string {
	all := make(map[string]string)
	for k, v := range m.values {
		if v.expiry == 0 || v.expiry > ms {
			all[k] = v.value
		}
	}
	return all
}

// Against a map: values with and without a time, snapshots, flushes, compactions, restarts, and a clock that
// jumps both ways.
func TestTTL_AgainstAMap(t *testing.T) {
	seed := testenv.Seed(t)
	for i := range 40 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		clock, mem := newHandClock(), vfs.NewMem()
		o := Options{FS: mem, MemtableSize: 8 << 10, TableSize: 4 << 10, Durability: SyncManual}
		if rng.IntN(2) == 0 {
			o.CompactionWorkers = -1
		}
		if rng.IntN(3) == 0 {
			o.FilterBits = -1
		}
		db := mustOpen(t, "db", clock.options(o))
		m := &ttlModel{values: make(map[string]ttlValue)}
		type held struct {
			s    *Snapshot
			want map[string]string
		}
		var snapshots []held
		tick := func() int64 {
			m.latest = max(m.latest, clock.ms.Load())
			return db.snapshots.Clock.Now()
		}
		set := func(key string, v ttlValue) {
			if v.expiry == m.latest { // with a ttl of 0 it is deleted
				delete(m.values, key)
			} else {
				m.values[key] = v
			}
		}
		for range 1500 {
			now := tick()
			if now != m.latest {
				t.Fatalf("the store's time is %d, want %d", now, m.latest)
			}
			key := fmt.Sprintf("k%02d", rng.IntN(60))
			value := strings.Repeat(fmt.Sprint(rng.IntN(1000)), 1+rng.IntN(20))
			ttl := time.Duration(rng.IntN(3600)) * time.Second
			until := ttlValue{value, now + ttl.Milliseconds()}
			switch rng.IntN(16) {
			case 0, 1, 2:
				mustPut(t, db, key, value)
				set(key, ttlValue{value, 0})
			case 3, 4, 5, 6:
				mustPutTTL(t, db, key, value, ttl)
				set(key, until)
			case 7:
				if err := db.Delete([]byte(key)); err != nil {
					t.Fatal(err)
				}
				delete(m.values, key)
			case 8:
				_, there := m.at(now)[key]
				inserted, err := db.PutIfAbsentTTL([]byte(key), []byte(value), ttl)
				if inserted == there || err != nil {
					t.Fatalf("PutIfAbsentTTL: %v, %v, and it was there: %v", inserted, err, there)
				}
				if inserted {
					set(key, until)
				}
			case 9:
				if len(snapshots) < 4 {
					s, err := db.Snapshot()
					if err != nil {
						t.Fatal(err)
					}
					snapshots = append(snapshots, held{s, m.at(now)})
				}
			case 10:
				if len(snapshots) > 0 {
					i := rng.IntN(len(snapshots))
					if got := collect(t, snapshots[i].s); !maps.Equal(got, snapshots[i].want) {
						t.Fatalf("a snapshot as of %d at number %d: %s", snapshots[i].s.held.AsOf, snapshots[i].s.Seq(), difference(got, snapshots[i].want))
					}
					snapshots[i].s.Close()
					snapshots = slices.Delete(snapshots, i, i+1)
				}
			case 11:
				mustFlush(t, db)
			case 12:
				if rng.IntN(4) == 0 {
					compactAll(t, db)
				}
			case 13:
				clock.jump(time.Duration(rng.IntN(7200)-3600) * time.Second)
			case 14:
				clock.jump(time.Duration(rng.IntN(60)) * time.Second)
			case 15:
				if rng.IntN(10) > 0 || len(snapshots) > 0 {
					break
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				db = mustOpen(t, "db", clock.options(o))
				// It may begin behind the time of before, but not behind what was dropped.
				m.latest = db.snapshots.Clock.Now()
			}
			now = tick()
			want := m.at(now)
			key = fmt.Sprintf("k%02d", rng.IntN(60))
			v, there := want[key]
			wantGet(t, db, key, v, there)
			if rng.IntN(8) == 0 {
				if got := collect(t, db); !maps.Equal(got, want) {
					t.Fatalf("it holds other things than the map: %s", difference(got, want))
				}
				var back []string
				for e, err := range db.Scan(Range{Reverse: true}) {
					if err != nil {
						t.Fatal(err)
					}
					if want[string(e.Key)] != string(e.Value) {
						t.Fatalf("backward: %q = %q", e.Key, e.Value)
					}
					back = append(back, string(e.Key))
				}
				if len(back) != len(want) || !slices.IsSortedFunc(back, func(a, b string) int { return strings.Compare(b, a) }) {
					t.Fatalf("backward: %q", back)
				}
			}
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		for _, h := range snapshots {
			h.s.Close()
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
