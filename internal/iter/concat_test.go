package iter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// fakeRun is a run of tables, each a fake. It fails the test when two tables
// are open at once.
type fakeRun struct {
	t       testing.TB
	tables  [][]base.KV
	bounds  [][2][]byte
	opens   int
	failAt  int // this Open fails; 0: none
	prepare func(f *fake)
	last    *fake

	stepping bool // the tables are
}

var errOpen = errors.New("open failed")

func (r *fakeRun) Bounds(i int) (smallest, largest []byte) { return r.bounds[i][0], r.bounds[i][1] }

func (r *fakeRun) Open(i int) (base.Iterator, error) {
	if r.last != nil && r.last.closed == 0 {
		r.t.Error("opened a table while another is open")
	}
	if r.opens++; r.opens == r.failAt {
		return nil, errOpen
	}
	r.last = newFake(r.t, r.tables[i])
	if r.prepare != nil {
		r.prepare(r.last)
	}
	if r.stepping {
		return &stepping{fake: r.last}, nil
	}
	return r.last, nil
}

// checkClosed fails the test if a table is still open.
func (r *fakeRun) checkClosed() {
	r.t.Helper()
	if r.last != nil && r.last.closed != 1 {
		r.t.Errorf("the last table was closed %d times", r.last.closed)
	}
}

// cut makes a run of entries by cutting them between user keys, so that each
// table gets about n of them.
func cut(t testing.TB, kvs []base.KV, n int) *fakeRun {
	run := &fakeRun{t: t}
	for len(kvs) > 0 {
		end := min(n, len(kvs))
		for end < len(kvs) && string(kvs[end].UserKey) == string(kvs[end-1].UserKey) {
			end++
		}
		run.tables = append(run.tables, kvs[:end])
		run.bounds = append(run.bounds, [2][]byte{kvs[0].UserKey, kvs[end-1].UserKey})
		kvs = kvs[end:]
	}
	return run
}

// A findingRun is a fakeRun that finds tables by itself.
type findingRun struct{ *fakeRun }

func (r findingRun) From(key []byte) (n int) {
	for n < len(r.bounds) && string(r.bounds[n][1]) < string(key) {
		n++
	}
	return n
}

func (r findingRun) Before(key []byte) (n int) {
	for n < len(r.bounds) && string(r.bounds[n][0]) < string(key) {
		n++
	}
	return n
}

func TestConcat_Model(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			all, _ := deal(r, r.IntN(80), 1)
			run := cut(t, all, 1+r.IntN(10))
			src := ConcatSource(run)
			if seed%2 == 1 {
				src = findingRun{run}
			}
			c := &cursor{t: t, it: NewConcat(len(run.tables), src), want: all, i: -2}
			c.move(5, nil, 0)
			for range 400 {
				op := r.IntN(24)
				if op >= 6 {
					op = 4 + op%2
				}
				c.move(op, randomKey(r), base.Seq(r.IntN(82)))
			}
			if err := c.it.Close(); err != nil {
				t.Error(err)
			}
			run.checkClosed()
		})
	}
}

// TestConcat_OpensOnlyWhatItNeeds: a seek opens one table, or none if it
// stays in the open one. Before the first movement no table is opened.
func TestConcat_OpensOnlyWhatItNeeds(t *testing.T) {
	kvs := parse(t, "a#1,PUT b#2,PUT c#3,PUT d#4,PUT e#5,PUT f#6,PUT g#7,PUT h#8,PUT")
	run := cut(t, kvs, 2)
	it := NewConcat(4, run)
	tests := []struct {
		what  string
		move  func() *base.KV
		want  string
		opens int
	}{
		{"SeekGE e", func() *base.KV { return it.SeekGE([]byte("e"), base.MaxSeq) }, "e#5,PUT", 1},
		{"SeekGE f", func() *base.KV { return it.SeekGE([]byte("f"), base.MaxSeq) }, "f#6,PUT", 0},
		{"Prev", it.Prev, "e#5,PUT", 0},
		{"Prev", it.Prev, "d#4,PUT", 1},
		{"SeekLT d", func() *base.KV { return it.SeekLT([]byte("d")) }, "c#3,PUT", 0},
		{"SeekLT z", func() *base.KV { return it.SeekLT([]byte("z")) }, "h#8,PUT", 1},
		{"Next", it.Next, ".", 0},
		{"SeekGE z", func() *base.KV { return it.SeekGE([]byte("z"), base.MaxSeq) }, ".", 0},
		{"SeekLT a", func() *base.KV { return it.SeekLT([]byte("a")) }, ".", 0},
		{"SeekGE b at 1", func() *base.KV { return it.SeekGE([]byte("b"), 1) }, "c#3,PUT", 2},
	}
	for _, test := range tests {
		run.opens = 0
		if got := describe(test.move()); got != test.want || run.opens != test.opens {
			t.Errorf("%s = %s with %d tables opened, want %s with %d", test.what, got, run.opens, test.want, test.opens)
		}
		if test.want == "." {
			run.checkClosed() // it has left its last table
		}
	}
}

