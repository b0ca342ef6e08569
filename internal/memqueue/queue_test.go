package memqueue

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
)

// newQueue returns a queue with an empty memtable, next to a version without tables.
func newQueue(t *testing.T) *Queue {
	t.Helper()
	q := new(Queue)
	q.Init(Options{Size: 64 << 10, Tree: tree.New(tree.Env{Obsolete: func(...tree.Obsolete) {}, Remove: func() {}}), Hasher: new(bloom.Hasher)})
	v, _, err := q.Tree.Load(new(manifest.Version), tree.Loading{})
	if err != nil {
		t.Fatal(err)
	}
	q.Open(NewView(q.NewMemtable(), nil, v))
	q.SetLog(1)
	t.Cleanup(q.Close)
	return q
}

// write puts an entry with number seq into the memtable.
func (q *Queue) write(seq base.Seq, key string) {
	mem := q.View().Mem
	mem.BeginWrite()
	mem.Add(seq, base.KindPut, []byte(key), make([]byte, 1000))
	mem.EndWrite()
}

// fill makes n memtables immutable, the writes of which are in logs 1 to n.
func (q *Queue) fill(n int) {
	for i := range n {
		q.write(base.Seq(i+1), "key")
		q.Freeze()
		q.SetLog(base.FileNum(i + 2))
	}
}

// drop takes imm, the oldest memtable, out of the view, as a flush does.
func (q *Queue) drop(t *testing.T, imm *Immutable) {
	v := q.Begin(q.View().Version)
	if imm != v.Oldest() {
		t.Error("the memtable is not the oldest")
		q.Unpin(q.End(v))
		return
	}
	v.Imms = v.Imms[:len(v.Imms)-1]
	q.Unpin(q.End(v))
	imm.Mem.Release()
}

// An empty memtable is not made immutable. A full one is, with its log, and what comes next is in
// another.
func TestQueue_Freeze(t *testing.T) {
	q := newQueue(t)
	before := q.View()
	if q.Freeze(); q.View() != before || q.View().Oldest() != nil {
		t.Error("an empty memtable was made immutable")
	}
	q.fill(2)
	v := q.View()
	if len(v.Imms) != 2 || v.Imms[1].Mem != before.Mem || !v.Mem.Empty() || !v.Has(before.Mem) || v.Oldest() != v.Imms[1] {
		t.Errorf("%d immutable memtables", len(v.Imms))
	}
	if v.Imms[1].Log != 1 || v.Imms[0].Log != 2 {
		t.Errorf("their logs are %d and %d, want 1 and 2", v.Imms[1].Log, v.Imms[0].Log)
	}
}

// The oldest log that is needed after a flush is that of the next memtable. While that has none
// yet, the log of the flushed one is kept.
func TestQueue_LogAfter(t *testing.T) {
	q := newQueue(t)
	q.fill(2)
	for _, want := range []base.FileNum{2, 3} {
		imm := q.View().Oldest()
		if got := q.LogAfter(imm); got != want {
			t.Errorf("log %d is needed, want %d", got, want)
		}
		q.drop(t, imm)
	}
	q.write(7, "key")
	q.Freeze() // as in a rotation, before SetLog
	if got := q.LogAfter(q.View().Oldest()); got != 3 {
		t.Errorf("amid a rotation log %d is needed, want 3", got)
	}
}

// Readers that have pinned a view keep its memtables, though they were flushed. With the last of
// them the memory goes.
func TestQueue_PinnedViewKeepsMemtables(t *testing.T) {
	q := newQueue(t)
	q.fill(1)
	v := q.Pin()
	if !v.Pinned() {
		t.Error("the view is not pinned")
	}
	imm := v.Oldest()
	q.drop(t, imm)
	if _, _, found, _ := imm.Mem.Get([]byte("key"), base.MaxSeq); !found {
		t.Fatal("the memtable of a pinned view is gone")
	}
	if q.Unpin(v); v.TryPin() {
		t.Error("a view that nobody needs any more was pinned")
	}
}

// Several goroutines flush at the same time. Each memtable is flushed once, oldest first and one
// at a time.
func TestQueue_FlushesOneAtATime(t *testing.T) {
	q := newQueue(t)
	q.fill(6)
	var want, got []*Immutable
	for _, imm := range q.View().Imms {
		want = append([]*Immutable{imm}, want...)
	}
	var all sync.WaitGroup
	var running atomic.Int64
	for range 4 {
		all.Go(func() {
			for imm := q.BeginFlush(); imm != nil; imm = q.BeginFlush() {
				if !q.Flushing() || running.Add(1) > 1 {
					t.Error("no flush is under way, or two are")
				}
				time.Sleep(time.Millisecond)
				got = append(got, imm)
				running.Add(-1)
				q.drop(t, imm)
				q.Flushed(nil)
				q.EndFlush()
			}
		})
	}
	all.Wait()
	if !slices.Equal(got, want) || q.Flushing() {
		t.Errorf("flushed %d of %d memtables, or in another order", len(got), len(want))
	}
}

