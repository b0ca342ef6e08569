package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale/vfs"
)

// linClients is how many clients use a store at the same time. Beside them
// something flushes and compacts it.
const linClients = 7

// A linWorld is a store, its clients, and what they have seen.
type linWorld struct {
	seed   uint64
	opts   Options
	mem    *vfs.Mem
	faults *vfs.FaultFS
	db     *DB
	epoch  int

	clock  atomic.Int64 // a time that never stands still
	serial atomic.Int32 // of the last write
	faulty atomic.Bool  // errors are to be expected
	ended  atomic.Bool  // the epoch is over

	mu   sync.Mutex
	seen []linSeen // in this epoch
	bad  error     // the first error that is not to be expected

	history []porcupine.Operation
	figures linFigures
}

// linSeen is an operation of the present epoch.
type linSeen struct {
	client    int
	in        linInput
	out       linOutput
	call, ret int64
	failed    bool
}

// linFigures are what a run of the tests has come by.
type linFigures struct {
	histories, operations, overlapping int
	longest                            time.Duration // that a check took
	unknown, failed, surfaced          int           // writes without an answer, those of them that failed, and that were there later
	crashes, reopens, lossy            int           // lossy: crashes that lost something
	flushes, compactions               uint64
	kinds                              map[string]int
}

func newLinWorld(seed uint64) *linWorld {
	w := &linWorld{seed: seed, mem: vfs.NewMem()}
	w.figures.kinds = make(map[string]int)
	r := rand.New(rand.NewPCG(seed, 0))
	w.opts = tinyStore(nil)
	w.opts.Compression, w.opts.testing.baseSize = NoCompression, 2<<10
	w.opts.Durability = []Durability{SyncEach, SyncManual}[r.IntN(2)]
	w.opts.testing.noMap = r.IntN(2) == 0
	w.opts.testing.runs = 1 + r.IntN(4)
	w.opts.FilterBits = []float64{10, 2, -1}[r.IntN(3)]
	return w
}

// disk makes mem, with faults and pauses, the disk of the store to be opened.
func (w *linWorld) disk(mem *vfs.Mem) {
	w.mem, w.faults = mem, vfs.NewFault(mem, nil)
	w.opts.FS = w.faults
	w.inject(nil)
}

// inject has the disk fail as fn says, and lets others go on at many of its
// operations, also amid a commit or a lookup.
func (w *linWorld) inject(fn vfs.InjectFunc) {
	w.faults.Inject(func(op vfs.Op, name string, n int64) error {
		if rand.IntN(3) == 0 {
			runtime.Gosched()
		}
		if fn == nil {
			return nil
		}
		return fn(op, name, n)
	})
}

// do has a client do an operation and notes it.
func (w *linWorld) do(client int, in linInput, fn func() (linOutput, error)) error {
	in.epoch = w.epoch
	call := w.clock.Add(1)
	out, err := fn()
	w.note(linSeen{client, in, out, call, w.clock.Add(1), false}, err)
	return err
}

// note notes an operation and how it ended.
func (w *linWorld) note(s linSeen, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		s.failed = true
		changes := len(s.in.writes) > 0 || s.in.kind == linSync
		if expected := w.faulty.Load() && changes && errors.Is(err, syscall.EIO); !expected && w.bad == nil {
			w.bad = fmt.Errorf("%s: %w", s.in.how, err)
		}
	}
	w.seen = append(w.seen, s)
}

// client does n operations, or as many as the epoch lets it.
func (w *linWorld) client(id, n int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(w.epoch*linClients+id+1)))
	writes := true
	for range n {
		if w.ended.Load() {
			return
		}
		if r.IntN(2) == 0 {
			runtime.Gosched()
		}
		if kind := r.IntN(12); kind < 6 && writes {
			writes = w.write(id, r) == nil // one unknown outcome is enough
		} else {
			w.read(id, kind, r)
		}
	}
}

func (w *linWorld) newWrite(r *rand.Rand, deletes int) linWrite {
	if r.IntN(8) < deletes {
		return linWrite{r.IntN(len(linKeys)), 0}
	}
	return linWrite{r.IntN(len(linKeys)), uint16(w.serial.Add(1))}
}