// TestConcat_ErrorOfOpen makes each Open of an iteration fail once, in both directions.
func TestConcat_ErrorOfOpen(t *testing.T) {
	kvs, _ := deal(rand.New(rand.NewPCG(1, 1)), 50, 1)
	for failAt := 1; failAt <= len(cut(t, kvs, 5).tables); failAt++ {
		run := cut(t, kvs, 5)
		run.failAt = failAt
		it := NewConcat(len(run.tables), run)
		checkFails(t, it, it.First, it.Next, errOpen, kvs)
		run.opens = 0
		checkFails(t, it, it.Last, it.Prev, errOpen, kvs)
		run.checkClosed()
	}
}

// TestConcat_ErrorOfATable makes each operation of
// the tables fail once, and each Close of a table.
func TestConcat_ErrorOfATable(t *testing.T) {
	kvs, _ := deal(rand.New(rand.NewPCG(1, 1)), 50, 1)
	errClose := errors.New("close failed")
	for failAt := 1; failAt <= 5; failAt++ {
		run := cut(t, kvs, 5)
		run.prepare = func(f *fake) { f.failAt = failAt }
		it := NewConcat(len(run.tables), run)
		checkFails(t, it, it.First, it.Next, nil, kvs)
		run.prepare = func(f *fake) { f.close = errClose }
		it.Close()
		it = NewConcat(len(run.tables), run)
		checkFails(t, it, it.Last, it.Prev, errClose, kvs)
		if err := it.Close(); err != nil {
			t.Errorf("Close() = %v after the table was closed", err)
		}
	}
}

// checkFails iterates until an error. The error must come
// before the end and stay, and no entry may follow it.
func checkFails(t *testing.T, it base.Iterator, start, step func() *base.KV, want error, all []base.KV) {
	t.Helper()
	n := 0
	for kv := start(); kv != nil; kv = step() {
		n++
	}
	err := it.Err()
	if err == nil || want != nil && err != want {
		t.Errorf("Err() = %v after %d of %d entries, want %v", err, n, len(all), want)
	}
	if kv, kv2 := it.Next(), it.Prev(); kv != nil || kv2 != nil || it.Err() != err {
		t.Errorf("after the error: Next() = %s, Prev() = %s, Err() = %v", describe(kv), describe(kv2), it.Err())
	}
}

// An error ends a seek in steps, whichever step meets it. The error
// of closing a table is not lost when the next table is opened.
func TestConcat_ErrorOfSeekInSteps(t *testing.T) {
	kvs := parse(t, "a#1,PUT b#2,PUT c#3,PUT d#4,PUT")
	errClose := errors.New("close failed")
	seek := func(c *Concat, key string) *base.KV {
		for step := range base.SeekSteps {
			c.SeekStep(step, []byte(key), base.MaxSeq)
		}
		return c.SeekEnd([]byte(key), base.MaxSeq)
	}
	for _, stepping := range []bool{false, true} {
		run := cut(t, kvs, 2)
		run.stepping = stepping
		c := NewConcat(2, run).(*Concat)
		run.failAt = 1
		if kv := seek(c, "a"); kv != nil || c.Err() != errOpen {
			t.Errorf("a table that can't be opened: %s, %v", describe(kv), c.Err())
		}
		run.prepare = func(f *fake) { f.failAt, f.close = 1, errClose }
		if kv := seek(c, "a"); kv != nil || c.Err() == nil {
			t.Errorf("a table that can't be read: %s, %v", describe(kv), c.Err())
		}
		if kv := seek(c, "c"); kv != nil || c.Err() != errClose {
			t.Errorf("a table that can't be closed: %s, %v", describe(kv), c.Err())
		}
		run.prepare = nil
		if kv := seek(c, "c"); describe(kv) != "c#3,PUT" || c.Err() != nil {
			t.Errorf("the next seek: %s, %v", describe(kv), c.Err())
		}
		if kv := seek(c, "e"); kv != nil || c.Err() != nil {
			t.Errorf("past the end: %s, %v", describe(kv), c.Err())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		run.checkClosed()
	}
}
