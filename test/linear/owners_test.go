package linear

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// This file has a second test of clients that use a store at the same time. Each key has one
// owner, which alone writes it. So an owner knows what each of its reads has to answer, and no
// order has to be looked for: a wrong answer is seen at once, in the state that gave it. The
// histories of TestLinear say more, about several keys and several writers of one. But it takes
// them a hundred times as long.

// An owner is a client with a key of its own.
type owner struct {
	*world
	r     *rand.Rand
	key   []byte
	value []byte // that the key has; nil: it is absent
	n     int    // of the last write
	log   []owned
	done  []string
	seen  map[string]int // the newest value that it has seen of the keys of others

	// A snapshot and an iterator that it keeps for a while, and what they have of the key.
	snapshot      *shale.Snapshot
	snapshotValue []byte
	iterator      *shale.Iterator
	iteratorValue []byte

	follower *shale.DB // a read-only handle next to the store, which it keeps for a while, too
	few      bool      // the follower has few files open
}

// An owned is a value that the key got, and when.
type owned struct {
	call, ret int64
	value     []byte
	gone      int64 // when it was certainly undone, because the gate has refused it; 0: it was not
}

// A wrong is a wrong answer. It stays one if the store is closed just then.
type wrong struct{ text string }

func (e *wrong) Error() string { return e.text }

// ownedText returns the n-th value of a key.
func (o *owner) ownedText(n int) []byte {
	v := fmt.Sprintf("%06d of %q ", n, o.key)
	if o.r.IntN(4) == 0 {
		v += strings.Repeat("v", 1<<o.r.IntN(12))
	}
	return []byte(v)
}

// ownedNum returns the n of ownedText.
func ownedNum(value []byte) (n int) {
	_, _ = fmt.Sscanf(string(value), "%06d", &n)
	return n
}

