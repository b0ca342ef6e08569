package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/vfs"
)

// linClients is how many clients use a store at the same time. Beside them
// something flushes and compacts it.
const linClients = 7

// A linWorld is a store, its clients, and what they have seen.
type linWorld struct {
	seed   uint64
	opts   Options
	drawn  []string // the options of each opening, for messages
	mem    *vfs.Mem
	faults *vfs.FaultFS
	db     *DB
	epoch  int

	clock   atomic.Int64 // a time that never stands still
	serial  atomic.Int32 // of the last write
	faulty  atomic.Bool  // errors are to be expected
	ended   atomic.Bool  // the epoch is over
	resumed atomic.Bool  // the store went on after a failure in this epoch

	// A store that is closed while its clients use it: after so many operations,
	// if that is above zero.
	untilClose atomic.Int64
	closing    atomic.Bool // Close was called
	closer     sync.WaitGroup
	closed     error // what Close returned

	mu     sync.Mutex
	seen   []linSeen // in this epoch
	copies []linCopy // checkpoints that were made in it
	bad    error     // the first error that is not to be expected

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

// A linCopy is a checkpoint, and what it held when it was made.
type linCopy struct {
	dir  string
	made int64 // when
	out  linOutput
}

// linFigures are what a run of the tests has come by.
type linFigures struct {
	histories, operations, overlapping int
	longest                            time.Duration // that a check took
	resumed                            int           // epochs in which the store went on after a failure
	unknown, failed, surfaced          int           // writes without an answer, those of them that failed, and that were there later
	crashes, reopens, closes, lossy    int           // closes: by Close beside its clients; lossy: crashes that lost something
	flushes, compactions               uint64
	kinds                              map[string]int
}

func newLinWorld(seed uint64) *linWorld {
	w := &linWorld{seed: seed, mem: vfs.NewMem()}
	w.figures.kinds = make(map[string]int)
	return w
}

// draw draws the options of the next opening.
func (w *linWorld) draw(r *rand.Rand) {
	fs := w.opts.FS
	w.opts = drawOptions(randomChooser{r}, fs)
	w.opts.Compression = NoCompression // so that long values fill memtables and tables
	if r.IntN(2) == 0 {
		w.opts.FilterPrefix = FixedPrefix(1) // that of linKeys
	}
	w.drawn = append(w.drawn, optionsText(&w.opts))
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
	if errors.Is(err, ErrClosed) && w.closing.Load() {
		return // then it has done nothing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		s.failed = true
		changes := len(s.in.writes) > 0 || s.in.kind == linSync || s.in.disk
		if expected := w.faulty.Load() && changes && isInjected(err); !expected && w.bad == nil {
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
		writes = writes || w.resumed.Load()
		if r.IntN(2) == 0 && writes {
			writes = w.write(id, r) == nil // one unknown outcome is enough
		} else {
			w.read(id, r)
		}
		if w.untilClose.Add(-1) == 0 {
			w.closer.Go(w.closeBeside)
		}
	}
}

// closeBeside closes the store while its clients use it, and ends the epoch.
func (w *linWorld) closeBeside() {
	m := w.db.Metrics()
	w.figures.flushes += m.Flushes
	w.figures.compactions += m.Compactions
	w.closing.Store(true)
	w.closed = w.db.Close()
	w.ended.Store(true)
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
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		in.writes[0] = w.newWrite(r, 0)
		in.kind, in.how, key = linPutIfAbsent, "PutIfAbsent", []byte(linKeys[in.writes[0].key])
		return w.do(id, in, func() (out linOutput, err error) {
			out.inserted, err = w.db.PutIfAbsent(key, linValue(in.writes[0].value))
			return out, err
		})
	case 4, 5:
		if one.value == 0 {
			in.how = "Delete"
			return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Delete(key) })
		}
		in.how = "Put"
		return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Put(key, linValue(one.value)) })
	case 6:
		return w.ingest(id, r)
	}
	for range r.IntN(5) {
		in.writes = append(in.writes, w.newWrite(r, 3))
	}
	in.how = "Write"
	b := new(Batch)
	for _, change := range in.writes {
		if change.value == 0 {
			_ = b.Delete([]byte(linKeys[change.key])) // far below every limit
		} else {
			_ = b.Put([]byte(linKeys[change.key]), linValue(change.value)) // likewise
		}
	}
	if d := Durability(r.IntN(4)); d <= SyncManual { // else it is the store's
		b.SetDurability(d)
		in.synced = d == SyncEach
		in.early = in.synced && w.opts.Durability != SyncEach
	}
	return w.do(id, in, func() (out linOutput, err error) { return out, w.db.Write(context.Background(), b) })
}

