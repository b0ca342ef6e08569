package remote_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestStore_Faults runs lives of a store whose bucket loses requests and answers, delays and repeats them, also much later,
// and cuts and changes what passes. Processes die before some request, machines are lost, and others take the store over.
// Buckets in memory and in a directory take turns, as do stores with and without Strict. What Ship has acknowledged,
// and with Strict every write, is in each restore; whoever was replaced acknowledges nothing; and in the end
// Verify finds nothing wrong. The lives are others each time; with SHALE_LONG there are as many as there is time for.
func TestStore_Faults(t *testing.T) {
	first, long, begun := testenv.Seed(t), testenv.Long(t), time.Now()
	least := 40
	if testing.Short() {
		least = 12
	}
	var sum faultCounts
	lives := 0
	for ; lives < least || time.Since(begun) < long; lives++ {
		seed := first + uint64(lives)
		synctest.Test(t, func(t *testing.T) { newFaultyLife(t, seed, &sum).run() })
		if t.Failed() {
			t.Fatalf("in the life of seed %d: SHALE_SEED=%d begins with it", seed, seed)
		}
	}
	t.Logf("%d lives, %d calls, %d with a fault, %d deaths, %d takeovers, %d restores", lives,
		sum.calls.Load(), sum.faults.Load(), sum.deaths, sum.takeovers, sum.restores)
	if !testing.Short() && (sum.deaths < lives/4 || sum.takeovers < lives/4 || int(sum.faults.Load()) < 5*lives) {
		t.Error("too little has happened")
	}
}

// faultCounts says what has happened in all lives.
type faultCounts struct {
	calls, faults               atomic.Int64 // of buckets
	deaths, takeovers, restores int
}

// A faultyLife is the life of one store, and a model of it.
type faultyLife struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	sum    *faultCounts
	bucket remote.Bucket // without faults
	faulty *buckettest.Faulty
	calm   atomic.Bool
	strict bool
	busy   bool // the loops run
	evicts bool // few tables stay on the local disk

	fsys    *vfs.Mem
	process *mortal
	s       *remote.Store

	model   map[string]string
	states  map[uint64]map[string]string // of the model, by sequence number
	shipped uint64                       // all up to here was acknowledged by a Ship, or with Strict by a write
	maybe   map[string]string            // a batch that may have been written
	written int
}

func newFaultyLife(t *testing.T, seed uint64, sum *faultCounts) *faultyLife {
	l := &faultyLife{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), sum: sum, fsys: vfs.NewMem(), bucket: remote.NewMem(),
		strict: seed%2 == 0, busy: seed%3 == 0, evicts: seed%4 < 2, model: map[string]string{}, states: map[uint64]map[string]string{0: {}}}
	if seed%5 == 0 {
		var err error
		l.bucket, err = remote.NewDir(vfs.NewMem(), "bucket")
		mustNot(t, err)
	}
	decide := buckettest.BySeed(seed, buckettest.All([]float64{0.02, 0.1, 0.2}[seed%3]))
	l.faulty = buckettest.NewFaulty(l.bucket, time.Second, func(op buckettest.Op) buckettest.Fault {
		sum.calls.Add(1)
		if l.calm.Load() {
			return buckettest.None
		}
		fault := decide(op)
		if fault != buckettest.None {
			sum.faults.Add(1)
		}
		return fault
	})
	return l
}

func (l *faultyLife) fatal(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("seed %d: %s", l.seed, fmt.Sprintf(format, args...))
}

// run lives.
func (l *faultyLife) run() {
	l.open()
	defer func() { _ = l.s.Close() }() // a test that fails must not leave it open
	for range 25 {
		switch n := l.random.IntN(20); {
		case n < 8:
			l.write()
		case n < 9:
			l.ingest()
		case n < 10:
			l.may(l.s.DB().Flush(l.t.Context()))
		case n < 12:
			l.ship()
		case n < 14:
			l.may(l.s.Publish(l.t.Context()))
		case n < 15:
			_, err := l.s.Collect(l.t.Context())
			l.may(err)
		case n < 16:
			time.Sleep(time.Duration(l.random.IntN(200)) * time.Second)
		case n < 17:
			l.faulty.Replay(l.t.Context())
		case n < 18:
			if err := l.s.Close(); !errors.Is(err, context.Canceled) { // Close ends what hangs
				l.may(err)
			}
			l.open()
		case n < 19:
			l.die()
		case l.shipped > 0: // else there may be nothing that can be restored
			l.takeOver()
		}
	}
	l.calm.Store(true)
	l.faulty.Replay(l.t.Context())
	mustNot(l.t, l.s.Publish(l.t.Context()))
	l.ship()
	if err := l.s.Close(); err != nil {
		l.fatal("Close: %v", err)
	}
	report, err := remote.Verify(l.t.Context(), l.bucket, true)
	if err != nil || len(report.Findings) > 0 {
		l.fatal("Verify: %v, %v", err, report.Findings)
	}
}