// is returns an error unless value, or its absence, is what it should be.
func (o *owner) is(how string, value []byte, err error, want []byte) error {
	if errors.Is(err, shale.ErrNotFound) {
		value, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	if (value == nil) != (want == nil) || !bytes.Equal(value, want) {
		return &wrong{fmt.Sprintf("%s of %q = %.60q, want %.60q", how, o.key, value, want)}
	}
	return nil
}

// wrote notes that the key has a new value.
func (o *owner) wrote(value []byte, err error) error {
	if err == nil || harness.IsRefusal(err) {
		o.value = value
	}
	return err
}

// write does one of the operations that write, and notes when it did.
func (o *owner) write() error {
	call, was := o.clock.Add(1), o.value
	err := o.writeOnce()
	if harness.IsRefusal(err) && !errors.Is(err, shale.ErrIngested) {
		// What was refused may be there if the store ends before it has resumed.
		refused := o.value
		o.value = was
		gone := int64(math.MaxInt64)
		if err = o.goOn(); err == nil {
			gone = o.clock.Add(1)
		}
		o.log = append(o.log, owned{call, math.MaxInt64, refused, gone})
		return err
	}
	if err == nil || harness.IsRefusal(err) {
		o.log = append(o.log, owned{call: call, ret: o.clock.Add(1), value: o.value})
	}
	if harness.IsRefusal(err) { // an ingestion, which is there; the store may be closed before it goes on
		err = o.goOn()
	}
	return err
}

// goOn has a store go on whose gate has refused a write, and refuse another one later.
func (w *world) goOn() error {
	w.refused.Add(1)
	err := w.db.Resume()
	w.refuseLater(rand.New(rand.NewPCG(w.seed, uint64(w.clock.Load()))))
	return err
}

// refuseLater has the gate refuse a write, if the store has one.
func (w *world) refuseLater(r *rand.Rand) { w.gate.Refuse(1+r.Int64N(40), harness.DrawRefusal(r)) }

func (o *owner) writeOnce() error {
	o.n++
	value := o.ownedText(o.n)
	const far = 100_000 * time.Hour // no test takes as long
	switch o.r.IntN(10) {
	case 0, 1:
		o.did("put %d", o.n)
		return o.wrote(value, o.db.Put(o.key, value))
	case 2:
		o.did("delete")
		return o.wrote(nil, o.db.Delete(o.key))
	case 3:
		o.did("deleteRange")
		return o.wrote(nil, o.db.DeleteRange(o.key, append(slices.Clone(o.key), 0)))
	case 8:
		o.did("putTTL %d", o.n)
		return o.wrote(value, o.db.PutTTL(o.key, value, far))
	case 9:
		o.did("putTTL %d, gone at once", o.n)
		return o.wrote(nil, o.db.PutTTL(o.key, value, time.Duration(-o.r.IntN(2))))
	case 4:
		o.did("putIfAbsent %d", o.n)
		put := o.db.PutIfAbsent
		if o.r.IntN(2) == 0 {
			put = func(key, value []byte) (bool, error) { return o.db.PutIfAbsentTTL(key, value, far) }
		}
		inserted, err := put(o.key, value)
		if harness.IsRefusal(err) {
			return o.wrote(value, err)
		}
		if err == nil && inserted != (o.value == nil) {
			return &wrong{fmt.Sprintf("PutIfAbsent(%q) = %v, it was %.60q", o.key, inserted, o.value)}
		}
		if inserted {
			return o.wrote(value, err)
		}
		return err
	case 5:
		o.did("ingest %d", o.n)
		return o.wrote(value, o.db.Ingest(context.Background(), o.sorted(value)))
	default:
		var b shale.Batch
		last := value
		ops := 1 + o.r.IntN(3)
		var err error
		for range ops {
			switch o.r.IntN(4) {
			case 0:
				last = nil
				err = errors.Join(err, b.Delete(o.key))
			case 1:
				last = nil
				err = errors.Join(err, b.DeleteRange(o.key, append(slices.Clone(o.key), 0)))
			case 2:
				last = value
				err = errors.Join(err, b.Put(o.key, value))
			case 3:
				last = value
				err = errors.Join(err, b.PutTTL(o.key, value, far))
			}
		}
		if o.r.IntN(2) == 0 {
			b.SetDurability([]shale.Durability{shale.SyncEach, shale.SyncPeriodic, shale.SyncManual}[o.r.IntN(3)])
		}
		o.did("batch of %d, present afterwards: %v, %d", ops, last != nil, o.n)
		return o.wrote(last, cmp.Or(err, o.db.Write(context.Background(), &b)))
	}
}

// sorted yields the key with its new value among a part of the ballast.
func (o *owner) sorted(value []byte) iter.Seq2[[]byte, []byte] {
	entries := []harness.Entry{{Key: string(o.key), Value: string(value)}}
	for _, e := range ballast.Entries() {
		if o.r.IntN(4) == 0 {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b harness.Entry) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(k, v []byte) bool) {
		for _, e := range entries {
			if !yield([]byte(e.Key), []byte(e.Value)) {
				return
			}
		}
	}
}

// scanned returns the value that an iterator over r has of the key, and the error of the iterator. It
// looks at the keys of others too: their values are never older than those that were seen before.
func (o *owner) scanned(db shale.Reader, r shale.Range) (value []byte, err error) {
	for e, err := range db.Scan(r) {
		if err != nil {
			return nil, err
		}
		if bytes.Equal(e.Key, o.key) {
			value = slices.Clone(e.Value)
		}
		if _, is := ballast.Get(string(e.Key)); !is && !bytes.Equal(e.Key, o.key) {
			if err := o.other(string(e.Key), e.Value); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// other looks at the value of another owner's key.
func (o *owner) other(key string, value []byte) error {
	n := ownedNum(value)
	if n < o.seen[key] {
		return &wrong{fmt.Sprintf("%q has value %d, and had %d before", key, n, o.seen[key])}
	}
	o.seen[key] = n
	return nil
}

// point reads the key from a reader in one of the ways that look for one key.
func (o *owner) point(db shale.Reader, how string, want []byte) error {
	switch o.r.IntN(5) {
	case 4:
		_, err := db.ExpiresAt(o.key)
		if err == nil && want == nil || errors.Is(err, shale.ErrNotFound) && want != nil {
			return &wrong{fmt.Sprintf("%sExpiresAt(%q): %v, want %.60q", how, o.key, err, want)}
		}
		return o.is(how+"ExpiresAt", want, err, want) // another error may be that of a store that is closed meanwhile
	case 0:
		value, err := db.Get(o.key)
		return o.is(how+"Get", value, err, want)
	case 1:
		has, err := db.Has(o.key)
		if err == nil && has != (want != nil) {
			return &wrong{fmt.Sprintf("%sHas(%q) = %v, want %.60q", how, o.key, has, want)}
		}
		return err
	case 2:
		value, err := db.AppendValue([]byte{}, o.key)
		return o.is(how+"AppendValue", value, err, want)
	default:
		var value []byte
		err := db.ViewValue(o.key, func(v []byte) error {
			value = append([]byte{}, v...)
			return nil
		})
		return o.is(how+"ViewValue", value, err, want)
	}
}

// sought reads the key with an iterator.
func (o *owner) sought(it *shale.Iterator, how string, want []byte) error {
	var value []byte
	seek := map[string]func() bool{
		"SeekGE": func() bool { return it.SeekGE(o.key) },
		"SeekLT": func() bool { return it.SeekLT(append(slices.Clone(o.key), 0)) },
		"First": func() bool {
			ok := it.First()
			for ok && bytes.Compare(it.Key(), o.key) < 0 {
				ok = it.Next()
			}
			return ok
		},
		"Last": func() bool {
			ok := it.Last()
			for ok && bytes.Compare(it.Key(), o.key) > 0 {
				ok = it.Prev()
			}
			return ok
		},
	}
	names := []string{"SeekGE", "SeekLT", "First", "Last"}
	name := names[o.r.IntN(len(names))]
	if seek[name]() && bytes.Equal(it.Key(), o.key) {
		value = append([]byte{}, it.Value()...)
	}
	return o.is(how+name, value, it.Err(), want)
}

// read does one of the operations that read.
func (o *owner) read() error {
	how := o.r.IntN(13)
	o.did("read %d", how)
	switch how {
	case 0:
		it := o.db.NewIterator(shale.Range{})
		err := o.sought(it, "NewIterator.", o.value)
		return errors.Join(err, it.Close())
	case 1:
		value, err := o.scanned(o.db, shale.Range{Reverse: o.r.IntN(2) == 0})
		return o.is("Scan", value, err, o.value)
	case 2:
		r := shale.Range{Lower: o.key, Upper: append(slices.Clone(o.key), 0), Reverse: o.r.IntN(2) == 0}
		value, err := o.scanned(o.db, r)
		return o.is("Scan of the key", value, err, o.value)
	case 3:
		return o.many()
	case 4:
		x, err := o.db.Inspect().Explain(o.key)
		if !x.Found {
			x.Value = nil
		}
		return o.is("Explain", x.Value, err, o.value)
	case 5:
		if o.value != nil && !o.db.MayContain(o.key) {
			return &wrong{fmt.Sprintf("MayContain(%q) = false", o.key)}
		}
		return nil
	case 6:
		return o.keep()
	case 7:
		return o.checkpoint()
	case 8:
		return o.follow()
	default:
		return o.point(o.db, "", o.value)
	}
}

// many reads the key with GetMany, among the keys of others.
func (o *owner) many() error {
	asked := [][]byte{o.key, o.key}
	for _, key := range keys {
		asked = append(asked, []byte(key))
	}
	o.r.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	return o.db.GetMany(asked, func(i int, value []byte, found bool) error {
		if !found {
			value = nil
		}
		if bytes.Equal(asked[i], o.key) {
			return o.is("GetMany", value, nil, o.value)
		}
		if found {
			return o.other(string(asked[i]), value)
		}
		return nil
	})
}

// keep reads a snapshot and an iterator that were opened before, closes them now and then, and opens
// others.
func (o *owner) keep() (err error) {
	if o.snapshot == nil {
		o.snapshotValue = o.value
		if o.snapshot, err = o.db.Snapshot(); err != nil {
			return err
		}
	}
	if o.iterator == nil {
		o.iteratorValue = o.value
		o.iterator = o.db.NewIterator(shale.Range{})
	}
	switch o.r.IntN(3) {
	case 0:
		err = o.point(o.snapshot, "Snapshot.", o.snapshotValue)
	case 1:
		it := o.snapshot.NewIterator(shale.Range{})
		err = errors.Join(o.sought(it, "Snapshot.NewIterator.", o.snapshotValue), it.Close())
	default:
		err = o.sought(o.iterator, "an old iterator's ", o.iteratorValue)
	}
	if o.r.IntN(3) == 0 {
		err = errors.Join(err, o.letGo())
	}
	return err
}

// letGo closes what keep and follow have opened.
func (o *owner) letGo() (err error) {
	if o.follower != nil {
		err = o.follower.Close()
		o.follower = nil
	}
	if o.snapshot != nil {
		err = errors.Join(err, o.snapshot.Close())
	}
	if o.iterator != nil {
		err = errors.Join(err, o.iterator.Close())
	}
	o.snapshot, o.iterator = nil, nil
	return err
}

// checkpoint makes a checkpoint and looks into it.
func (o *owner) checkpoint() error {
	dir := fmt.Sprintf("copy%d", o.clock.Add(1))
	if err := o.db.Checkpoint(dir); harness.IsRefusal(err) {
		return nil // the write of another owner was refused, who has the store go on soon
	} else if err != nil {
		return err
	}
	opts := harness.Draw(o.r, o.faults)
	opts.Exist, opts.ReadOnly = shale.MustExist, o.r.IntN(2) == 0
	db, err := shale.Open(dir, &opts)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	what := "checkpoint, " + harness.OptionsText(&opts) + ": "
	value, err := db.Get(o.key)
	if err = o.is(what+"Get", value, err, o.value); err == nil {
		var s harness.State
		if s, err = harness.Read(db); err == nil {
			v, ok := s.Get(string(o.key))
			if value = nil; ok {
				value = []byte(v)
			}
			err = o.is(what+"Scan", value, nil, o.value)
		}
	}
	if err != nil {
		x, _ := db.Inspect().Explain(o.key)
		err = fmt.Errorf("%w\n%s%s", err, x, tablesText(db))
	}
	return errors.Join(err, db.Close())
}

func tablesText(db *shale.DB) string {
	var b strings.Builder
	for _, t := range db.Inspect().Tables() {
		fmt.Fprintf(&b, "\n%+v", t)
	}
	return b.String()
}

func (o *owner) did(format string, args ...any) {
	o.done = append(o.done, fmt.Sprintf("%d: ", o.clock.Add(1))+fmt.Sprintf(format, args...))
}

// work does n operations.
func (o *owner) work(n int) error {
	for range n {
		if o.ended.Load() {
			break
		}
		do := o.read
		if o.r.IntN(3) == 0 {
			do = o.write
		}
		err := do()
		if wrong := (*wrong)(nil); errors.Is(err, shale.ErrClosed) && o.closing.Load() && !errors.As(err, &wrong) {
			break // what was not done leaves no trace
		}
		if err != nil {
			return o.explained(err)
		}
		if o.untilClose.Add(-1) == 0 {
			o.closer.Go(o.closeInUse)
		}
	}
	if err := o.letGo(); err != nil && !o.closing.Load() {
		return err
	}
	return nil
}

// explained adds to an error what the store says now, which may tell why, and what was done before.
func (o *owner) explained(err error) error {
	x, _ := o.db.Inspect().Explain(o.key)
	last := o.done[max(0, len(o.done)-40):]
	return fmt.Errorf("at %d: %w\nNow:\n%s%s\nThe owner's operations:\n%s", o.clock.Add(1), err, x, tablesText(o.db), strings.Join(last, "\n"))
}

// found looks for the key after the store was opened again. Its process ended between the times
// given: of the writes that were under way then, the last ones may be missing.
func (o *owner) found(before, after int64) error {
	value, err := o.db.Get(o.key)
	if errors.Is(err, shale.ErrNotFound) {
		value, err = nil, nil
	}
	if err != nil {
		return o.explained(err)
	}
	o.did("opened again")
	var last []byte
	var possible [][]byte
	for _, w := range o.log {
		switch {
		case w.gone > 0 && w.gone < before:
		case w.ret < before:
			last, possible = w.value, nil
		case w.call < after:
			possible = append(possible, w.value)
		}
	}
	for _, want := range append(possible, last) {
		if o.is("Get", value, nil, want) == nil {
			o.value, o.log = want, []owned{{value: want}}
			return nil
		}
	}
	return o.explained(&wrong{fmt.Sprintf("opened again, %q = %.60q, want %.60q or one of %.60q; the process ended in [%d, %d]", o.key, value, last, possible, before, after)})
}

// owners has the owners of all keys use a store at the same time, next to upkeep. Between the epochs of
// its life the store is closed while it is used, or its process dies.
func (w *world) owners(epochs, n int) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<62))
	w.disk(w.mem)
	if err := w.open(r); err != nil {
		return err
	}
	if err := w.load(40); err != nil {
		return err
	}
	var owners []*owner
	for i, key := range keys {
		owners = append(owners, &owner{world: w, r: rand.New(rand.NewPCG(w.seed, uint64(i))), key: []byte(key), seen: make(map[string]int)})
	}
	for ; ; epochs-- {
		var dying *cut
		switch {
		case epochs <= 1:
		case r.IntN(2) == 0:
			w.untilClose.Store(1 + r.Int64N(int64(len(keys)*n)))
		default:
			dying = &cut{w: w, config: harness.KeepAll}
			dying.left.Store(1 + r.Int64N(int64(40*len(keys)*n)))
			dying.arm()
		}
		// With few clients the memtable is often empty, which it never is with many.
		r.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
		notes, err := w.ownersEpoch(owners[:1+r.IntN(len(owners))], 1+r.IntN(2), n)
		w.untilClose.Store(0)
		if dying != nil {
			dying.now()
			w.mem.OnOp(nil)
		}
		w.gate.Pass()
		if closed := w.closeStore(); !harness.IsRefusal(closed) {
			err = errors.Join(err, closed)
		}
		if err != nil || epochs <= 1 {
			return noted(err, notes)
		}
		before, after := w.clock.Add(1), w.clock.Add(1)
		mem := w.mem
		if dying != nil {
			before, after, mem = dying.before, dying.after, dying.mem
		}
		w.disk(mem)
		err = w.open(r)
		for _, o := range owners {
			if err == nil {
				err = o.found(before, after)
			}
			clear(o.seen) // a value that somebody has seen may be missing
		}
		if err != nil {
			return noted(errors.Join(err, w.closeStore()), notes)
		}
	}
}

// noted adds the notes of an epoch to an error.
func noted(err error, notes []string) error {
	if err != nil {
		err = fmt.Errorf("%w\nUpkeep:\n%s", err, strings.Join(notes, "\n"))
	}
	return err
}

// ownersEpoch has the owners use the store until they are done or it ends, while goroutines of upkeep,
// keepers of them, are at work. It returns what these did last.
func (w *world) ownersEpoch(owners []*owner, keepers, n int) (notes []string, err error) {
	var working, others sync.WaitGroup
	var mu sync.Mutex // guards notes and err
	fail := func(e error) {
		if e != nil {
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			w.ended.Store(true)
		}
	}
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if notes = append(notes, text); len(notes) > 60 {
			notes = notes[20:]
		}
	}
	w.ended.Store(false)
	w.refuseLater(rand.New(rand.NewPCG(w.seed, uint64(w.clock.Load()))))
	for _, o := range owners {
		working.Go(func() { fail(o.work(n)) })
	}
	for i := range keepers {
		source := harness.NewSource(keys)
		source.Rand, source.Exact = rand.New(rand.NewPCG(w.seed, uint64(100+i)+uint64(w.clock.Load())<<8)), true
		others.Go(func() {
			for !w.ended.Load() {
				begin, step := w.clock.Add(1), source.Draw(upkeep)
				real := harness.NewReal(w.db)
				answer := step.Do(&harness.Side{Store: real})
				if source.IntN(8) == 0 {
					real.Err = cmp.Or(real.Err, w.load(1+source.IntN(8)))
				}
				if errors.Is(real.Err, shale.ErrClosed) && w.closing.Load() {
					return
				}
				note(fmt.Sprintf("[%d, %d] %s = %s", begin, w.clock.Add(1), step, answer))
				if harness.IsRefusal(real.Err) {
					real.Err = w.goOn()
				}
				if real.Err != nil && !w.closing.Load() {
					fail(fmt.Errorf("%s: %w", step, real.Err))
				}
				time.Sleep(time.Duration(source.IntN(2000)) * time.Microsecond)
			}
		})
	}
	working.Wait()
	w.ended.Store(true)
	others.Wait()
	w.closer.Wait()
	return notes, err
}

// The owner of a key finds in it what it has written, in whatever way it asks, while others write other
// keys and the store is flushed, compacted, closed and opened again.
func TestOwners(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	lives := uint64(8)
	if testing.Short() || testenv.Race {
		lives = 2
	}
	begin := time.Now()
	done, refused := 0, int64(0)
	for i := uint64(0); i < lives || time.Since(begin) < long; i++ {
		w := newWorld(seed + i)
		testenv.Within(t, time.Minute, "a life", func() {
			if err := w.owners(12, 30); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed+i, err, strings.Join(w.drawn, "\nthen "))
			}
		})
		done++
		refused += w.refused.Load()
	}
	t.Logf("%d lives, %d groups refused, in %v", done, refused, time.Since(begin).Round(time.Millisecond))
}
