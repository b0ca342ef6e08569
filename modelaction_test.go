package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/vfs"
)

// This file holds what a step of a model run may be.

// key chooses a key: mostly one that is there.
func (r *modelRun) key() string {
	if len(r.now) > 0 && r.choose("known", 10) < 7 {
		return r.now[r.choose("which", len(r.now))].key
	}
	key := modelKeys[r.choose("key", len(modelKeys))]
	if r.choose("next to it", 2) == 0 {
		key += "\x00"
	}
	return key
}

// value makes a value that no other write has.
func (r *modelRun) value() string {
	r.serial++
	size := []int{0, 10, 100, 300, 6000}[min(r.choose("size", 40)/9, 4)]
	return fmt.Sprintf("%d.", r.serial) + strings.Repeat(fmt.Sprint(r.serial%10), size)
}

// op makes a change.
func (r *modelRun) op() Op {
	if r.choose("delete", 4) == 0 {
		return Op{OpDelete, []byte(r.key()), nil}
	}
	return Op{OpPut, []byte(r.key()), []byte(r.value())}
}

// committed tells the model of a commit.
func (r *modelRun) committed(d Durability, ops ...Op) {
	r.commit(ops)
	if d == SyncEach {
		r.sync()
	}
}

func (r *modelRun) actionPut() {
	op := Op{OpPut, []byte(r.key()), []byte(r.value())}
	if r.choose("empty value", 20) == 0 {
		op.Value = []byte{}
	}
	r.must("Put", r.db.Put(op.Key, op.Value))
	r.committed(r.opts.Durability, op)
}

func (r *modelRun) actionDelete() {
	op := Op{OpDelete, []byte(r.key()), nil}
	r.must("Delete", r.db.Delete(op.Key))
	r.committed(r.opts.Durability, op)
}

func (r *modelRun) actionBatch() {
	var b Batch
	var ops []Op
	for range r.choose("operations", 16) {
		op := r.op()
		ops = append(ops, op)
		if op.Kind == OpDelete {
			r.must("Batch.Delete", b.Delete(op.Key))
		} else {
			r.must("Batch.Put", b.Put(op.Key, op.Value))
		}
	}
	d := r.opts.Durability
	if r.choose("own durability", 3) == 0 {
		d = Durability(r.choose("durability", 3))
		b.SetDurability(d)
	}
	r.must("Write", r.db.Write(context.Background(), &b))
	r.committed(d, ops...)
}

// actionFill writes many keys, so that memtables fill and levels grow. Its
// choices come from one, to keep failures short.
func (r *modelRun) actionFill() {
	rnd := rand.New(rand.NewPCG(uint64(r.choose("seed", 1<<20)), 0))
	for range 10 + r.choose("writes", 60) {
		r.serial++
		op := Op{OpPut, []byte(modelKeys[rnd.IntN(len(modelKeys))]), fmt.Appendf(nil, "%d.%0*d", r.serial, rnd.IntN(200), 0)}
		r.must("Put", r.db.Put(op.Key, op.Value))
		r.committed(r.opts.Durability, op)
	}
	levels := 0
	for _, l := range r.db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	r.deepest = max(r.deepest, levels)
}

func (r *modelRun) actionPutIfAbsent() {
	op := Op{OpPut, []byte(r.key()), []byte(r.value())}
	_, there := r.now.find(string(op.Key))
	inserted, err := r.db.PutIfAbsent(op.Key, op.Value)
	r.must("PutIfAbsent", err)
	if inserted == there {
		r.failf("PutIfAbsent(%q) = %v; the key is there: %v", op.Key, inserted, there)
	}
	if inserted {
		r.committed(r.opts.Durability, op)
	}
}

// askAll checks a key through every way to ask.
func (r *modelRun) askAll(from Reader, s modelState, key string) {
	want, there := "", false
	if i, ok := s.find(key); ok {
		want, there = s[i].value, true
		r.hits++
	} else {
		r.misses++
	}
	check := func(what, got string, err error) {
		if there && (err != nil || got != want) || !there && !errors.Is(err, ErrNotFound) {
			r.failf("%s(%q) = %.60q, %v; want %.60q, there: %v", what, key, got, err, want, there)
		}
	}
	got, err := from.Get([]byte(key))
	check("Get", string(got), err)
	got, err = from.AppendValue([]byte("x"), []byte(key))
	check("AppendValue", strings.TrimPrefix(string(got), "x"), err)
	seen := ""
	err = from.ViewValue([]byte(key), func(v []byte) error { seen = string(v); return nil })
	check("ViewValue", seen, err)
	if has, err := from.Has([]byte(key)); has != there || err != nil {
		r.failf("Has(%q) = %v, %v; want %v", key, has, err, there)
	}
}

func (r *modelRun) actionGet() {
	key := r.key()
	r.askAll(r.db, r.now, key)
	if _, there := r.now.find(key); there && !r.db.MayContain([]byte(key)) {
		r.failf("MayContain(%q) = false; the key is there", key)
	}
}