// write does an operation that writes.
func (w *linWorld) write(id int, r *rand.Rand) error {
	one := w.newWrite(r, 2)
	key := []byte(linKeys[one.key])
	in := linInput{kind: linPut, writes: []linWrite{one}, synced: w.opts.Durability == SyncEach}
	switch r.IntN(4) {
	case 0:
		in.writes[0] = w.newWrite(r, 0)
		in.kind, in.how, key = linPutIfAbsent, "PutIfAbsent", []byte(linKeys[in.writes[0].key])
		return w.do(id, in, func() (out linOutput, err error) {
			out.inserted, err = w.db.PutIfAbsent(key, linValue(in.writes[0].value))
			return out, err
		})
	case 1:
		if one.value == 0 {
			in.how = "Delete"
			return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Delete(key) })
		}
		in.how = "Put"
		return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Put(key, linValue(one.value)) })
	}
	for range r.IntN(5) {
		in.writes = append(in.writes, w.newWrite(r, 3))
	}
	in.how, in.synced = "Write", r.IntN(3) == 0
	b := new(Batch)
	for _, change := range in.writes {
		if change.value == 0 {
			_ = b.Delete([]byte(linKeys[change.key])) // far below every limit
		} else {
			_ = b.Put([]byte(linKeys[change.key]), linValue(change.value)) // likewise
		}
	}
	b.SetDurability(map[bool]Durability{true: SyncEach, false: SyncManual}[in.synced])
	return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Write(context.Background(), b) })
}

// linAll are the numbers of all keys.
var linAll = func() (all []int) {
	for i := range linKeys {
		all = append(all, i)
	}
	return all
}()

// linSet sets what a key has.
func (v *linValues) linSet(key int, value []byte) (err error) {
	v[key], err = linNumber(value)
	return err
}

// read does an operation that reads; those that hold on to a state of the store
// write meanwhile.
func (w *linWorld) read(id, kind int, r *rand.Rand) {
	one := r.IntN(len(linKeys))
	key := []byte(linKeys[one])
	switch kind {
	default:
		_ = w.do(id, linInput{kind: linGet, how: "Get", keys: []int{one}}, func() (out linOutput, err error) {
			value, err := w.db.Get(key)
			if err == nil {
				err = out.values.linSet(one, value)
			} else if errors.Is(err, ErrNotFound) {
				err = nil
			}
			return out, err
		})
	case 7:
		_ = w.do(id, linInput{kind: linHas, how: "Has", keys: []int{one}}, func() (out linOutput, err error) {
			there, err := w.db.Has(key)
			if there {
				out.values[one] = 1
			}
			return out, err
		})
	case 8:
		keys := r.Perm(len(linKeys))[:1+r.IntN(len(linKeys))]
		w.getMany(id, keys)
	case 9:
		w.scan(id, Range{Reverse: r.IntN(2) == 0})
	case 10:
		w.snapshot(id, r)
	case 11:
		w.iterator(id, r)
	}
}

// getMany reads some keys at one moment, which is past when the first answer is
// given.
func (w *linWorld) getMany(id int, keys []int) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "GetMany", keys: keys}, call: w.clock.Add(1)}
	var asked [][]byte
	for _, k := range keys {
		asked = append(asked, []byte(linKeys[k]))
	}
	err := w.db.GetMany(asked, func(i int, value []byte, found bool) error {
		if seen.ret == 0 {
			seen.ret = w.clock.Add(1)
		}
		if !found {
			return nil
		}
		return seen.out.values.linSet(keys[i], value)
	})
	w.note(seen, err)
}

// scan reads all keys at one moment, which is past when the first entry is
// given.
func (w *linWorld) scan(id int, rng Range) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "Scan", keys: linAll}, call: w.clock.Add(1)}
	var err error
	seen.out, err = linScan(w.db, rng, func() { seen.ret = w.clock.Add(1) })
	w.note(seen, err)
}

