package commit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/txn"
)

// reading returns what a transaction at the state of number seq has that has read key.
func reading(seq base.Seq, key string) *Reading {
	set := new(txn.ReadSet)
	set.AddKey([]byte(key))
	return &Reading{Set: set, Seq: seq}
}

// commitIf commits a Put of key by a transaction.
func (w *commitWorld) commitIf(key string, rd *Reading) (Verdict, error) {
	r := w.NewRequest()
	defer r.Free()
	r.Batch, r.Reading, rd.tail = &onePut{key: key}, rd, w.Tail()
	err := w.Commit(context.Background(), r)
	return r.Verdict, err
}

// The leader compares a transaction with all that was written since its snapshot, in the tail and in its own group, and
// says so if the tail does not reach back.
func TestPipeline_Transactions(t *testing.T) {
	w := newCommitWorld(t, false)
	verdict := func(rd *Reading, want Verdict) {
		t.Helper()
		if got, err := w.commitIf("other", rd); got != want || err != nil {
			t.Fatalf("verdict %v, %v; want %v", got, err, want)
		}
	}
	put := func(key string) {
		t.Helper()
		if _, err := w.put(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	before := w.Visible()
	put("a")
	w.Tail().Open()
	verdict(reading(before, "b"), Missing) // the tail begins behind a
	verdict(reading(w.Visible(), "b"), Passed)
	at := w.Visible()
	put("b")
	rd := reading(at, "b")
	verdict(rd, Conflict)
	if string(rd.Key) != "b" || rd.KeyAt != at+1 {
		t.Errorf("a conflict over %q at %d, want b at %d", rd.Key, rd.KeyAt, at+1)
	}
	verdict(reading(at, "c"), Passed)
	for range leaderOps + 1 {
		put("d")
	}
	rd = reading(at, "c")
	verdict(rd, TooMany)
	if v := w.Tail().Check(rd, leaderOps); v != Passed {
		t.Errorf("it does not go on where it has stopped: %v", v)
	}
	for range leaderOps + 1 {
		put("d")
	}
	verdict(rd, Passed) // the second time the leader compares more

	// A write that failed conflicts with nothing, although its number is used up.
	w.failure = errors.New("broken")
	if _, err := w.put("b", nil); err == nil {
		t.Error("no failure")
	}
	w.failure = nil
	rd = reading(w.Visible(), "b")
	if v := w.Tail().Check(rd, leaderOps); v != Passed {
		t.Errorf("a failed write: verdict %v", v)
	}
	verdict(rd, Passed)
	w.Tail().Close()
	for range idleGroups + 1 { // the tail ends
		put("e")
	}
	w.failure = errors.New("broken")
	if _, err := w.put("b", nil); err == nil {
		t.Error("no failure")
	}
	w.failure = nil
	w.Tail().Open()
	verdict(reading(w.Visible(), "b"), Passed)

	// A group that is larger than the tail takes the place of all of it.
	old := w.Visible()
	put("f")
	at = w.Visible()
	w.Tail().size = 4
	large := strings.Repeat("x", chunkSize-1)
	put(large)
	verdict(reading(old, "x"), Missing)
	verdict(reading(at, large), Conflict)
	verdict(reading(at, "x"), Passed)
	w.Tail().size = chunkSize

	// An ingestion counts with all keys of its span.
	at = w.Visible()
	if err := w.Alone(context.Background(), func() error {
		seq, err := w.Take()
		w.Ingested(seq, []byte("f"), []byte("h"))
		w.Publish(seq)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	verdict(reading(at, "g"), Missing)
	verdict(reading(at, "h"), Missing)
	verdict(reading(at, "i"), Passed)
}

// A transaction that began when the leader had just found that none is open, and was about to end the tail, does not take the
// end of the old tail for the newest write.
func TestTail_EndsBesideBegin(t *testing.T) {
	w := newCommitWorld(t, false)
	put := func(key string) {
		t.Helper()
		if _, err := w.put(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Tail().Open()
	put("a")
	w.Tail().Close()
	for w.Tail().idle < idleGroups-1 {
		put("b")
	}
	rd := reading(w.Visible(), "c")
	if v := w.Tail().Check(rd, leaderOps); v != Passed {
		t.Fatalf("before the write: verdict %v", v)
	}
	put("c") // ends the tail
	w.Tail().Open()
	if v, err := w.commitIf("d", rd); v != Missing || err != nil {
		t.Errorf("verdict %v, %v; want %v", v, err, Missing)
	}
}

// While the tables are asked for a transaction the tail may move on by any number of chunks.
func TestTail_Hold(t *testing.T) {
	w := newCommitWorld(t, false)
	w.Tail().size = 1
	w.Tail().Open()
	put := func(key string) {
		t.Helper()
		if _, err := w.put(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	for key, want := range map[string]Verdict{"a": Passed, "b": Conflict} {
		rd := reading(0, key)
		w.Tail().Hold(rd)
		rd.Seq = w.Visible()
		put("b")
		for range 3 * tailChunks {
			put("c")
		}
		if v := w.Tail().Check(rd, leaderOps); v != want {
			t.Errorf("%s was read: verdict %v, want %v", key, v, want)
		}
	}
}

// A transaction is not compared with what came before it, but for one group, also if that is in the same chunk.
func TestTail_FromMark(t *testing.T) {
	w := newCommitWorld(t, false)
	w.Tail().Open()
	for n := range 1000 {
		rd := reading(w.Visible(), "k")
		rd.At = w.Tail().Open()
		if _, err := w.put("other", nil); err != nil {
			t.Fatal(err)
		}
		if v := w.Tail().Check(rd, 2); v != Passed && n > 0 {
			t.Fatalf("after %d groups: verdict %v", n, v)
		}
	}
	// What is in the tail already, and not visible yet, comes after the mark.
	var rd *Reading
	if err := w.Alone(context.Background(), func() error {
		seq, err := w.Take()
		w.Ingested(seq, []byte("f"), []byte("h"))
		rd = reading(w.Visible(), "g")
		rd.At = w.Tail().Open()
		w.Publish(seq)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if v := w.Tail().Check(rd, leaderOps); v == Passed {
		t.Error("what became visible after the mark is not seen")
	}
}

// The tail is as large as it may be, whatever the sizes of the groups: one that is larger than that is alone.
func TestTail_Bounded(t *testing.T) {
	w := newCommitWorld(t, false)
	w.Tail().size = 1000
	w.Tail().Open()
	most := 0
	for n := range 500 {
		if _, err := w.put(strings.Repeat("k", 1+n*7%2500+n%50/49*tailChunks*1000), nil); err != nil {
			t.Fatal(err)
		}
		sum, chunks := 0, 0
		for c := w.Tail().first.Load(); c != nil; c = c.next.Load() {
			sum += len(c.buf)
			chunks++
		}
		if most = max(most, sum); sum != w.Tail().bytes || sum > tailChunks*1000 && chunks > 1 {
			t.Fatalf("after %d groups: %d bytes, and bytes says %d", n+1, sum, w.Tail().bytes)
		}
	}
	if most < tailChunks*1000/2 {
		t.Errorf("it had %d bytes at most", most)
	}
}

// Of the transactions of one group that have read the same key and write it, one passes.
func TestPipeline_TransactionsOfAGroup(t *testing.T) {
	w := newCommitWorld(t, false)
	w.Tail().Open()
	room := make(chan struct{})
	w.env.MakeRoom = func(context.Context) error { <-room; return nil }
	var wg sync.WaitGroup
	var passed atomic.Int64
	wg.Go(func() { // leads alone
		if _, err := w.put("another key", nil); err != nil {
			t.Error(err)
		}
	})
	testenv.WaitFor(t, "a leader", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.led
	})
	for range 50 {
		wg.Go(func() {
			if v, err := w.commitIf("key", reading(0, "key")); err != nil {
				t.Error(err)
			} else if v == Passed {
				passed.Add(1)
			}
		})
	}
	testenv.WaitFor(t, "all to wait", func() bool { return w.Waiting() == 50 })
	close(room)
	wg.Wait()
	if passed.Load() != 1 {
		t.Errorf("%d passed", passed.Load())
	}
}

// While writers append, readers find each key that was written after their number, or hear that the tail does not reach
// back, however small its chunks are.
func TestTail_ReadersBeside(t *testing.T) {
	seed := testenv.Seed(t)
	for _, size := range []int{1, 100, 1 << 10} {
		w := newCommitWorld(t, false)
		w.Tail().size = size
		w.Tail().Open()
		var stop atomic.Bool
		var readers sync.WaitGroup
		var passed, conflicts atomic.Int64
		for i := range 3 {
			readers.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				for !stop.Load() {
					mark := w.Tail().Open()
					at := w.Visible()
					w.Tail().Close()
					key := r.IntN(20)
					rd := reading(at, fmt.Sprint(key))
					if r.IntN(2) == 0 {
						rd.At = mark
					}
					for range r.IntN(3) {
						rd.Set.(*txn.ReadSet).AddKey([]byte("nobody's"))
					}
					before := w.Visible()
					v := w.Tail().Check(rd, 1<<30)
					// Number n writes key n%20, so the next number that does is known.
					next := at + 1
					for int(next)%20 != key {
						next++
					}
					switch visible := w.Visible(); {
					case v == Passed && next <= before:
						t.Errorf("a transaction at %d has read %d, and passes at %d", at, key, before)
					case v == Passed:
						passed.Add(1)
					case v == Conflict && (rd.KeyAt != next || string(rd.Key) != fmt.Sprint(key)):
						t.Errorf("a conflict over %s at %d, want %d at %d", rd.Key, rd.KeyAt, key, next)
					case v == Conflict:
						conflicts.Add(1)
						if next > visible+1 {
							t.Errorf("a conflict with number %d, and %d is visible", next, visible)
						}
					}
				}
			})
		}
		for n := 1; n <= 20_000; n++ {
			if _, err := w.put(fmt.Sprint(n%20), nil); err != nil {
				t.Fatal(err)
			}
		}
		stop.Store(true)
		readers.Wait()
		rd := reading(w.Visible()-20, "7")
		if v := w.Tail().Check(rd, 1<<30); v == Passed {
			t.Errorf("chunks of %d bytes: a write among the last 20 is not found", size)
		}
		t.Logf("chunks of %d bytes: %d passed, %d conflicts", size, passed.Load(), conflicts.Load())
	}
}
