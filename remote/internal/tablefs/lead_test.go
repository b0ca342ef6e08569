package tablefs

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// publishRun publishes a run of tables that are each shorter than size, and returns them in the order of their
// keys. Each has the keys from firsts[i] on.
func publishRun(t *testing.T, keys int, size int64) (p *published, run []File, firsts [][]byte) {
	t.Helper()
	p = publishTables(t, keys, shale.Options{CompactionWorkers: -1, MemtableSize: size, TableSize: size})
	for _, table := range p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables {
		run, firsts = append(run, FileOf(table)), append(firsts, table.Smallest)
	}
	if len(run) < maxLeads || run[0].Size > pieceSize/2 {
		t.Fatalf("%d tables of %d bytes", len(run), run[0].Size)
	}
	return p, run, firsts
}

// asked counts the GETs of each object.
type asked struct {
	mu sync.Mutex
	of map[string]int
}

func (a *asked) hook(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = make(map[string]int)
	}
	a.of[name]++
	return nil
}

func (a *asked) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.of)
}

// TestLead_Scan goes through runs of short tables, some of which have no four pages, forwards and backwards. When it is in the
// middle of a table, the next ones are asked for, about two pieces and no more; and each table costs one GET, but the first
// two, in which the scan is recognised.
func TestLead_Scan(t *testing.T) {
	testenv.CheckLeaks(t)
	const keys = 200_000
	p, run, firsts := publishRun(t, keys, 2<<20)
	scanRun(t, p, run, firsts, keys, false)
	scanRun(t, p, run, firsts, keys, true)
	p, run, firsts = publishRun(t, keys/4, 256<<10)
	scanRun(t, p, run, firsts, keys/4, false)
}

func scanRun(t *testing.T, p *published, run []File, firsts [][]byte, keys int, reverse bool) {
	t.Helper()
	files := p.files(nil, "")
	db := p.reader(files, shale.Options{CacheSize: -1})
	var gets asked
	p.bucket.HookReads(gets.hook)
	defer p.bucket.HookReads(nil)
	order := slices.Clone(run)
	if reverse {
		slices.Reverse(order)
	}
	n := 0
	for e, err := range db.Scan(shale.Range{Reverse: reverse}) {
		mustNil(t, err)
		// The table that the entry is in, counted as the scan goes.
		at, there := slices.BinarySearchFunc(firsts, e.Key, bytes.Compare)
		if !there {
			at--
		}
		if reverse {
			at = len(run) - 1 - at
		}
		if n++; n%1000 != 0 || at < 2 || at+2 >= len(run) {
			continue
		}
		testenv.WaitFor(t, "GETs of the next tables", func() bool {
			of := gets.counts()
			return of[order[at+1].Name()] > 0 && of[order[at+2].Name()] > 0
		})
		most := min(at+2+int(ahead*pieceSize/order[at].Size)+1, len(run))
		for i, f := range order[most:] {
			if gets.counts()[f.Name()] > 0 {
				t.Fatalf("reverse %v: table %d of the run is asked for while the scan is in number %d", reverse, most+i, at)
			}
		}
	}
	if n != keys {
		t.Errorf("reverse %v: %d entries", reverse, n)
	}
	of := gets.counts()
	for i, f := range order {
		if got := of[f.Name()]; i > 1 && got != 1 || got > 2*neighbours {
			t.Errorf("reverse %v: %d GETs of table %d of the run, with %d bytes", reverse, got, i, f.Size)
		}
	}
	if len(files.live) != 0 || len(files.leads) != 0 {
		t.Errorf("reverse %v: %d streams and %d leads are left", reverse, len(files.live), len(files.leads))
	}
	mustNil(t, db.Close())
}

// TestLead_Given: nobody reads what a scan has left behind; the tables are read right without it, and it goes when other
// streams need the room. What failed, and what was fetched of a table that is damaged, is fetched again.
func TestLead_Given(t *testing.T) {
	testenv.CheckLeaks(t)
	p, run, _ := publishRun(t, 200_000, 2<<20)
	files := p.files(nil, "")
	read := func(f File, n int64) error {
		file, err := files.open("", f.Object())
		mustNil(t, err)
		defer file.Close()
		b := make([]byte, 64<<10)
		for at := int64(0); at < n; at += int64(len(b)) {
			if _, err := file.ReadAt(b, at); err != nil {
				return err
			}
		}
		return nil
	}
	leads := func() (n int) {
		files.mu.Lock()
		defer files.mu.Unlock()
		return len(files.leads)
	}
	var gets asked
	lost := errors.New("lost")
	p.bucket.HookReads(func(name string) error {
		err := gets.hook(name)
		if name == run[1].Name() && gets.counts()[name] == 1 {
			return lost
		}
		return err
	})
	mustNil(t, read(run[0], 6*64<<10))
	testenv.WaitFor(t, "leads", func() bool { return leads() > 4 })
	files.background.Wait()
	mustNil(t, read(run[1], 64<<10)) // although its lead has failed
	before := gets.counts()[run[2].Name()]
	damaged, err := files.open("", run[2].Object())
	mustNil(t, err)
	mustNil(t, damaged.(vfs.RemoteFile).Refetch())
	mustNil(t, damaged.Close())
	mustNil(t, read(run[2], 64<<10))
	if before != 1 || gets.counts()[run[2].Name()] != 3 { // the tail and the data
		t.Errorf("%d GETs of a table before it was found damaged, %d in all", before, gets.counts()[run[2].Name()])
	}
	mustNil(t, read(run[3], 64<<10))
	if n := gets.counts()[run[3].Name()]; n != 1 {
		t.Errorf("%d GETs of a table that was read ahead", n)
	}

	// A scan in another part of the run, long after the first.
	left := leads()
	files.mu.Lock()
	files.clock += 2 * idleReads
	files.mu.Unlock()
	far := run[len(run)-4]
	mustNil(t, read(far, 6*64<<10))
	testenv.WaitFor(t, "the old leads to go", func() bool { return left > 4 && leads() <= 3 })
}

// TestLead_Pages goes through a run of tables page by page, with a new iterator for each page. Such a scan makes many short reads,
// and yet nothing is fetched twice.
func TestLead_Pages(t *testing.T) {
	const keys, page = 200_000, 20
	p, run, _ := publishRun(t, keys, 2<<20)
	size := int64(0)
	for _, f := range run {
		size += f.Size
	}
	db := p.reader(p.files(nil, ""), shale.Options{})
	var fetched atomic.Int64
	p.bucket.OnAnswer(func(_ string, b []byte, _ int64) { fetched.Add(int64(len(b))) })
	lower := []byte(nil)
	for n := 0; n < keys; {
		for e, err := range db.Scan(shale.Range{Lower: lower, Limit: page}) {
			mustNil(t, err)
			n++
			lower = append(append(lower[:0], e.Key...), 0)
		}
	}
	if fetched.Load() > size+size/10 {
		t.Errorf("%d bytes were fetched of %d", fetched.Load(), size)
	}
}
