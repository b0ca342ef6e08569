package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A goldenFeature is a golden store that uses something which programs before it refuse. Its comment says with which
// error, of ErrFormatTooNew, revision 54760274 refuses it. TestOpen_BatchOfANewerVersion and
// TestDecodeEdit_UnknownFields hold that programs do that.
type goldenFeature struct {
	name  string
	write func(t *testing.T, f *featureStore)
	// contents is what the store holds, and expires when some of that is over.
	contents map[string]string
	expires  map[string]time.Time
	check    func(t *testing.T, db *DB)
}

// featureTime is the time at which golden stores are written, and earlyTime is long before that.
var (
	featureTime = time.UnixMilli(1_700_000_000_000)
	earlyTime   = time.UnixMilli(1_600_000_000_000)
)

const centuries = 200 * 365 * 24 * time.Hour

var goldenFeatures = []goldenFeature{
	{
		// operation of kind 2 in 000002.wal
		name: "v1-range-delete-in-log",
		write: func(t *testing.T, f *featureStore) {
			f.puts(0, 40)
			f.rangeDelete("k010", "k030")
			f.puts(20, 22)
			f.rangeDelete("k035", "")
		},
		contents: numbered(0, 10, 20, 22, 30, 35),
	},
	{
		// field 16 in MANIFEST-000005
		name: "v1-range-deletes",
		write: func(t *testing.T, f *featureStore) {
			f.puts(0, 100)
			f.rangeDelete("", "k010")
			mustFlush(t, f.db)
			f.reopen()      // so that the manifest begins with that one
			settle(t, f.db) // which is finished now
			f.rangeDelete("k020", "k040")
			f.rangeDelete("k030", "k060")
			f.puts(35, 45)
			mustFlush(t, f.db)
			f.rangeDelete("k090", "")
			mustFlush(t, f.db)
			f.rangeDelete("k070", "k080")
			f.puts(75, 76)
		},
		contents: numbered(10, 20, 35, 45, 60, 70, 75, 76, 80, 90),
		check: func(t *testing.T, db *DB) {
			if n := db.Metrics().RangeDeletes; n == 0 {
				t.Error("the manifest has no range deletes")
			}
		},
	},
	{
		// operation of kind 4 in 000002.wal
		name: "v1-expiring-in-log",
		write: func(t *testing.T, f *featureStore) {
			f.puts(0, 4)
			mustPutTTL(t, f.db, "k000", "gone", time.Hour)
			mustPutTTL(t, f.db, "k001", "stays", centuries)
			f.jump(2 * time.Hour)
		},
		contents: with(numbered(2, 4), "k001", "stays"),
		expires:  map[string]time.Time{"k001": featureTime.Add(centuries)},
	},
	{
		// kinds of entries 0x10 in 000009.sst
		name: "v1-expiring",
		write: func(t *testing.T, f *featureStore) {
			f.puts(0, 20)
			mustPutTTL(t, f.db, "k000", "gone", time.Hour)
			mustPutTTL(t, f.db, "k001", "stays", centuries)
			settle(t, f.db)
			f.jump(2 * time.Hour)
			if err := f.db.Compact(context.Background(), Range{}); err != nil { // the manifest has when k000 was over
				t.Fatal(err)
			}
			// The system's clock goes back, and the store's does not.
			f.clock.ms.Store(earlyTime.UnixMilli())
			f.reopen()
			mustPutTTL(t, f.db, "k002", "stays too", centuries)
			mustPutTTL(t, f.db, "k003", "", centuries)
			mustFlush(t, f.db)
		},
		contents: with(numbered(4, 20), "k001", "stays", "k002", "stays too", "k003", ""),
		expires: map[string]time.Time{"k001": featureTime.Add(centuries), "k002": featureTime.Add(time.Hour + centuries),
			"k003": featureTime.Add(time.Hour + centuries)},
		check: func(t *testing.T, db *DB) {
			if now := db.snapshots.Clock.Now(); now < featureTime.Add(time.Hour).UnixMilli() {
				t.Errorf("the store's time is %v", time.UnixMilli(now))
			}
		},
	},
	{
		// operation of kind 6 in 000004.wal, before revision 436d4af2
		name: "v1-ingest-mark-in-log", // before revision 436d4af2
		write: func(t *testing.T, f *featureStore) {
			f.puts(0, 20)
			mustIngest(t, f.db, sortedKeys(0, 10, "ingested"))
			f.puts(20, 22)
		},
		contents: with(numbered(0, 22), "k000000", "ingested", "k000001", "ingested", "k000002", "ingested", "k000003", "ingested", "k000004", "ingested",
			"k000005", "ingested", "k000006", "ingested", "k000007", "ingested", "k000008", "ingested", "k000009", "ingested"),
	},
}

