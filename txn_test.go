package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A txnPair is a transaction, and what it has to show: a sorted map of the state at its beginning, changed by its writes.
// read has the keys of the snapshot that it depends on.
type txnPair struct {
	tx    *Txn
	part  readerWriter // tx, or the part of it that the world has
	state map[string]string
	read  map[string]bool
	wrote map[string]string // "" is a deletion: values are not empty
}

type readerWriter interface {
	Reader
	Writer
}

// A txnWorld runs transactions that overlap, one operation at a time, and knows what each must see and which must fail.
type txnWorld struct {
	t       *testing.T
	r       *rand.Rand
	db      *DB
	opts    Options
	now     map[string]string
	changed map[string]int // at which commit each key was last changed; the number of commits is the time
	time    int
	open    []*txnPair
	began   map[*txnPair]int
	counts  map[string]int
	n       int
	prefix  string // all happens in a Sub of it, unless it is noSub
	guards  []string
}

const noSub = "-"

// stored returns the key as the store has it.
func (w *txnWorld) stored(k string) []byte {
	if w.prefix == noSub {
		return []byte(k)
	}
	return []byte(w.prefix + k)
}

const txnKeys = 12

func (w *txnWorld) key() string { return fmt.Sprintf("k%02d", w.r.IntN(txnKeys)) }

func (w *txnWorld) value() string { w.n++; return fmt.Sprintf("v%d", w.n) }

func (w *txnWorld) begin() {
	tx, err := w.db.Begin(true)
	if err != nil {
		w.t.Fatal(err)
	}
	var part readerWriter = tx
	if w.prefix != noSub {
		part = tx.Sub(w.prefix)
	}
	p := &txnPair{tx, part, maps.Clone(w.now), map[string]bool{}, map[string]string{}}
	w.open = append(w.open, p)
	w.began[p] = w.time
}

// write is a write of p's.
func (w *txnWorld) write(p *txnPair) {
	k := w.key()
	if w.r.IntN(3) == 0 {
		if err := p.part.Delete([]byte(k)); err != nil {
			w.t.Fatal(err)
		}
		delete(p.state, k)
		p.wrote[k] = ""
		return
	}
	v := w.value()
	if err := p.part.Put([]byte(k), []byte(v)); err != nil {
		w.t.Fatal(err)
	}
	p.state[k], p.wrote[k] = v, v
}

// get reads one key of p, in each of the ways.
func (w *txnWorld) get(p *txnPair) {
	k := w.key()
	var reader Reader = p.part
	tracked := w.prefix != noSub || w.r.IntN(4) > 0
	if !tracked {
		reader = p.tx.Untracked()
	}
	want, found := p.state[k]
	var got []byte
	var err error
	switch w.r.IntN(5) {
	case 0:
		got, err = reader.Get([]byte(k))
	case 1:
		got, err = reader.AppendValue(nil, []byte(k))
	case 2:
		err = reader.ViewValue([]byte(k), func(value []byte) error { got = slices.Clone(value); return nil })
	case 3:
		var ok bool
		if ok, err = reader.Has([]byte(k)); ok {
			got = []byte(want)
		} else if err == nil {
			err = ErrNotFound
		}
	default:
		tracked = true
		other := w.key()
		err = p.tx.GetMany([][]byte{w.stored(other), w.stored(k)}, func(i int, value []byte, ok bool) error {
			if i == 1 {
				got = slices.Clone(value)
			} else if want, found := p.state[other]; ok != found || string(value) != want {
				w.t.Fatalf("GetMany: %s = %q, %v; want %q, %v", other, value, ok, want, found)
			}
			return nil
		})
		if got == nil && err == nil {
			err = ErrNotFound
		}
		if _, own := p.wrote[other]; !own {
			p.read[other] = true
		}
	}
	if found != (err == nil) || err != nil && err != ErrNotFound || string(got) != want {
		w.t.Fatalf("%s = %q, %v; want %q, %v", k, got, err, want, found)
	}
	if _, own := p.wrote[k]; tracked && !own {
		p.read[k] = true
	}
}

// scan walks a part of p's state, and notes what was observed: all between the places where the walk has been.
func (w *txnWorld) scan(p *txnPair) {
	lower, upper := w.key(), w.key()
	rng := Range{Lower: []byte(lower), Upper: []byte(upper), Reverse: w.r.IntN(2) == 0, Limit: w.r.IntN(4)}
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(p.state)), func(k string) bool { return k < lower || k >= upper })
	if rng.Reverse {
		slices.Reverse(keys)
	}
	all := rng.Limit == 0 || len(keys) < rng.Limit
	if !all {
		keys = keys[:rng.Limit]
	}
	var got []string
	for e, err := range p.part.Scan(rng) {
		if err != nil || string(e.Value) != p.state[string(e.Key)] {
			w.t.Fatalf("scan: %s = %q, %v; want %q", e.Key, e.Value, err, p.state[string(e.Key)])
		}
		got = append(got, string(e.Key))
	}
	if !slices.Equal(got, keys) {
		w.t.Fatalf("scan of %+v: %v, want %v", rng, got, keys)
	}
	for i := range txnKeys {
		k := fmt.Sprintf("k%02d", i)
		if k < lower || k >= upper || !all && (!rng.Reverse && k > keys[len(keys)-1] || rng.Reverse && k < keys[len(keys)-1]) {
			continue
		}
		p.read[k] = true
	}
}

