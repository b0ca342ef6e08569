package residency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A filterWorld stands for the store in tests of Filters: a
// version of three runs, newest first, with two tables each.
type filterWorld struct {
	t      *testing.T
	v      *tree.Version
	budget atomic.Int64
	closed atomic.Bool
	held   atomic.Int64          // references to v that were not released
	broken atomic.Pointer[error] // of reads of tables; nil: they succeed
	lost   []*tree.Table         // whose filters can't be read again
	*Filters
}

func newFilterWorld(t *testing.T, limited bool) *filterWorld {
	w := &filterWorld{t: t, v: &tree.Version{Meta: new(manifest.Version)}}
	for i, level := range []int{0, 5, 6} {
		r := &tree.Run{Level: level}
		for j := range 2 {
			table := w.table(base.FileNum(2*i+j+1), 500*(1+i))
			r.Tables = append(r.Tables, table)
			r.Keys += table.Meta.Keys
		}
		w.v.Runs = append(w.v.Runs, r)
	}
	w.Filters = New(Env{
		Wanted:     true,
		Limited:    limited,
		Budget:     func(uint64) int64 { return w.budget.Load() },
		Closing:    w.closed.Load,
		Acquire:    func() *tree.Version { w.held.Add(1); return w.v },
		Release:    func(*tree.Version) { w.held.Add(-1) },
		Delay:      func(n int) time.Duration { return min(time.Duration(n)*time.Second, 4*time.Second) },
		Unreadable: func(t *tree.Table, _ error) { w.lost = append(w.lost, t) },
	})
	return w
}

