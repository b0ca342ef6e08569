package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A commitWorld stands for the store in tests of a Pipeline.
type commitWorld struct {
	mem     *memtable.Memtable
	log     *wal.Writer
	full    error // the error of MakeRoom
	failure error // the error of the log
	refused []error
	lasts   []base.Seq // of the groups
	looked  int        // calls of WrittenSince, by the leader, of whom there is one at a time
	Pipeline
}

func newCommitWorld(t *testing.T, syncFirst bool) *commitWorld {
	pool := memtable.NewPool(1 << 20)
	t.Cleanup(pool.Close)
	disk := vfs.NewMem()
	if err := disk.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(wal.Header{Num: 1, StoreID: 1}, wal.Options{FS: disk, Dir: "d"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	w := &commitWorld{mem: memtable.New(memtable.Options{Size: 1 << 20, Pool: pool}), log: log}
	w.Init(Env{
		SyncFirst: syncFirst, Log: w, Memtables: commitMemtables{w}, Health: w,
		MakeRoom:   func(context.Context) error { return w.full },
		SyncFailed: func(_ *wal.Writer, err error) error { return w.LogFailed(err) },
	})
	return w
}

// What follows makes the world the owners below the pipeline.

func (w *commitWorld) Append(payloads [][]byte, last base.Seq, syncNext bool) error {
	if w.failure != nil {
		return w.failure
	}
	w.lasts = append(w.lasts, last)
	_, err := w.log.AppendBatch(payloads, last, syncNext)
	return err
}

func (w *commitWorld) Current() *wal.Writer { return w.log }

func (w *commitWorld) LogFailed(err error) error { w.refused = append(w.refused, err); return err }

func (w *commitWorld) CommitRefused(err error) error { return w.LogFailed(err) }

type commitMemtables struct{ *commitWorld }

func (w commitMemtables) Current() *memtable.Memtable { return w.mem }

func (w commitMemtables) WrittenSince(key []byte, seq base.Seq) bool {
	w.looked++
	_, _, found, at := w.mem.Get(key, base.MaxSeq)
	return found && at > seq
}

// A onePut is a batch of one Put.
type onePut struct {
	key   string
	seq   base.Seq
	large int  // the size it claims to have in the log, if that is more
	asked *int // counts calls of Visit; nil: nobody counts
}

func (b *onePut) Size() int    { return max(len(b.key), b.large) }
func (b *onePut) Count() int   { return 1 }
func (b *onePut) Payload() int { return len(b.key) }
func (b *onePut) Visit(v Visitor) {
	if b.asked != nil {
		*b.asked++
	}
	v.Key([]byte(b.key))
}
func (b *onePut) Apply(mem *memtable.Memtable) { mem.Add(b.seq, base.KindPut, []byte(b.key), nil) }
func (b *onePut) SetSeq(first base.Seq) []byte {
	b.seq = first
	return []byte(b.key)
}

// put commits one Put.
func (w *commitWorld) put(key string, change func(*Request)) (lost bool, err error) {
	r := w.NewRequest()
	defer r.Free()
	r.Batch = &onePut{key: key}
	if change != nil {
		change(r)
	}
	err = w.Commit(context.Background(), r)
	return r.Lost, err
}

// Many writers commit. Each number is given out once, all that
// was logged is visible, and at the end there is no leader.
func TestPipeline_Groups(t *testing.T) {
	for _, syncFirst := range []bool{false, true} {
		w := newCommitWorld(t, syncFirst)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				for j := range 25 {
					if _, err := w.put(string([]byte{byte(i), byte(j)}), func(r *Request) { r.Sync = j%5 == 0 }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if w.lastSeq != 1000 || w.visible.Load() != 1000 || w.lasts[len(w.lasts)-1] != 1000 || w.mem.Len() != 1000 {
			t.Errorf("last number %d, visible %d, logged %d, %d entries; want 1000 each", w.lastSeq, w.visible.Load(), w.lasts[len(w.lasts)-1], w.mem.Len())
		}
		if w.led || len(w.pending) > 0 {
			t.Errorf("somebody leads: %v; %d wait", w.led, len(w.pending))
		}
	}
}

// One of many conditional writes of the same key wins.
func TestPipeline_OneClaimWins(t *testing.T) {
	w := newCommitWorld(t, false)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 50 {
		wg.Go(func() {
			lost, err := w.put("key", func(r *Request) { r.IfAbsent, r.Key = true, []byte("key") })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if !lost {
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 || w.mem.Len() != 1 {
		t.Errorf("%d won, %d entries", won, w.mem.Len())
	}
}

// Thousands of claims wait while the leader waits for room. The work for each is the same as if it
// were alone: nobody looks at its key again for each group that is written before it.
func TestPipeline_ClaimsThatWaitCostNothing(t *testing.T) {
	const claims = 5000
	w := newCommitWorld(t, false)
	var wg sync.WaitGroup
	asked := 0
	room := make(chan struct{})
	w.env.MakeRoom = func(context.Context) error { <-room; return nil }
	for i := range claims {
		wg.Go(func() {
			key := fmt.Sprint(i)
			r := w.NewRequest()
			defer r.Free()
			r.Batch = &onePut{key: key, large: maxGroupBytes / 10, asked: &asked} // ten make a group
			r.IfAbsent, r.Key = true, []byte(key)
			if err := w.Commit(context.Background(), r); err != nil || r.Lost {
				t.Errorf("claim %d: lost %v, %v", i, r.Lost, err)
			}
		})
	}
	testenv.WaitFor(t, "all claims to wait", func() bool { return w.Waiting() == claims-1 })
	close(room)
	wg.Wait()
	if w.looked != claims || asked > claims {
		t.Errorf("%d claims: %d questions to the memtable, want one each; %d times keys to remember, want once each at most", claims, w.looked, asked)
	}
}

// The numbers of a write that failed are not given out again, and nobody sees it.
func TestPipeline_FailedWrite(t *testing.T) {
	w := newCommitWorld(t, false)
	if _, err := w.put("a", nil); err != nil {
		t.Fatal(err)
	}
	w.failure = errors.New("broken")
	if _, err := w.put("b", nil); !errors.Is(err, w.failure) || len(w.refused) != 1 {
		t.Errorf("put = %v, refused with %v", err, w.refused)
	}
	if w.visible.Load() != 1 || w.mem.Len() != 1 {
		t.Errorf("visible %d, %d entries", w.visible.Load(), w.mem.Len())
	}
	w.failure = nil
	if _, err := w.put("c", nil); err != nil || w.visible.Load() != 3 {
		t.Errorf("put = %v, visible %d, want 3", err, w.visible.Load())
	}
}

// A leader that finds no room returns the error only to its own writer. Alone
// runs between groups, even if there is no room. A closed queue refuses requests.
func TestPipeline_RoomAndClose(t *testing.T) {
	w := newCommitWorld(t, false)
	w.full = errors.New("full")
	if _, err := w.put("a", nil); !errors.Is(err, w.full) || len(w.refused) > 0 {
		t.Errorf("put = %v, refused with %v", err, w.refused)
	}
	ran := false
	if err := w.Alone(context.Background(), func() error { ran = true; w.Close(); return nil }); err != nil || !ran {
		t.Errorf("alone = %v, ran %v", err, ran)
	}
	w.full = nil
	if _, err := w.put("a", nil); !errors.Is(err, base.ErrClosed) {
		t.Errorf("put into a closed queue: %v", err)
	}
	if err := w.Alone(context.Background(), func() error { return nil }); !errors.Is(err, base.ErrClosed) {
		t.Errorf("alone in a closed queue: %v", err)
	}
}