// walk moves an iterator of p up and down. What it observes is one interval since each seek.
func (w *txnWorld) walk(p *txnPair) {
	it := p.part.NewIterator(Range{})
	defer it.Close()
	keys := slices.Sorted(maps.Keys(p.state))
	at, low, high := -1, "", "" // high "" is before low: nothing
	note := func() {
		for i := range txnKeys {
			if k := fmt.Sprintf("k%02d", i); k >= low && k <= high {
				p.read[k] = true
			}
		}
	}
	var moves []string
	for range 1 + w.r.IntN(6) {
		var ok bool
		switch n := w.r.IntN(4); {
		case n == 0 || at < 0 || at >= len(keys):
			note()
			k := w.key()
			moves = append(moves, "seek "+k)
			if w.r.IntN(2) == 0 {
				moves = append(moves, "GE")
				ok = it.SeekGE([]byte(k))
				at, _ = slices.BinarySearch(keys, k)
				low, high = k, "~"
			} else {
				ok = it.SeekLT([]byte(k))
				i, _ := slices.BinarySearch(keys, k)
				at, low = i-1, ""
				if high = ""; k > "k00" {
					high = fmt.Sprintf("%s!", k[:2]) // replaced below
					high = lastBelow(k)
				}
			}
			if at >= 0 && at < len(keys) {
				if low == "" {
					low = keys[at]
				} else {
					high = keys[at]
				}
			}
		case n < 3:
			moves = append(moves, "next")
			ok = it.Next()
			if at++; at < len(keys) {
				high = max(high, keys[at])
			} else {
				high = "~"
			}
		default:
			moves = append(moves, "prev")
			ok = it.Prev()
			if at--; at >= 0 {
				low = min(low, keys[at])
			} else {
				low = ""
			}
		}
		if want := at >= 0 && at < len(keys); ok != want || ok && (string(it.Key()) != keys[at] || string(it.Value()) != p.state[keys[at]]) {
			w.t.Fatalf("%v, wrote %v: the iterator: %v, %q = %q, want %v, number %d of %v", moves, p.wrote, ok, it.Key(), it.Value(), want, at, keys)
		}
	}
	note()
}

// lastBelow returns the last of the world's keys below k, which is not the first.
func lastBelow(k string) string {
	var n int
	fmt.Sscanf(k, "k%d", &n)
	return fmt.Sprintf("k%02d", n-1)
}

// end commits p or discards it.
func (w *txnWorld) end(p *txnPair) {
	w.open = slices.DeleteFunc(w.open, func(q *txnPair) bool { return q == p })
	w.checkFootprint(p)
	if w.r.IntN(8) == 0 {
		p.tx.Discard()
		return
	}
	var conflicts []string
	for k := range p.read {
		if w.changed[k] > w.began[p] && len(p.wrote) > 0 {
			conflicts = append(conflicts, k)
		}
	}
	err := p.tx.Commit(context.Background())
	if (err != nil) != (len(conflicts) > 0) || err != nil && !errors.Is(err, ErrConflict) {
		w.t.Fatalf("Commit = %v; conflicts: %v", err, conflicts)
	}
	if err != nil {
		if !slices.ContainsFunc(conflicts, func(k string) bool { return strings.Contains(err.Error(), fmt.Sprintf("%q", w.stored(k))) }) {
			w.t.Fatalf("%v names none of %v", err, conflicts)
		}
		w.counts["conflicts"]++
		return
	}
	w.counts["commits"]++
	w.apply(p.wrote)
}

// apply changes the state by what was committed.
func (w *txnWorld) apply(wrote map[string]string) {
	w.time++
	for k, v := range wrote {
		w.changed[k] = w.time
		if w.now[k] = v; v == "" {
			delete(w.now, k)
		}
	}
}

// other changes the store in another way than by a transaction, or what lies below it.
func (w *txnWorld) other() {
	var err error
	k := w.key()
	switch w.r.IntN(9) {
	case 0, 1:
		v := w.value()
		err = w.db.Put(w.stored(k), []byte(v))
		w.apply(map[string]string{k: v})
	case 2:
		err = w.db.Delete(w.stored(k))
		w.apply(map[string]string{k: ""})
	case 3:
		v := w.value()
		var done bool
		done, err = w.db.PutIfAbsent(w.stored(k), []byte(v))
		if _, there := w.now[k]; done == there {
			w.t.Fatalf("PutIfAbsent = %v; it was there: %v", done, there)
		}
		if done {
			w.apply(map[string]string{k: v})
		}
	case 4:
		v := w.value()
		puts := map[string]string{k: v, max(k, w.key()): v} // one or two, whose bounds have keys between them
		err = w.db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
			for _, k := range slices.Sorted(maps.Keys(puts)) {
				if !yield(w.stored(k), []byte(v)) {
					return
				}
			}
		})
		w.apply(puts)
	case 5:
		err = w.db.Flush(context.Background())
	case 6:
		err = w.db.Compact(context.Background(), Range{})
	case 7:
		return
	default:
		if w.r.IntN(10) > 0 || len(w.open) > 0 {
			return
		}
		w.counts["reopened"]++
		opts := w.opts
		closeTest(w.t, w.db)
		w.db, err = Open("db", &opts)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// guard puts keys on both sides of the world's part.