// A featureStore is a golden store that is being written.
type featureStore struct {
	*testing.T
	dir   string
	clock *handClock
	db    *DB
}

func (f *featureStore) open() {
	session := uint64(0)
	o := &Options{TableSize: 4 << 10, BlockSize: 512, CompactionWorkers: -1, Durability: SyncManual, KeepLog: 1 << 20,
		testing: testOptions{seed: 42, baseSize: 8 << 10, session: func() uint64 { session++; return session }}}
	db, err := Open(f.dir, f.clock.options(*o))
	if err != nil {
		f.Fatal(err)
	}
	f.db = db
}

func (f *featureStore) reopen() {
	if err := f.db.Close(); err != nil {
		f.Fatal(err)
	}
	f.open()
}

func (f *featureStore) puts(from, to int) {
	for i := from; i < to; i++ {
		mustPut(f, f.db, fmt.Sprintf("k%03d", i), strings.Repeat(fmt.Sprint(i, " "), 5))
	}
}

// rangeDelete deletes the keys from lower to upper; "" is no bound.
func (f *featureStore) rangeDelete(lower, upper string) {
	var to []byte
	if upper != "" {
		to = []byte(upper)
	}
	if err := f.db.DeleteRange([]byte(lower), to); err != nil {
		f.Fatal(err)
	}
}

func (f *featureStore) jump(d time.Duration) { f.clock.jump(d) }

// numbered returns what puts has put, in intervals.
func numbered(bounds ...int) map[string]string {
	m := make(map[string]string)
	for b := range slices.Chunk(bounds, 2) {
		for i := b[0]; i < b[1]; i++ {
			m[fmt.Sprintf("k%03d", i)] = strings.Repeat(fmt.Sprint(i, " "), 5)
		}
	}
	return m
}

func with(m map[string]string, pairs ...string) map[string]string {
	for p := range slices.Chunk(pairs, 2) {
		m[p[0]] = p[1]
	}
	return m
}

// This program opens the golden store of each feature, for reading and for writing, and it holds what was put there: also
// once it is compacted, and for a program whose clock is years behind.
func TestGolden_Features(t *testing.T) {
	for _, g := range goldenFeatures {
		from := filepath.Join("testdata/golden", g.name)
		if *update {
			f := &featureStore{T: t, dir: from, clock: newHandClock()}
			f.clock.ms.Store(featureTime.UnixMilli())
			if err := os.RemoveAll(from); err != nil {
				t.Fatal(err)
			}
			f.open()
			g.write(t, f)
			if err := errors.Join(f.db.Close(), os.Remove(filepath.Join(from, "LOCK"))); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 4 {
			clock := newHandClock()
			if i%2 == 0 && g.name == "v1-expiring" {
				clock.ms.Store(earlyTime.UnixMilli())
			}
			dir := copyStore(t, from)
			db, err := Open(dir, clock.options(Options{ReadOnly: i < 2, CompactionWorkers: -1}))
			if err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			wantFeature(t, g, db)
			if g.check != nil {
				g.check(t, db)
			}
			if i >= 2 {
				if err := db.Compact(context.Background(), Range{}); err != nil {
					t.Fatal(err)
				}
				wantFeature(t, g, db)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func wantFeature(t *testing.T, g goldenFeature, db *DB) {
	t.Helper()
	got := make(map[string]string)
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		got[string(e.Key)] = string(e.Value)
		if want := g.expires[string(e.Key)]; !e.ExpiresAt.Equal(want) {
			t.Errorf("%s: %s expires at %v, want %v", g.name, e.Key, e.ExpiresAt, want)
		}
	}
	if !maps.Equal(got, g.contents) {
		t.Errorf("%s: %s", g.name, difference(got, g.contents))
	}
	for k := range numbered(0, 100) {
		want, there := g.contents[k]
		if v, err := db.Get([]byte(k)); there && string(v) != want || errors.Is(err, ErrNotFound) == there {
			t.Errorf("%s: Get(%s) = %q, %v", g.name, k, v, err)
		}
	}
	if err := db.Verify(t.Context()); err != nil {
		t.Errorf("%s: %v", g.name, err)
	}
}