// options are those of the store in this life.
func (l *faultyLife) options() *remote.Options {
	o := &remote.Options{Strict: l.strict, Ship: -1, Publish: -1, Flush: -1, Retain: time.Minute,
		Store: shale.Options{FS: l.fsys, MemtableSize: 64 << 10, CompactionWorkers: -1, OnEvent: func(shale.Event) {}}}
	if l.busy {
		o.Ship, o.Publish, o.Flush = 0, 0, 0
	}
	if l.evicts {
		o.LocalBytes, o.Store.CacheSize, o.Store.CompactionWorkers = 8*o.Store.MemtableSize, 64<<10, 0
	}
	return o
}

// open opens the store in a new process.
func (l *faultyLife) open() {
	l.t.Helper()
	if err := l.tryOpen(); err != nil {
		l.fatal("Open: %v", err)
	}
}

// tryOpen opens the store in a new process. A fault may make that fail, and then it is tried again. The error is that
// another process was faster.
func (l *faultyLife) tryOpen() error {
	l.t.Helper()
	for tries := 1; ; tries++ {
		l.process = newMortal(l.faulty)
		s, err := remote.Open(l.t.Context(), "db", l.process, l.options())
		if err == nil {
			l.s = s
			break
		}
		if errors.Is(err, remote.ErrFenced) {
			return err
		}
		if l.may(err); tries == 50 {
			l.fatal("Open: %v", err)
		}
	}
	got := l.contents(l.s.DB())
	if l.maybe != nil {
		next := maps.Clone(l.model)
		maps.Copy(next, l.maybe)
		if maps.Equal(got, next) {
			l.model = next
		}
		l.maybe = nil
	}
	if !maps.Equal(got, l.model) {
		l.fatal("opened again: %d keys, want %d", len(got), len(l.model))
	}
	l.note()
	return nil
}

// acknowledged notes the state after a write.
func (l *faultyLife) acknowledged() {
	l.note()
	if l.strict {
		l.shipped = shale.ShippingOf(l.s.DB()).Position().LastSeq
	}
}

// note notes the state that the store has now.
func (l *faultyLife) note() {
	l.states[shale.ShippingOf(l.s.DB()).Position().LastSeq] = maps.Clone(l.model)
}

// may fails the test unless an error is nil or may come from a fault.
func (l *faultyLife) may(err error) {
	l.t.Helper()
	switch {
	case err == nil:
	case l.calm.Load():
		l.fatal("without faults: %v", err)
	case passes(err), errors.As(err, new(remotetest.Refusal)):
	case errors.Is(err, remote.ErrInconsistent), errors.Is(err, remote.ErrIgnoresConditions), errors.Is(err, remote.ErrIgnoresChecksums):
		// Probe compares what it reads, and has nothing to check that with.
	default:
		l.fatal("%v", err)
	}
}

// write writes a batch. It may wait for ever if the process dies meanwhile.
func (l *faultyLife) write() {
	l.t.Helper()
	changes := map[string]string{}
	var b shale.Batch
	for range 1 + l.random.IntN(4) {
		l.written++
		key, value := fmt.Sprintf("k%02d", l.random.IntN(60)), fmt.Sprintf("%d of %d", l.written, l.seed)
		if l.evicts { // several values fill a memtable
			value += l.noise(20_000)
		}
		changes[key] = value
	}
	for key, value := range changes {
		mustNot(l.t, b.Put([]byte(key), []byte(value)))
	}
	done := make(chan error, 1)
	go func() { done <- l.s.DB().Write(context.Background(), &b) }()
	select {
	case err := <-done:
		mustNot(l.t, err)
		maps.Copy(l.model, changes)
		l.acknowledged()
	case <-time.After(10 * time.Minute):
		if !l.process.isDead() {
			l.fatal("a write waits for ever")
		}
		l.maybe = changes
	}
}

// noise returns n bytes that do not compress.
func (l *faultyLife) noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(l.random.Uint32())
	}
	return string(b)
}

// ingest ingests some keys.
func (l *faultyLife) ingest() {
	l.t.Helper()
	from, n := l.random.IntN(50), 1+l.random.IntN(10)
	mustNot(l.t, l.s.DB().Ingest(l.t.Context(), func(yield func(k, v []byte) bool) {
		for i := range n {
			if !yield(fmt.Appendf(nil, "k%02d", from+i), fmt.Append(nil, "ingested ", l.written)) {
				return
			}
		}
	}))
	for i := range n {
		l.model[fmt.Sprintf("k%02d", from+i)] = fmt.Sprint("ingested ", l.written)
	}
	l.written++
	l.acknowledged()
}

// ship ships. If it has succeeded, the bucket has all.
func (l *faultyLife) ship() {
	l.t.Helper()
	err := l.s.Ship(l.t.Context())
	l.may(err)
	if err == nil {
		l.shipped = shale.ShippingOf(l.s.DB()).Position().LastSeq
		if l.random.IntN(3) == 0 || l.calm.Load() {
			l.restore(l.bucket)
		}
	}
}