// A failed flush is remembered until one succeeds. One that Close has ended is no failure.
func TestQueue_FlushFailure(t *testing.T) {
	q, broken := newQueue(t), errors.New("broken")
	q.fill(1)
	for _, step := range []struct{ err, want error }{{broken, broken}, {base.ErrClosed, broken}, {nil, nil}, {base.ErrClosed, nil}} {
		if q.BeginFlush() == nil {
			t.Fatal("nothing to flush")
		}
		q.Flushed(step.err)
		q.EndFlush()
		if got := q.FlushFailure(); got != step.want {
			t.Errorf("after a flush with %v: %v, want %v", step.err, got, step.want)
		}
	}
}

// A flush that takes longer than those before it lowers the measured speed while it runs. A
// flush that fails does not count.
func TestQueue_FlushRate(t *testing.T) {
	q := newQueue(t)
	synctest.Test(t, func(t *testing.T) {
		q.fill(1)
		bytes := float64(q.View().Oldest().Mem.Taken())
		check := func(when string, want float64) {
			t.Helper()
			if got := q.FlushRate(); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%s: %.1f bytes a second, want %.1f", when, got, want)
			}
		}
		flush := func(took time.Duration, err error) {
			q.BeginFlush()
			time.Sleep(took)
			q.Flushed(err)
			q.EndFlush()
		}
		check("before the first", firstFlushRate)
		flush(2*time.Second, nil)
		check("after the first", bytes/2)
		flush(time.Second, nil)
		check("after a faster one", (bytes/2+bytes)/2)
		go flush(time.Minute, errors.New("broken"))
		time.Sleep(time.Second)
		check("during a slow one, at first", bytes*3/4)
		time.Sleep(9 * time.Second)
		check("during a slow one", bytes/10)
		time.Sleep(time.Minute)
		check("after it has failed", bytes*3/4)
	})
}

// The sequence number up to which all is in tables never becomes smaller.
func TestQueue_FlushedSeqOnlyGrows(t *testing.T) {
	q := newQueue(t)
	for _, step := range []struct{ seq, want base.Seq }{{7, 7}, {3, 7}, {8, 8}} {
		if q.Raise(step.seq); q.FlushedSeq() != step.want {
			t.Errorf("after %d: %d, want %d", step.seq, q.FlushedSeq(), step.want)
		}
	}
}

// A key counts as written if a memtable has it with a later number, or if tables may have it.
func TestQueue_WrittenSince(t *testing.T) {
	q := newQueue(t)
	q.write(5, "old")
	q.Freeze()
	q.write(7, "new")
	for _, tt := range []struct {
		key  string
		seq  base.Seq
		want bool
	}{{"old", 4, true}, {"old", 5, false}, {"new", 6, true}, {"new", 7, false}, {"absent", 0, false}} {
		if got := q.WrittenSince([]byte(tt.key), tt.seq); got != tt.want {
			t.Errorf("%s since %d: %v", tt.key, tt.seq, got)
		}
	}
	q.Raise(6) // a flush is about to bring the older one into a table
	if !q.WrittenSince([]byte("absent"), 5) || q.WrittenSince([]byte("absent"), 6) {
		t.Error("what a flush brings into tables counts as not written, or too much does")
	}
}

// A Replay begins another memtable when one is full, or with each log, and notes the logs of each.
// A memtable goes when tables have its writes, unless readers have it.
func TestReplay(t *testing.T) {
	q := newQueue(t)
	seq := base.Seq(0)
	add := func(r *Replay, num base.FileNum, perLog bool, n int) {
		for range n {
			seq++
			r.Add(num, perLog, func(mem *memtable.Memtable) {
				mem.Add(seq, base.KindPut, []byte("key"), make([]byte, 1000))
			})
		}
	}
	r := q.NewReplay(q.NewMemtable())
	add(&r, 3, false, 100) // a memtable has 64 KiB
	add(&r, 4, false, 1)
	if len(r.Imms) != 1 || r.Imms[0].Log != 3 || r.Imms[0].newest != 3 || r.oldest != 3 || r.newest != 4 {
		t.Errorf("%d full memtables; the last one has logs %d to %d", len(r.Imms), r.oldest, r.newest)
	}
	r.StartOver()
	add(&r, 5, true, 1)
	add(&r, 6, true, 1)
	if len(r.Imms) != 1 || r.Imms[0].newest != 5 || r.oldest != 6 || !r.Changed() {
		t.Errorf("%d memtables besides that of log 6, want one of log 5", len(r.Imms))
	}
	shown := r.Imms[0].Mem
	q.Show(&r)
	if r.Changed() || q.memLog != 6 || !q.View().Has(shown) {
		t.Errorf("the view has other memtables, or begins with log %d", q.memLog)
	}
	r.Forget(func(_ *memtable.Memtable, newest base.FileNum) bool { return newest < 6 })
	if _, _, found, _ := shown.Get([]byte("key"), base.MaxSeq); !found || len(r.Imms) != 0 {
		t.Errorf("the readers' memtable is gone, or %d are kept", len(r.Imms))
	}
	if before := r.Mem; before != q.View().Mem {
		t.Error("the memtable is another one")
	} else if r.Hide(); r.Mem == before || r.Imms[0].Mem != before {
		t.Error("what comes next would be in the memtable of the view")
	}
	old := q.View()
	v := q.Begin(old.Version)
	v.Mem, v.Imms = r.Mem, r.Imms
	q.End(v)
	q.ReleaseReplaced(old)
	if shown.Pin() {
		t.Error("the memtable that the view has lost is kept")
	}
}