// ingest sets several keys at once by Ingest.
func (w *linWorld) ingest(id int, r *rand.Rand) error {
	in := linInput{kind: linPut, how: "Ingest", synced: true}
	for k := range linKeys {
		if r.IntN(2) == 0 {
			in.writes = append(in.writes, linWrite{k, uint16(w.serial.Add(1))})
		}
	}
	if len(in.writes) == 0 {
		in.writes = append(in.writes, w.newWrite(r, 0))
	}
	return w.do(id, in, func() (out linOutput, err error) {
		return out, w.db.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
			for _, put := range in.writes {
				if !yield([]byte(linKeys[put.key]), linValue(put.value)) {
					return
				}
			}
		})
	})
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
// read and write meanwhile.
func (w *linWorld) read(id int, r *rand.Rand) {
	switch r.IntN(48) {
	default:
		w.get(id, r)
	case 0, 1, 2, 3, 4, 5:
		one := r.IntN(len(linKeys))
		_ = w.do(id, linInput{kind: linHas, how: "Has", keys: []int{one}}, func() (out linOutput, err error) {
			there, err := w.db.Has([]byte(linKeys[one]))
			if there {
				out.values[one] = 1
			}
			return out, err
		})
	case 6, 7, 8, 9, 10:
		w.getMany(id, r.Perm(len(linKeys))[:1+r.IntN(len(linKeys))])
	case 11, 12, 13, 14, 15:
		w.scan(id, Range{Reverse: r.IntN(2) == 0})
	case 16, 17, 18:
		w.scanPrefix(id, r)
	case 19, 20, 21, 22, 23:
		w.snapshot(id, r)
	case 24, 25, 26:
		w.snapshotClosed(id, r)
	case 27, 28, 29, 30, 31:
		w.iterator(id, r)
	case 32, 33:
		w.mayContain(id, r)
	case 34:
		w.checkpoint(id, r)
	case 35:
		w.exportFilters(id)
	}
}

// get reads one key, in one of the ways to do so.
func (w *linWorld) get(id int, r *rand.Rand) {
	one := r.IntN(len(linKeys))
	key := []byte(linKeys[one])
	how := []string{"Get", "Get", "AppendValue", "ViewValue"}[r.IntN(4)]
	_ = w.do(id, linInput{kind: linGet, how: how, keys: []int{one}}, func() (out linOutput, err error) {
		var value []byte
		switch how {
		case "Get":
			value, err = w.db.Get(key)
		case "AppendValue":
			value, err = w.db.AppendValue(nil, key)
		case "ViewValue":
			err = w.db.ViewValue(key, func(v []byte) error { return out.values.linSet(one, v) })
		}
		if value != nil && err == nil {
			err = out.values.linSet(one, value)
		} else if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return out, err
	})
}

// mayContain asks what filters say. Only that a key is denied says something.
func (w *linWorld) mayContain(id int, r *rand.Rand) {
	one := r.IntN(len(linKeys))
	seen := linSeen{client: id, in: linInput{kind: linHas, how: "MayContain", keys: []int{one}}, call: w.clock.Add(1)}
	may := w.db.MayContain([]byte(linKeys[one]))
	seen.ret = w.clock.Add(1)
	if !may && !w.closing.Load() {
		w.note(seen, nil)
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

// scanPrefix reads the keys with a prefix at one moment: filters know of some
// prefixes.
func (w *linWorld) scanPrefix(id int, r *rand.Rand) {
	prefix := linKeys[r.IntN(len(linKeys))]
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "Scan of a prefix"}, call: w.clock.Add(1)}
	for i, k := range linKeys {
		if strings.HasPrefix(k, prefix) {
			seen.in.keys = append(seen.in.keys, i)
		}
	}
	rng := Prefix(prefix)
	rng.Reverse = r.IntN(2) == 0
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

// snapshotClosed opens a snapshot that another goroutine closes while it is
// read: what was answered before is one reading, at the moment of its opening.
func (w *linWorld) snapshotClosed(id int, r *rand.Rand) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "Snapshot.Close"}, call: w.clock.Add(1)}
	s, err := w.db.Snapshot()
	seen.ret = w.clock.Add(1)
	if err != nil {
		w.note(seen, err)
		return
	}
	w.meanwhile(id, r)
	rc := rand.New(rand.NewPCG(r.Uint64(), 0))
	var closer sync.WaitGroup
	closer.Go(func() {
		for range rc.IntN(16) {
			runtime.Gosched()
		}
		_ = s.Close() // the first time it does not fail
		// Now nothing keeps what only the snapshot sees.
		w.disturbOnce(id, rc)
		w.compact(rc)
	})
	known := make(map[int]uint16)
	for n := 0; err == nil && n < 400; n++ {
		if r.IntN(4) == 0 {
			runtime.Gosched()
		}
		err = linSnapshotRead(s, r, known)
	}
	closer.Wait()
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	for k, value := range known {
		seen.in.keys = append(seen.in.keys, k)
		seen.out.values[k] = value
	}
	slices.Sort(seen.in.keys)
	w.note(seen, err)
}