func (r *modelRun) actionGetMany() {
	var keys [][]byte
	for range r.choose("keys", 20) {
		keys = append(keys, []byte(r.key()))
	}
	asked := 0
	err := r.db.GetMany(keys, func(i int, value []byte, found bool) error {
		if i != asked {
			return fmt.Errorf("asked %d, want %d", i, asked)
		}
		asked++
		j, there := r.now.find(string(keys[i]))
		if found != there || there && string(value) != r.now[j].value {
			return fmt.Errorf("key %q is %.60q, %v", keys[i], value, found)
		}
		return nil
	})
	r.must("GetMany", err)
	if asked != len(keys) {
		r.failf("GetMany called back %d times for %d keys", asked, len(keys))
	}
}

// bounds chooses a range.
func (r *modelRun) bounds() Range {
	var rng Range
	switch r.choose("bounds", 6) {
	case 0:
	case 1:
		rng.Lower = []byte(r.key())
	case 2:
		rng.Upper = []byte(r.key())
	case 3:
		key := r.key()
		rng = Prefix(key[:r.choose("prefix", len(key)+1)])
	default:
		rng.Lower, rng.Upper = []byte(r.key()), []byte(r.key())
		if r.choose("crossed", 8) > 0 && bytes.Compare(rng.Lower, rng.Upper) > 0 {
			rng.Lower, rng.Upper = rng.Upper, rng.Lower
		}
	}
	return rng
}

func (r *modelRun) scanOnce(from Reader, s modelState) {
	rng := r.bounds()
	rng.Reverse = r.choose("reverse", 2) == 1
	rng.KeysOnly = r.choose("keys only", 4) == 0
	if r.choose("limited", 4) == 0 {
		rng.Limit = r.choose("limit", 10)
	}
	got, err := readAll(from, rng)
	r.must("Scan", err)
	if err := s.scan(rng).same(got); err != nil {
		r.failf("Scan(%+v): %w", rng, err)
	}
}

func (r *modelRun) actionScan() { r.scanOnce(r.db, r.now) }

func (r *modelRun) actionSnapshot() {
	if len(r.snapshots) == 4 {
		i := r.choose("close", 4)
		r.must("Snapshot.Close", r.snapshots[i].Close())
		r.snapshots = slices.Delete(r.snapshots, i, i+1)
	}
	s, err := r.db.Snapshot()
	r.must("Snapshot", err)
	r.snapshots = append(r.snapshots, modelSnapshot{s, r.now})
}

func (r *modelRun) actionReadSnapshot() {
	if len(r.snapshots) == 0 {
		return
	}
	s := r.snapshots[r.choose("snapshot", len(r.snapshots))]
	key := r.key()
	r.askAll(s, s.state, key)
	r.askAll(r.db, r.now, key) // what the snapshot lacks, the store may have
	r.scanOnce(s, s.state)
}

func (r *modelRun) actionIterator() {
	if len(r.iterators) == 4 {
		i := r.choose("close", 4)
		r.must("Iterator.Close", r.iterators[i].Close())
		r.iterators = slices.Delete(r.iterators, i, i+1)
	}
	rng, from, state := r.bounds(), Reader(r.db), r.now
	if len(r.snapshots) > 0 && r.choose("of a snapshot", 2) == 1 {
		s := r.snapshots[r.choose("snapshot", len(r.snapshots))]
		from, state = s, s.state
	}
	it := from.NewIterator(rng)
	r.must("NewIterator", it.Err())
	r.iterators = append(r.iterators, modelIterator{it, modelCursor{state.within(rng), -1}})
}

// actionMove moves an iterator that may be older than many writes.
func (r *modelRun) actionMove() {
	if len(r.iterators) == 0 {
		r.actionIterator()
	}
	it := &r.iterators[r.choose("iterator", len(r.iterators))]
	for range 1 + r.choose("moves", 12) {
		how := []string{"Next", "Next", "Next", "Prev", "Prev", "Prev", "SeekGE", "SeekLT", "First", "Last"}[r.choose("how", 10)]
		key := r.key()
		ok, want := moveIterator(it.Iterator, how, key), it.move(how, key)
		if ok != want || it.Valid() != want || it.Err() != nil {
			r.failf("%s(%q) = %v, %w; want %v (entry %d of %d)", how, key, ok, it.Err(), want, it.pos, len(it.entries))
		}
		if !ok {
			continue
		}
		if e := it.entries[it.pos]; string(it.Key()) != e.key || string(it.Value()) != e.value {
			r.failf("%s(%q): at %q = %.60q, want %q = %.60q", how, key, it.Key(), it.Value(), e.key, e.value)
		}
	}
}

func (r *modelRun) actionSync() {
	r.must("Sync", r.db.Sync())
	r.sync()
}

func (r *modelRun) actionFlush() {
	r.must("Flush", r.db.Flush(context.Background()))
	r.sync()
}

func (r *modelRun) actionCompact() {
	r.must("Compact", r.db.Compact(context.Background(), r.bounds()))
	r.sync()
}

