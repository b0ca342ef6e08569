package remote

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A testWriter is a store that is kept in a bucket, step by step, as its test says. It also is a model of the
// store at each sequence number.
type testWriter struct {
	t  testing.TB
	b  Bucket
	s  *Store // if startWriter has opened it, with o
	o  *Options
	db *shale.DB

	random  *rand.Rand
	commits []testCommit
}

// A testCommit is what one write changed. A nil value deletes.
type testCommit struct {
	last    uint64 // the last sequence number
	changes map[string][]byte
}

// lives returns how many random lives a test tries: fewer in a brief run, and many in a long one.
func lives(t testing.TB, usual int) uint64 {
	switch {
	case testing.Short():
		return uint64(max(usual/4, 1))
	case testenv.Long(t) > 0:
		return uint64(100 * usual)
	}
	return uint64(usual)
}

// startWriter makes a store and the first objects of its bucket.
func startWriter(t testing.TB, b Bucket, seed uint64, opts shale.Options) *testWriter {
	t.Helper()
	o := manual(vfs.NewMem())
	opts.FS, opts.OnEvent = o.Store.FS, o.Store.OnEvent
	if opts.MemtableSize == 0 {
		opts.MemtableSize = 16 << 10
	}
	o.Store, o.Retain = opts, 1
	w := &testWriter{t: t, b: b, o: o, random: rand.New(rand.NewPCG(seed, 1))}
	w.open()
	return w
}

// open opens the store. It is closed at the end of the test.
func (w *testWriter) open() {
	w.s = openStore(w.t, "db", w.b, w.o)
	w.db = w.s.DB()
}

// ship puts what the logs have into the bucket, and no tables.
func (w *testWriter) ship() {
	w.t.Helper()
	mustNil(w.t, w.s.shipAll(context.Background(), w.s.bucket))
}

// publish ships, and puts new tables and a step into the bucket.
func (w *testWriter) publish() {
	w.t.Helper()
	mustNil(w.t, w.s.Publish(context.Background()))
}

// collect removes all that the newest step and pins do not need.
func (w *testWriter) collect() {
	w.t.Helper()
	_, err := w.s.Collect(context.Background())
	mustNil(w.t, err)
}

// commit writes some changes, and notes them.
func (w *testWriter) commit(changes map[string][]byte) {
	w.t.Helper()
	var b shale.Batch
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if v := changes[key]; v != nil {
			mustNil(w.t, b.Put([]byte(key), v))
		} else {
			mustNil(w.t, b.Delete([]byte(key)))
		}
	}
	mustNil(w.t, w.db.Write(context.Background(), &b))
	w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, changes})
}

// randomChanges returns changes of 1 to 20 of 300 keys.
func (w *testWriter) randomChanges() map[string][]byte {
	changes := make(map[string][]byte)
	for range 1 + w.random.IntN(20) {
		key := fmt.Sprintf("key%03d", w.random.IntN(300))
		changes[key] = nil
		if w.random.IntN(4) > 0 {
			changes[key] = bytes.Repeat([]byte{byte('a' + w.random.IntN(26))}, 1+w.random.IntN(200))
		}
	}
	return changes
}

// deleteRange deletes a range of the 300 keys, now and then up to the last one, and flushes it alone if chance says so.
func (w *testWriter) deleteRange() {
	w.t.Helper()
	from, n := w.random.IntN(300), 1+w.random.IntN(100)
	alone := w.random.IntN(3) == 0
	if alone {
		mustNil(w.t, w.db.Flush(context.Background()))
	}
	changes := make(map[string][]byte)
	for k := from; k < min(from+n, 300); k++ {
		changes[fmt.Sprintf("key%03d", k)] = nil
	}
	upper := fmt.Appendf(nil, "key%03d", from+n)
	if from+n >= 300 {
		upper = nil
	}
	mustNil(w.t, w.db.DeleteRange(fmt.Appendf(nil, "key%03d", from), upper))
	w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, changes})
	if alone {
		mustNil(w.t, w.db.Flush(context.Background()))
	}
}

// bulk writes all keys with values that make tables of which the tails are a small part.
func (w *testWriter) bulk() {
	changes := make(map[string][]byte)
	for k := range 300 {
		v := make([]byte, 2000)
		for i := range v {
			v[i] = byte(w.random.Uint32())
		}
		changes[fmt.Sprintf("key%03d", k)] = v
	}
	w.commit(changes)
	mustNil(w.t, w.db.Flush(context.Background()))
}

// ingest ingests some keys.
func (w *testWriter) ingest() {
	w.t.Helper()
	changes := w.randomChanges()
	maps.DeleteFunc(changes, func(_ string, v []byte) bool { return v == nil })
	if len(changes) == 0 {
		return
	}
	mustNil(w.t, w.db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			if !yield([]byte(key), changes[key]) {
				return
			}
		}
	}))
	w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, changes})
}

// at returns what the store has after the commits up to a sequence number. If the number is within a commit, the
// test fails: batches are shown as a whole.
func (w *testWriter) modelAt(seq uint64) map[string][]byte {
	w.t.Helper()
	m, last := make(map[string][]byte), uint64(0)
	for _, c := range w.commits {
		if c.last > seq {
			break
		}
		last = c.last
		for k, v := range c.changes {
			if v == nil {
				delete(m, k)
			} else {
				m[k] = v
			}
		}
	}
	if last != seq {
		w.t.Fatalf("sequence number %d is not the end of a commit", seq)
	}
	return m
}

// check compares what a reader shows with the model at a sequence number.
func (w *testWriter) check(r shale.Reader, seq uint64) {
	w.t.Helper()
	want := w.modelAt(seq)
	got := 0
	for e, err := range r.Scan(shale.Range{}) {
		mustNil(w.t, err)
		if v, there := want[string(e.Key)]; !there || !bytes.Equal(v, e.Value) {
			w.t.Fatalf("at %d: %s = %.10q, want %.10q, %v", seq, e.Key, e.Value, v, there)
		}
		got++
	}
	if got != len(want) {
		w.t.Fatalf("at %d: %d keys, want %d", seq, got, len(want))
	}
	for range 20 {
		key := fmt.Sprintf("key%03d", w.random.IntN(300))
		v, err := r.Get([]byte(key))
		if want[key] == nil && err != shale.ErrNotFound || want[key] != nil && !bytes.Equal(v, want[key]) {
			w.t.Fatalf("at %d: Get(%s) = %.10q, %v, want %.10q", seq, key, v, err, want[key])
		}
	}
}