// table writes a table with the given number of keys, whose filter has two units of the same
// size.
func (w *filterWorld) table(num base.FileNum, keys int) *tree.Table {
	const bits = 16
	fsys := vfs.NewMem()
	f, err := fsys.Create("table")
	if err != nil {
		w.t.Fatal(err)
	}
	writer := sstable.NewWriter(f, sstable.WriterOptions{Num: num, StoreID: 1, FilterBits: bits})
	for i := range keys {
		if err := writer.Add(base.NewKey(fmt.Appendf(nil, "key%06d", i), 1, base.KindPut), nil); err != nil {
			w.t.Fatal(err)
		}
	}
	info, err := writer.Finish()
	if err != nil {
		w.t.Fatal(err)
	}
	reader, err := sstable.Open(breakable{f, &w.broken}, sstable.ReaderOptions{
		Num: num, StoreID: 1, Size: info.Size, Checksum: info.Checksum, Stats: new(sstable.Stats),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return &tree.Table{Meta: &manifest.Table{Num: num, Keys: info.Keys, FilterBits: bits}, Reader: reader}
}

// breakable is a file whose reads fail while broken is set.
type breakable struct {
	io.ReaderAt
	broken *atomic.Pointer[error]
}

func (b breakable) ReadAt(p []byte, off int64) (int, error) {
	if err := b.broken.Load(); err != nil {
		return 0, *err
	}
	return b.ReaderAt.ReadAt(p, off)
}

// errBroken may pass, and damage stays.
var (
	errBroken = errors.New("broken")
	damage    = io.ErrUnexpectedEOF
)

// fail has reads of tables fail with err; nil: they succeed.
func (w *filterWorld) fail(err error) {
	w.broken.Store(&err)
	if err == nil {
		w.broken.Store(nil)
	}
}

// units returns how many units of the tables' filters are resident, newest run first.
func (w *filterWorld) units() (units []int) {
	for t := range w.v.Tables() {
		n := 0
		if f := t.Filter(); f != nil {
			n = f.Units()
		}
		units = append(units, n)
	}
	return units
}

// bytes returns the size of the resident filters.
func (w *filterWorld) bytes() (sum int64) {
	for t := range w.v.Tables() {
		sum += t.FilterMemory()
	}
	return sum
}

func (w *filterWorld) want(when string, units ...int) {
	w.t.Helper()
	if got := w.units(); !slices.Equal(got, units) {
		w.t.Errorf("%s: units %v are resident, want %v", when, got, units)
	}
}

// Second units are released first, those of the deepest level first, and then whole filters
// in the same order. First units are read back first, those of the newest run first.
func TestFilters_Order(t *testing.T) {
	w := newFilterWorld(t, true)
	all := w.bytes()
	var down, up [][]int
	// note adds the current state to a list, if it differs from the last one.
	note := func(way *[][]int) {
		if units := w.units(); len(*way) == 0 || !slices.Equal((*way)[len(*way)-1], units) {
			*way = append(*way, units)
		}
	}
	const steps = 200
	for i := steps; i >= 0; i-- {
		w.budget.Store(all * int64(i) / steps)
		w.FitSoon(w.v)
		if got := w.bytes(); got > w.budget.Load() {
			t.Fatalf("%d bytes are resident of a budget of %d", got, w.budget.Load())
		}
		note(&down)
	}
	for i := range 2 * steps {
		w.budget.Store(all * int64(i) / steps)
		w.Adjust(w.v)
		if got := w.bytes(); got > w.budget.Load()-w.budget.Load()/16 {
			t.Fatalf("%d bytes have come back, of a budget of %d", got, w.budget.Load())
		}
		note(&up)
	}
	wantDown := [][]int{
		{2, 2, 2, 2, 2, 2},
		{2, 2, 2, 2, 1, 2}, {2, 2, 2, 2, 1, 1}, {2, 2, 1, 2, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1},
		{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 0}, {1, 1, 0, 1, 0, 0}, {1, 1, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0},
	}
	wantUp := [][]int{
		{0, 0, 0, 0, 0, 0},
		{1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 1},
		{2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {2, 2, 2, 1, 1, 1}, {2, 2, 2, 2, 1, 1}, {2, 2, 2, 2, 2, 1}, {2, 2, 2, 2, 2, 2},
	}
	if !slices.EqualFunc(down, wantDown, slices.Equal) {
		t.Errorf("the way down:\n%v\nwant\n%v", down, wantDown)
	}
	if !slices.EqualFunc(up, wantUp, slices.Equal) {
		t.Errorf("the way up:\n%v\nwant\n%v", up, wantUp)
	}
}

// Without a limit of memory each table keeps a first unit. If no filters are wanted,
// none is read.
func TestFilters_Options(t *testing.T) {
	w := newFilterWorld(t, false)
	w.Adjust(w.v)
	w.want("without a budget, and no limit", 1, 1, 1, 1, 1, 1)
	w.env.Wanted = false
	w.budget.Store(1 << 30)
	w.Adjust(w.v)
	w.want("not wanted", 1, 1, 1, 1, 1, 1)
}

// A filter that is damaged stays lost. One that could not be read for a moment comes back with the next
// round, and is not tried twice in one: then all is as if no read had failed. The first failure of
// several is reported.
func TestFilters_Unreadable(t *testing.T) {
	for _, room := range []int64{1 << 30, 3000} { // all filters, or some
		for _, cause := range []error{nil, errBroken, damage} {
			w := newFilterWorld(t, true)
			healthy := newFilterWorld(t, true)
			for _, w := range []*filterWorld{w, healthy} {
				w.budget.Store(room)
				w.Adjust(w.v)
				w.v.Runs[0].Tables[0].Reader.DropFilter()
			}
			healthy.Adjust(healthy.v)
			w.fail(cause)
			for range 3 {
				w.beginRound()
				w.Adjust(w.v)
			}
			w.fail(nil)
			w.Adjust(w.v)
			bad := w.v.Runs[0].Tables[0]
			if cause != nil && (bad.Filter() != nil || w.lost[0] != bad || len(w.lost) > 2 || w.lost[len(w.lost)-1] == bad && len(w.lost) > 1) {
				t.Fatalf("%v: it is in memory: %v; told of %d tables", cause, bad.Filter() != nil, len(w.lost))
			}
			w.beginRound()
			w.Adjust(w.v)
			if cause != damage {
				w.want("with one that could not be read for a while", healthy.units()...)
			} else if bad.Filter() != nil || w.endRound() {
				t.Error("a damaged filter is in memory, or is tried again")
			}
		}
	}
}

// Loop tries again by itself, later each time, and at once when the tables change.
func TestFilters_LoopTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFilterWorld(t, true)
		w.Adjust(w.v)
		w.budget.Store(1 << 30)
		w.fail(errBroken)
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.Loop(ctx) })
		w.FitSoon(w.v)
		time.Sleep(time.Hour)
		synctest.Wait()
		if rounds := w.round; rounds < 300 || rounds > 3700 || len(w.lost) != 6 {
			t.Errorf("%d rounds in an hour, told of %d tables", rounds, len(w.lost))
		}
		w.fail(nil)
		w.FitSoon(w.v)
		synctest.Wait()
		w.want("after a change of the tables", 2, 2, 2, 2, 2, 2)
		for t := range w.v.Tables() {
			t.Reader.DropFilter()
		}
		w.fail(errBroken)
		w.FitSoon(w.v)
		synctest.Wait()
		w.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.want("some seconds later", 2, 2, 2, 2, 2, 2)
		if w.endRound() {
			t.Error("something is left to be tried again")
		}
		cancel()
		ended.Wait()
	})
}

// While the store is closing, nothing is read, and no failure is reported.
func TestFilters_Closing(t *testing.T) {
	w := newFilterWorld(t, true)
	w.Adjust(w.v)
	w.closed.Store(true)
	w.fail(errBroken)
	w.budget.Store(1 << 30)
	w.Adjust(w.v)
	w.restoreTable(w.v.Runs[0].Tables[0], true)
	w.want("while closing", 0, 0, 0, 0, 0, 0)
	if len(w.lost) > 0 {
		t.Errorf("told of %d tables", len(w.lost))
	}
}

// While filters are being read, FitSoon leaves all work
// to Loop, which holds the version that it looks at.
func TestFilters_Loop(t *testing.T) {
	w := newFilterWorld(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	w.mu.Lock()
	w.FitSoon(w.v)
	w.want("while another change is under way", 2, 2, 2, 2, 2, 2)
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() { defer close(ended); w.Loop(ctx) }()
	testenv.WaitFor(t, "the filters to go", func() bool { return w.bytes() == 0 })
	w.budget.Store(1 << 30)
	w.FitSoon(w.v) // releases nothing, and wakes
	testenv.WaitFor(t, "the filters to come back", func() bool { return slices.Min(w.units()) == 2 })
	cancel()
	<-ended
	if n := w.held.Load(); n != 0 {
		t.Errorf("%d references are left", n)
	}
}