// actionCheckpoint makes a checkpoint, uses it, and keeps it instead of the
// last one.
func (r *modelRun) actionCheckpoint() {
	r.checkCopy()
	r.copies++
	r.copyDir, r.copy = fmt.Sprint("copy", r.copies), r.now
	r.must("Checkpoint", r.db.Checkpoint(r.copyDir))
	r.checkCopy()
}

// checkCopy opens the checkpoint, compares, and changes it.
func (r *modelRun) checkCopy() {
	if r.copyDir == "" {
		return
	}
	o := drawOptions(r, r.mem)
	o.MustExist = true
	db, err := Open(r.copyDir, &o)
	r.must("open checkpoint", err)
	defer db.Close()
	got, err := readAll(db, Range{})
	r.must("Scan of the checkpoint", err)
	if err := r.copy.same(got); err != nil {
		r.failf("checkpoint: %w", err)
	}
	op := r.op()
	var b Batch
	b.SetDurability(SyncEach)
	if op.Kind == OpDelete {
		r.must("Batch.Delete", b.Delete(op.Key))
	} else {
		r.must("Batch.Put", b.Put(op.Key, op.Value))
	}
	r.must("Write to the checkpoint", db.Write(context.Background(), &b))
	r.copy = r.copy.with([]Op{op})
	r.must("Verify the checkpoint", db.Verify(context.Background()))
}

func (r *modelRun) actionReopen() {
	r.letGo()
	r.must("Close", r.db.Close())
	r.sync()
	r.open()
	got, err := readAll(r.db, Range{})
	r.must("Scan", err)
	if err := r.now.same(got); err != nil {
		r.failf("after reopening: %w", err)
	}
}

// actionReadOnly opens the store read-only, beside the writer or alone.
func (r *modelRun) actionReadOnly() {
	alone := r.choose("alone", 2) == 1
	if alone {
		r.letGo()
		r.must("Close", r.db.Close())
		r.sync()
	}
	o := drawOptions(r, r.mem)
	o.ReadOnly = true
	ro, err := Open("db", &o)
	r.must("open read-only", err)
	state := r.now
	if !alone {
		r.actionFill() // the reader does not see this
	}
	got, err := readAll(ro, Range{})
	r.must("Scan read-only", err)
	if err := state.same(got); err != nil {
		r.failf("read-only: %w", err)
	}
	r.askAll(ro, state, r.key())
	r.must("Close read-only", ro.Close())
	if alone {
		r.open()
	}
}

// actionCrash cuts the power and goes on with what it left.
func (r *modelRun) actionCrash() {
	configs := vfs.CrashConfigs(uint64(r.choose("seed", 1<<16)))
	c := configs[r.choose("policy", len(configs))]
	after := r.mem.Crash(c)
	r.letGo()
	r.must("Close", r.db.Close())
	r.mem = after
	r.open()
	got, err := readAll(r.db, Range{})
	r.must("Scan", err)
	if err := r.survived(got); err != nil {
		r.failf("crash with %v: %w", c, err)
	}
	r.checkCopy()
}

// actionKill ends the process without its knowing: no write is lost, synced or
// not.
func (r *modelRun) actionKill() {
	r.letGo()
	r.db.cancel()
	r.db.background.Wait()
	r.db.abandon()
	r.open()
	got, err := readAll(r.db, Range{})
	r.must("Scan", err)
	if err := r.now.same(got); err != nil {
		r.failf("after the death of the process: %w", err)
	}
	r.sync() // Open has made durable what it found
}

// actionRebuildFilters rebuilds filters, of tables that were written under other
// options. A handle that wants none says so.
func (r *modelRun) actionRebuildFilters() {
	_, err := r.db.RebuildFilters(context.Background())
	if none := r.db.opts.FilterBits < 0; none != (err != nil) {
		r.failf("RebuildFilters with %v bits a key: %w", r.db.opts.FilterBits, err)
	}
}

func (r *modelRun) actionVerify() { r.must("Verify", r.db.Verify(context.Background())) }

// actionIngest sets several keys at once by Ingest, which is durable then.
func (r *modelRun) actionIngest() {
	puts := make(map[string][]byte)
	for range r.choose("keys", 12) {
		puts[r.key()] = []byte(r.value())
	}
	var ops []Op
	for _, key := range slices.Sorted(maps.Keys(puts)) {
		ops = append(ops, Op{OpPut, []byte(key), puts[key]})
	}
	r.must("Ingest", r.db.Ingest(context.Background(), history{ops}.sorted(0)))
	if len(ops) > 0 {
		r.committed(SyncEach, ops...)
	}
}

// actionExportFilters asks a bundle of all filters for the keys that are there.
func (r *modelRun) actionExportFilters() {
	var file bytes.Buffer
	_, err := r.db.ExportFilters(context.Background(), &file)
	r.must("ExportFilters", err)
	b, err := bundle.Open(file.Bytes())
	r.must("open the bundle", err)
	for _, e := range r.now {
		if !b.MayContain([]byte(e.key)) {
			r.failf("the bundle denies %q, which is there", e.key)
		}
	}
	r.must("ask the bundle", b.Err())
}