// linScan reads all keys. It calls first when it has met the first one, or none.
func linScan(from Reader, rng Range, first func()) (out linOutput, err error) {
	for e, err := range from.Scan(rng) {
		if err == nil {
			err = out.add(e.Key, e.Value)
		}
		if err != nil {
			return out, err
		}
		if first != nil {
			first()
			first = nil
		}
	}
	if first != nil {
		first()
	}
	return out, nil
}

// add adds an entry that was met.
func (o *linOutput) add(key, value []byte) error {
	for i, k := range linKeys {
		if k == string(key) {
			if o.values[i] != 0 {
				return fmt.Errorf("key %q comes twice", key)
			}
			return o.values.linSet(i, value)
		}
	}
	if bytes.HasPrefix(key, []byte("ballast")) {
		return nil
	}
	return fmt.Errorf("key %q is nobody's", key)
}

// snapshot opens a snapshot, and reads all keys of it later: that is one
// reading, at the moment of its opening.
func (w *linWorld) snapshot(id int, r *rand.Rand) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "Snapshot", keys: linAll}, call: w.clock.Add(1)}
	s, err := w.db.Snapshot()
	seen.ret = w.clock.Add(1)
	if err == nil {
		defer s.Close()
		w.meanwhile(id, r)
		if r.IntN(2) == 0 {
			seen.out, err = linScan(s, Range{Reverse: r.IntN(2) == 0}, nil)
		} else {
			seen.out, err = linGets(s)
		}
	}
	w.note(seen, err)
}

func linGets(from Reader) (out linOutput, err error) {
	for i, k := range linKeys {
		switch value, err := from.Get([]byte(k)); {
		case err == nil:
			if err := out.values.linSet(i, value); err != nil {
				return out, err
			}
		case !errors.Is(err, ErrNotFound):
			return out, err
		}
	}
	return out, nil
}

// iterator does the same with an iterator.
func (w *linWorld) iterator(id int, r *rand.Rand) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "NewIterator", keys: linAll}, call: w.clock.Add(1)}
	it := w.db.NewIterator(Range{})
	seen.ret = w.clock.Add(1)
	defer it.Close()
	w.meanwhile(id, r)
	move := it.Next
	if r.IntN(2) == 0 && it.Last() {
		move = it.Prev
		if err := seen.out.add(it.Key(), it.Value()); err != nil {
			w.note(seen, err)
			return
		}
	}
	for move() {
		if err := seen.out.add(it.Key(), it.Value()); err != nil {
			w.note(seen, err)
			return
		}
	}
	w.note(seen, it.Err())
}

// meanwhile lets others go on.
func (w *linWorld) meanwhile(id int, r *rand.Rand) {
	for range r.IntN(8) {
		runtime.Gosched()
	}
	if r.IntN(4) == 0 {
		w.read(id, 6, r)
	}
}

// load puts n keys that are no part of the history but make levels.
func (w *linWorld) load(n int) (err error) {
	for ; n > 0 && err == nil; n-- {
		err = w.db.Put(fmt.Appendf(nil, "ballast%02d", rand.IntN(64)), make([]byte, 300))
	}
	return err
}

// disturb flushes, syncs and compacts now and then. What it makes durable
// counts.
func (w *linWorld) disturb(id int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(w.epoch)<<32))
	ctx := context.Background()
	for range 12 {
		for range r.IntN(40) {
			runtime.Gosched()
		}
		if err := w.load(r.IntN(3)); err != nil {
			w.note(linSeen{in: linInput{kind: linSync, how: "Put"}}, err)
		}
		if w.ended.Load() {
			return
		}
		in := linInput{kind: linSync, how: "Flush"}
		switch r.IntN(5) {
		case 0, 1:
			_ = w.do(id, in, func() (out linOutput, err error) { return out, w.db.Flush(ctx) })
		case 2:
			in.how = "Sync"
			_ = w.do(id, in, func() (out linOutput, err error) { return out, w.db.Sync() })
		default:
			rng := Range{}
			if r.IntN(2) == 0 {
				rng.Upper = []byte("kk")
			}
			in.how = "Compact"
			if err := w.db.Compact(ctx, rng); err != nil {
				w.note(linSeen{in: in}, err)
			}
		}
	}
}