func (w *txnWorld) guard() {
	switch w.prefix {
	case "a/":
		w.guards = []string{"", "a", "a.~", "a0", "b", "k05", "\xff"}
	case "\xff\xff":
		w.guards = []string{"", "a/k05", "k05", "\xff", "\xff\xfe\xff"}
	}
	for _, k := range w.guards {
		mustPut(w.t, w.db, k, "guard")
	}
}

// check compares the store with what was committed.
func (w *txnWorld) check() {
	want := make(map[string]string)
	for k, v := range w.now {
		want[string(w.stored(k))] = v
	}
	for _, k := range w.guards {
		want[k] = "guard"
	}
	for e, err := range w.db.Scan(Range{}) {
		if err != nil || want[string(e.Key)] != string(e.Value) {
			w.t.Errorf("the store has %q = %q, %v; want %q", e.Key, e.Value, err, want[string(e.Key)])
		}
		delete(want, string(e.Key))
	}
	if len(want) > 0 {
		w.t.Errorf("the store lacks %q", want)
	}
}

// Transactions that overlap, among writes of other kinds, flushes and compactions, see their own state with their own
// writes, and just those fail that have read what was changed since. The outcomes depend on nothing else: also not on how
// far the tail reaches back.
func TestTxn_Model(t *testing.T) {
	seed, counts := testenv.Seed(t), make(map[string]int)
	for program := range uint64(30) {
		opts := tinyStore(vfs.NewMem())
		opts.CompactionWorkers = -int(program % 2)
		opts.testing.tailChunk = []int{0, 1, 300}[program%3]
		db := openTest(t, &opts)
		w := &txnWorld{t: t, r: rand.New(rand.NewPCG(seed+program, 33)), db: db, opts: opts, now: map[string]string{}, changed: map[string]int{}, began: map[*txnPair]int{}, counts: counts}
		w.prefix = []string{noSub, "", "a/", "\xff\xff"}[w.r.IntN(4)]
		w.guard()
		for range 400 {
			if len(w.open) == 0 || len(w.open) < 4 && w.r.IntN(4) == 0 {
				w.begin()
				continue
			}
			p := w.open[w.r.IntN(len(w.open))]
			switch n := w.r.IntN(20); {
			case n < 5:
				w.write(p)
			case n < 9:
				w.get(p)
			case n < 11:
				w.scan(p)
			case n < 13:
				w.walk(p)
			case n < 16:
				w.end(p)
			default:
				w.other()
			}
		}
		for len(w.open) > 0 {
			w.end(w.open[0])
		}
		w.check()
	}
	t.Logf("%v", counts)
	if counts["conflicts"] < 100 || counts["commits"] < 100 {
		t.Errorf("too little has happened: %v", counts)
	}
}

// A transaction of many scans has memory for those that are open, besides the set of what was read.
func TestTxn_ManyScans(t *testing.T) {
	db := openTest(t, nil)
	tx := mustBegin(t, db)
	defer tx.Discard()
	open := tx.NewIterator(Range{})
	defer open.Close()
	for range 1000 {
		for range tx.Scan(Prefix("k")) {
			t.Fatal("an entry")
		}
	}
	if len(tx.watches) > 2 {
		t.Errorf("%d watches", len(tx.watches))
	}
}

// A transaction that ends amid its own reads ends them: they would have no snapshot any more.
func TestTxn_EndsAmidReads(t *testing.T) {
	db := openTest(t, nil)
	mustPut(t, db, "a", "v")
	keys := make([][]byte, mostKeys+1) // GetMany has two batches
	for i := range keys {
		keys[i] = []byte("a")
	}
	for _, writable := range []bool{false, true} {
		tx, err := db.Begin(writable)
		if err != nil {
			t.Fatal(err)
		}
		it := tx.NewIterator(Range{})
		defer it.Close()
		for it.Next() {
		}
		n := 0
		if err := tx.GetMany(keys, func(int, []byte, bool) error { n++; tx.Discard(); return nil }); err != ErrTxnDone || n != 1 {
			t.Errorf("GetMany = %v after %d keys; want %v after the first", err, n, ErrTxnDone)
		}
		if it.Next() || it.Err() != ErrTxnDone {
			t.Errorf("Next behind the last entry: %v, want %v", it.Err(), ErrTxnDone)
		}
	}
}