// linSnapshotRead reads something of a snapshot, which must be what is known of
// it, and adds to that.
func linSnapshotRead(s *Snapshot, r *rand.Rand, known map[int]uint16) error {
	learn := func(k int, value uint16) error {
		if was, is := known[k]; is && was != value {
			return fmt.Errorf("a snapshot has %q=%d and then %d", linKeys[k], was, value)
		}
		known[k] = value
		return nil
	}
	k := r.IntN(len(linKeys))
	switch r.IntN(4) {
	case 0:
		there, err := s.Has([]byte(linKeys[k]))
		if was, is := known[k]; err == nil && is && there != (was != 0) {
			return fmt.Errorf("a snapshot has %q=%d; Has says %v", linKeys[k], was, there)
		}
		return err
	case 1:
		out, err := linScan(s, Range{Reverse: r.IntN(2) == 0}, nil)
		for k := 0; k < len(linKeys) && err == nil; k++ {
			err = learn(k, out.values[k])
		}
		return err
	}
	var value linValues
	switch v, err := s.Get([]byte(linKeys[k])); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	default:
		if err := value.linSet(k, v); err != nil {
			return err
		}
	}
	return learn(k, value[k])
}

// iterator does the same as snapshot with an iterator, which is closed when it
// has met all keys or some.
func (w *linWorld) iterator(id int, r *rand.Rand) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "NewIterator"}, call: w.clock.Add(1)}
	it := w.db.NewIterator(Range{})
	seen.ret = w.clock.Add(1)
	w.meanwhile(id, r)
	first, move := it.First, it.Next
	reverse := r.IntN(2) == 0
	if reverse {
		first, move = it.Last, it.Prev
	}
	met, some := "", false
	more := first()
	var err error
	for n := r.IntN(40); more && n > 0 && err == nil; n-- {
		met, some = string(it.Key()), true
		if err = seen.out.add(it.Key(), it.Value()); err == nil {
			more = move()
		}
	}
	for i, k := range linKeys { // those that it has passed
		if !more || some && (!reverse && k <= met || reverse && k >= met) {
			seen.in.keys = append(seen.in.keys, i)
		}
	}
	if err == nil {
		err = it.Err()
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	w.note(seen, err)
}

// checkpoint makes a checkpoint and opens it: it holds all keys as they were at
// one moment.
func (w *linWorld) checkpoint(id int, r *rand.Rand) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "Checkpoint", keys: linAll, disk: true}, call: w.clock.Add(1)}
	dir := fmt.Sprintf("copy%d", seen.call)
	err := w.db.Checkpoint(dir)
	seen.ret = w.clock.Add(1)
	if err == nil {
		if seen.out, err = linCopyRead(w.faults, dir, r); err != nil {
			err = fmt.Errorf("the copy: %w", err)
		}
		w.mu.Lock()
		w.copies = append(w.copies, linCopy{dir, seen.ret, seen.out})
		w.mu.Unlock()
	}
	w.note(seen, err)
}

// linCopyRead opens a checkpoint and reads all keys.
func linCopyRead(fs vfs.FS, dir string, r *rand.Rand) (out linOutput, err error) {
	o := drawOptions(randomChooser{r}, fs)
	o.MustExist, o.ReadOnly = true, r.IntN(2) == 0
	db, err := Open(dir, &o)
	if err != nil {
		return out, fmt.Errorf("Open with %s: %w", optionsText(&o), err)
	}
	if out, err = linScan(db, Range{}, nil); err == nil {
		var gets linOutput
		if gets, err = linGets(db); err == nil && gets != out {
			err = fmt.Errorf("Get says %v, Scan says %v; %s", gets, out, optionsText(&o))
		}
	}
	return out, errors.Join(err, db.Close())
}