// restore restores the newest state, which must be one that the store had, and have what was acknowledged.
func (l *faultyLife) restore(b remote.Bucket) (*vfs.Mem, uint64) {
	l.t.Helper()
	mem := vfs.NewMem()
	var r remote.Restored
	for tries := 1; ; tries++ {
		var err error
		r, err = remote.Restore(l.t.Context(), b, "db", remote.At{}, &remote.RestoreOptions{FS: mem})
		if err == nil && (len(r.Damage) == 0 || b == l.bucket) {
			break
		}
		if err == nil { // an object was flipped each time that it was read, which it says
			mem = vfs.NewMem()
		}
		if l.may(err); tries == 50 || b == l.bucket {
			l.fatal("Restore: %v", err)
		}
	}
	l.sum.restores++
	db, err := shale.Open("db", &shale.Options{FS: mem, ReadOnly: true, OnEvent: func(shale.Event) {}})
	mustNot(l.t, err)
	got := l.contents(db)
	mustNot(l.t, db.Close())
	state, there := l.states[r.At.Seq]
	if !there || !maps.Equal(got, state) || r.At.Seq < l.shipped {
		l.fatal("restored up to %d, up to %d all is acknowledged: %d keys, the model has %d, %v", r.At.Seq, l.shipped, len(got), len(state), there)
	}
	return mem, r.At.Seq
}

// die ends the process before one of its next requests, in the middle of what it is doing. The machine goes on without it.
func (l *faultyLife) die() {
	l.sum.deaths++
	l.process.dieIn(l.random.IntN(8))
	var wg sync.WaitGroup
	if l.random.IntN(2) == 0 {
		wg.Go(func() { _ = l.s.Publish(context.Background()) })
	}
	l.write()
	if l.maybe == nil && !l.strict {
		_ = l.s.Ship(l.t.Context())
	}
	wg.Wait()
	l.process.dieIn(0)
	next, old := l.fsys.Crash(vfs.CrashConfig{}), l.s
	_ = old.Close() // it does nothing to the bucket any more
	l.fsys = next
	l.open()
}

// takeOver restores the store on another machine, and goes on there. The old process lives on, and is refused.
func (l *faultyLife) takeOver() {
	l.t.Helper()
	l.sum.takeovers++
	old := l.s
	for tries, seq := 1, uint64(0); ; tries++ {
		l.fsys, seq = l.restore(l.faulty)
		db, err := shale.Open("db", &shale.Options{FS: l.fsys, ReadOnly: true, OnEvent: func(shale.Event) {}})
		mustNot(l.t, err)
		l.model = l.contents(db)
		mustNot(l.t, db.Close())
		if err = l.tryOpen(); err == nil {
			l.shipped = seq
			break
		}
		if !l.busy && !l.evicts || tries == 50 { // else the old process has shipped or published meanwhile, or made room
			l.fatal("taking over: %v", err)
		}
	}
	maps.DeleteFunc(l.states, func(seq uint64, _ map[string]string) bool { return seq > l.shipped }) // the old process had not shipped it
	l.note()
	for tries := 1; ; tries++ {
		werr := old.DB().Put([]byte("k00"), []byte("zombie"))
		serr := old.Ship(l.t.Context())
		if errors.Is(werr, remote.ErrFenced) || errors.Is(serr, remote.ErrFenced) {
			break
		}
		if werr == nil && (l.strict || serr == nil) || tries == 50 {
			l.fatal("a process that was replaced goes on: %v, %v", werr, serr)
		}
		l.may(serr)
	}
	_ = old.Close()
}

// contents returns all keys and values. Some of them may come from the bucket, and then it is tried again.
func (l *faultyLife) contents(r shale.Reader) map[string]string {
	l.t.Helper()
	for tries := 1; ; tries++ {
		got, err := make(map[string]string), error(nil)
		for e, scanErr := range r.Scan(shale.Range{}) {
			if err = scanErr; err == nil {
				got[string(e.Key)] = string(e.Value)
			}
		}
		if err == nil {
			return got
		}
		if !l.evicts {
			l.fatal("a scan of local files: %v", err)
		}
		if l.may(err); tries == 50 {
			l.fatal("a scan: %v", err)
		}
	}
}

// A mortal is the way of a process to its bucket. When the process is dead, nothing reaches the bucket any more.
type mortal struct {
	*remotetest.Fake
	mu   sync.Mutex // protects the following fields
	ends bool
	left int // calls until it dies
}

// newMortal returns the way of a new process to a bucket.
func newMortal(b remote.Bucket) *mortal {
	m := &mortal{Fake: remotetest.NewFake(b)}
	m.Hook(func(string, string) error { return m.call() }, nil)
	return m
}

// dieIn lets the process die before the call after n others.
func (m *mortal) dieIn(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends, m.left = true, n
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends && m.left == 0
}

// call counts a call.
func (m *mortal) call() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ends && m.left == 0 {
		return remotetest.Refusal{Err: errors.New("the process is dead")}
	}
	if m.ends {
		m.left--
	}
	return nil
}
