package sstable

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
)

// A gatedSource counts reads. While err is set they fail, and while gate is set they wait for it.
type gatedSource struct {
	io.ReaderAt
	reads atomic.Int64
	err   error
	gate  chan struct{}
}

func (s *gatedSource) ReadAt(p []byte, off int64) (int, error) {
	s.reads.Add(1)
	if s.gate != nil {
		<-s.gate
	}
	if s.err != nil {
		return 0, s.err
	}
	return s.ReaderAt.ReadAt(p, off)
}

// openLater opens a table whose index and filter Open leaves for later.
func openLater(t *testing.T) (*Reader, *gatedSource, []entry) {
	t.Helper()
	b, info, list := largeTable(t, 0)
	src := &gatedSource{ReaderAt: bytes.NewReader(b)}
	r, err := Open(src, ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum, Later: true, Cache: cache.New(8 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	if n := src.reads.Swap(0); n != 1 || r.HasIndex() || r.Filter() != nil || !r.HasLeft() {
		t.Fatalf("Open made %d reads; index: %v, filter: %v, something left: %v", n, r.HasIndex(), r.Filter() != nil, r.HasLeft())
	}
	return r, src, list
}

// Of many who need what Open has left, one reads it, and nobody goes on without.
func TestNeeded_ReadOnce(t *testing.T) {
	r, src, list := openLater(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r.NeededFilter() == nil {
				t.Error("there is no filter")
			}
			if r.neededIndex() == nil {
				t.Error("there is no index")
			}
		})
	}
	wg.Wait()
	if n := src.reads.Load(); n != 2 || r.HasLeft() {
		t.Errorf("%d reads, want one of the filter and one of the index; something left: %v", n, r.HasLeft())
	}
	if _, err := r.LoadFilter(false); err != nil || r.LoadIndex() != nil || src.reads.Load() != 2 {
		t.Errorf("what is there was read again: %d reads, %v", src.reads.Load(), err)
	}
	checkScan(t, r, IterOptions{}, list)
	if s := r.stats; s.IndexReads.Load() != 0 {
		t.Errorf("the index was read through the cache %d times", s.IndexReads.Load())
	}
}

// Whoever needs what is just being loaded behind Open waits for it: a filter that comes a moment later would
// cost a read, and MayContain would say maybe.
func TestNeeded_WaitsForTheLoader(t *testing.T) {
	r, src, _ := openLater(t)
	src.gate = make(chan struct{})
	var loaders, needers sync.WaitGroup
	loaders.Go(func() { _, _ = r.LoadFilter(false) })
	loaders.Go(func() { _ = r.LoadIndex() })
	testenv.WaitFor(t, "two reads", func() bool { return src.reads.Load() == 2 })
	var done atomic.Int64
	needers.Go(func() {
		if r.NeededFilter() == nil {
			t.Error("there is no filter")
		}
		done.Add(1)
	})
	needers.Go(func() {
		if r.neededIndex() == nil {
			t.Error("there is no index")
		}
		done.Add(1)
	})
	time.Sleep(20 * time.Millisecond)
	if done.Load() > 0 {
		t.Error("somebody did not wait")
	}
	close(src.gate)
	loaders.Wait()
	needers.Wait()
	if n := src.reads.Load(); n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
}

// If a part can't be read, a lookup goes on without it and does not try again. The calls that load parts behind Open
// return the error, and succeed when the file can be read.
func TestNeeded_Unreadable(t *testing.T) {
	r, src, list := openLater(t)
	src.err = errors.New("broken")
	for range 2 {
		if r.NeededFilter() != nil || r.neededIndex() != nil {
			t.Error("something was read from a broken file")
		}
	}
	if n := src.reads.Load(); n != 2 || r.FilterErr() != nil || r.IndexErr() != nil {
		t.Errorf("%d reads; %v, %v", n, r.FilterErr(), r.IndexErr())
	}
	if _, err := r.LoadFilter(false); !errors.Is(err, src.err) || !errors.Is(r.LoadIndex(), src.err) {
		t.Errorf("LoadFilter = %v", err)
	}
	src.err = nil
	if _, err := r.LoadFilter(false); err != nil || r.LoadIndex() != nil || r.Filter() == nil || !r.HasIndex() {
		t.Errorf("what can be read again is not there: %v", err)
	}
	checkGet(t, r, list, list[17].key.UserKey, base.MaxSeq)
}

// What was given up, or has no room, is not loaded by those who need it.
func TestNeeded_NotWanted(t *testing.T) {
	for what, giveUp := range map[string]func(r *Reader){
		"dropped":      func(r *Reader) { r.DropFilter(); r.DropIndex() },
		"left nothing": (*Reader).LeaveNothing,
		"loaded and dropped": func(r *Reader) {
			_, _ = r.LoadFilter(false)
			_ = r.LoadIndex()
			r.DropFilter()
			r.DropIndex()
		},
	} {
		r, src, _ := openLater(t)
		giveUp(r)
		src.reads.Store(0)
		if r.NeededFilter() != nil || r.neededIndex() != nil || src.reads.Load() > 0 || r.HasLeft() {
			t.Errorf("%s: filter and index came back, by %d reads", what, src.reads.Load())
		}
	}
}