// exportFilters asks a bundle of the store's filters for all keys: what it
// denies was not there, at the moment that it is of.
func (w *linWorld) exportFilters(id int) {
	seen := linSeen{client: id, in: linInput{kind: linGet, how: "ExportFilters"}, call: w.clock.Add(1)}
	var file bytes.Buffer
	_, err := w.db.ExportFilters(context.Background(), &file)
	seen.ret = w.clock.Add(1)
	if err == nil {
		var b *bundle.Bundle
		if b, err = bundle.Open(file.Bytes()); err == nil {
			err = b.Err()
		}
		for k := 0; k < len(linKeys) && err == nil; k++ {
			if !b.MayContain([]byte(linKeys[k])) {
				seen.in.keys = append(seen.in.keys, k)
			}
		}
	}
	w.note(seen, err)
}

// meanwhile lets others go on.
func (w *linWorld) meanwhile(id int, r *rand.Rand) {
	for range r.IntN(8) {
		runtime.Gosched()
	}
	if r.IntN(4) == 0 {
		w.get(id, r)
	}
}

// load puts n keys that are no part of the history but make levels.
func (w *linWorld) load(n int) (err error) {
	for ; n > 0 && err == nil; n-- {
		err = w.db.Put(fmt.Appendf(nil, "ballast%02d", rand.IntN(64)), make([]byte, 300))
	}
	return err
}

// disturb does now and then what does not change what the store holds. What it
// makes durable counts.
func (w *linWorld) disturb(id int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(w.epoch)<<32))
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
		w.disturbOnce(id, r)
	}
}

// disturbOnce does one of these things.
func (w *linWorld) disturbOnce(id int, r *rand.Rand) {
	ctx := context.Background()
	sync := func(how string, fn func() error) {
		_ = w.do(id, linInput{kind: linSync, how: how}, func() (out linOutput, err error) { return out, fn() })
	}
	other := func(how string, fn func() error) { // which makes nothing durable that counts
		w.counted(how)
		if err := fn(); err != nil {
			w.note(linSeen{in: linInput{how: how, disk: true}}, err)
		}
	}
	switch r.IntN(10) {
	case 0, 1, 2:
		sync("Flush", func() error { return w.db.Flush(ctx) })
	case 3:
		sync("Sync", w.db.Sync)
	case 4, 5, 6:
		w.compact(r)
	case 7:
		other("Verify", func() error { return w.db.Verify(ctx) })
	case 8:
		if w.opts.FilterBits < 0 {
			return // it would fail
		}
		other("RebuildFilters", func() error {
			_, err := w.db.RebuildFilters(ctx)
			return err
		})
	case 9:
		w.resume(id)
	}
}

// compact compacts a range.
func (w *linWorld) compact(r *rand.Rand) {
	rng := Range{}
	if r.IntN(2) == 0 {
		rng.Lower = []byte(linKeys[r.IntN(len(linKeys))])
	}
	if upper := []byte(linKeys[r.IntN(len(linKeys))]); r.IntN(2) == 0 && bytes.Compare(rng.Lower, upper) < 0 {
		rng.Upper = upper
	}
	w.counted("Compact")
	if err := w.db.Compact(context.Background(), rng); err != nil {
		w.note(linSeen{in: linInput{how: "Compact", disk: true}}, err)
	}
}

// resume has a store go on whose log has failed. Then what it holds is durable,
// and writes that failed are undone; one that works need not do anything.
func (w *linWorld) resume(id int) {
	failed := w.db.Err() != nil
	seen := linSeen{client: id, in: linInput{kind: linSync, how: "Resume"}, call: w.clock.Add(1)}
	err := w.db.Resume()
	seen.ret = w.clock.Add(1)
	switch {
	case err != nil || failed:
		w.note(seen, err)
	default:
		w.counted("Resume")
	}
	if err == nil && failed {
		w.resumed.Store(true)
	}
}

// counted counts what is no part of the history.
func (w *linWorld) counted(how string) {
	w.mu.Lock()
	w.figures.kinds[how]++
	w.mu.Unlock()
}
