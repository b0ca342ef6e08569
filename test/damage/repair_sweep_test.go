package damage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// Stores of all shapes are damaged in all ways, once and several times over, and not at all. Check
// names the files; what Run saves is right, and what it does not save it tells; the damaged store
// stays as it is.
func TestRepair_Sweep(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	var mu sync.Mutex // guards outcomes
	outcomes, tried, all := make(map[string]int), 0, 0
	share := testenv.ShareOf(t, seed, 1./40)
	for round := uint64(0); (round == 0 || time.Since(begin) < long) && !t.Failed(); round++ {
		r := rand.New(rand.NewPCG(seed, round))
		other := newLostStore(t, "closed", seed+round+1)
		for _, shape := range someLostShapes(seed + round) {
			b := newLostStore(t, shape, seed+round)
			cases := b.losses(r, other, 97)
			for range len(cases) / 4 {
				cases = append(cases, both(cases[r.IntN(len(cases))], cases[r.IntN(len(cases))]))
			}
			some := []loss{{what: "nothing", apply: func(*vfs.Mem) error { return nil }}}
			for _, d := range cases {
				if all++; share.Takes(uint64(all)) {
					some = append(some, d)
				}
			}
			tried += len(some)
			testenv.Sweep(t, some, func(i int, d loss) error {
				outcome, err := b.try(d)
				if i == 0 && err == nil && outcome != "whole" {
					err = fmt.Errorf("the outcome is %q", outcome)
				}
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w; %s", shape, seed+round, err, b.opts)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[outcome]++
				return nil
			})
		}
	}
	list := ""
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		list += fmt.Sprintf(", %d %s", outcomes[o], o)
	}
	t.Logf("%d of %d damaged stores, %v; %v%s", tried, all, time.Since(begin).Round(time.Millisecond), share, list)
}

// A gap in what a log has in common with tables costs nothing; unless the tables are damaged too:
// then what the log has in front of the gap is old. One store in sixty has no gap that costs
// anything, so there are five stores.
func TestRepair_GapInWhatIsFlushed(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 9))
	outcomes := make(map[string]int)
	rounds := 10
	if testing.Short() {
		rounds = 1
	}
	for range 5 {
		b, log, size, tables := halfFlushed(t, r)
		for range rounds {
			d := b.edit(log, flipped(4096+r.IntN((size-4096)/2), 1))
			table := tables[r.IntN(len(tables))]
			outcome, err := b.try(both(d, b.edit(table, flipped(r.IntN(len(b.files[table])*2/3), 1))))
			if err != nil {
				t.Fatalf("%v and %s: %v", d, table, err)
			}
			outcomes[outcome]++
		}
	}
	t.Logf("seed %d: %s", seed, fmt.Sprint(outcomes))
	if outcomes["some keys lost"] == 0 && !testing.Short() {
		t.Errorf("no gap of the log cost anything: %v", outcomes)
	}
}

// halfFlushed makes stores until one has tables and a log of at least 5,000 bytes, which was too
// much to be kept in memory, and returns the name and the size of that log.
func halfFlushed(t *testing.T, r *rand.Rand) (b *lostStore, log string, size int, tables []string) {
	for size < 5000 || tables == nil {
		b, size, tables = newLostStore(t, "half flushed", r.Uint64()), 0, nil
		for _, name := range slices.Sorted(maps.Keys(b.files)) {
			switch {
			case b.unused[name]:
			case strings.HasSuffix(name, ".sst"):
				tables = append(tables, name)
			case strings.HasSuffix(name, ".wal"):
				if n := len(strings.TrimRight(b.files[name], "\x00")); n > size {
					log, size = name, n
				}
			}
		}
	}
	return b, log, size, tables
}

// The device can't read a file, or all of one kind: that is damage too, and the error is told.
func TestRepair_Unreadable(t *testing.T) {
	shapes := []string{"many logs", "crashed", "closed"}
	if testing.Short() {
		shapes = shapes[:1]
	}
	for _, shape := range shapes {
		b := newLostStore(t, shape, testenv.Seed(t))
		for file := range b.files {
			if b.unused[file] {
				continue
			}
			for first := int64(1); first < 6; first++ {
				if first > 1 && (testing.Short() || !strings.HasSuffix(file, ".wal") && first != 3) {
					continue
				}
				d := loss{
					what: fmt.Sprintf("reads from number %d up fail", first), files: []string{file},
					apply: func(*vfs.Mem) error { return nil }, harmless: first > 1,
				}
				var n atomic.Int64
				d.inject = func(op vfs.Op, name string) error {
					if op == vfs.OpRead && name == harness.Dir+"/"+file && n.Add(1) >= first {
						return syscall.EIO
					}
					return nil
				}
				d.restart = func() { n.Store(0) }
				if _, err := b.try(d); err != nil {
					t.Errorf("%s: %v: %v; %s", shape, d, err, b.opts)
				}
			}
		}
	}
}

// The manifest of another store, with its CURRENT, names none of the files. The store is the one
// that most files are of.
func TestRepair_ForeignManifest(t *testing.T) {
	seed := testenv.Seed(t)
	b, other := newLostStore(t, "small", seed), newLostStore(t, "small", seed+1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range other.files {
		if name == "CURRENT" || strings.HasPrefix(name, "MANIFEST") {
			must(writeFile(b.mem, name, data))
		}
	}
	run := func(into string, doubtful bool) (*repair.Report, error) {
		return repair.Run(t.Context(), harness.Dir, into, &repair.Options{FS: b.mem, Doubtful: doubtful})
	}
	strict, err := run("strict", false)
	must(err)
	if strict.Manifest != "" || strict.Whole() || !strings.HasPrefix(strict.Findings[0].File, "MANIFEST") {
		t.Errorf("Run = %+v, want no manifest, and why", strict)
	}
	all, err := run("all", true)
	must(err)
	got, err := contents(b.mem, "all")
	must(err)
	// The manifest had the range deletes of what is in tables, so keys of theirs may come back.
	last := b.states[len(b.states)-1]
	back := slices.DeleteFunc(harness.Without(got, last).Entries(), func(e harness.Entry) bool {
		return !slices.ContainsFunc(b.ranges, func(op shale.Op) bool {
			return string(op.Key) <= e.Key && (op.Value == nil || e.Key < string(op.Value))
		})
	})
	if err := last.Diff(harness.Without(got, harness.StateOf(back))); err != nil || all.Keys != uint64(got.Len()) {
		t.Errorf("with the doubtful ones %d keys: %v", all.Keys, err)
	}
	for name := range b.files {
		if strings.HasSuffix(name, ".sst") && other.files[name] != "" {
			must(writeFile(b.mem, name, other.files[name]))
		}
	}
	all, err = run("foreign", true)
	if err == nil {
		got, err = contents(b.mem, "foreign")
		must(err)
		for _, e := range got.Entries() {
			if !b.written[e] && !other.written[e] {
				t.Errorf("key %q never was %q", e.Key, e.Value)
			}
		}
	} else if !strings.Contains(err.Error(), "of store") {
		t.Errorf("Run of a mixture: %+v, %v", all, err)
	}
}
