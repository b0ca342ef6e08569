package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// openPlain opens a store as a program that attaches it does.
func openPlain(t testing.TB, fsys vfs.FS) *shale.DB {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{
		FS: fsys, MemtableSize: 64 << 10, CompactionWorkers: -1, Durability: shale.SyncManual, OnEvent: func(shale.Event) {}, Shipping: shale.ShippingOptions{HoldLogs: LogsToHold(fsys, "db")},
	})
	mustNil(t, err)
	return db
}

// fill writes n keys with a prefix.
func fill(t testing.TB, db *shale.DB, model map[string]string, prefix string, n int) {
	t.Helper()
	for i := range n {
		key, value := fmt.Sprintf("%s%04d", prefix, i), fmt.Sprintf("%s%04d, number %d", prefix, i, len(model))
		mustNil(t, db.Put([]byte(key), []byte(value)))
		model[key] = value
	}
}

// TestAttach attaches an open store that has tables and a memtable, or nothing, and does so again after Close, with and
// without another Open of the store in between.
func TestAttach(t *testing.T) {
	for _, before := range []int{0, 1, 3000} {
		mem, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		db := openPlain(t, mem)
		fill(t, db, model, "before", before)
		for round := range 4 {
			if round == 2 {
				mustNil(t, db.Close())
				db = openPlain(t, mem)
			}
			s, err := Attach(t.Context(), db, "db", b, manual(mem))
			mustNil(t, err)
			fill(t, db, model, fmt.Sprint("attached", round), 300)
			if lag := s.Lag(); lag.Seq <= lag.Shipped || lag.Time <= 0 || lag.Bytes <= 0 {
				t.Errorf("lag before anything is shipped: %+v", lag)
			}
			mustNil(t, s.Ship(t.Context()))
			if lag := s.Lag(); lag.Seq != lag.Shipped || lag.Time != 0 {
				t.Errorf("lag after Ship: %+v", lag)
			}
			if round%2 == 0 {
				mustNil(t, s.Publish(t.Context()))
			}
			sameMap(t, fmt.Sprintf("%d keys before, round %d", before, round), restoredContents(t, b), model)
			mustNil(t, s.Close())
			fill(t, db, model, fmt.Sprint("between", round), 200)
		}
		if num := shale.ShippingOf(db).Position().Log; num < 4<<object.EpochShift {
			t.Errorf("the log has number %x, below those of epoch 4", num)
		}
		mustNil(t, db.Close())
	}
}

// TestAttach_Fenced has another program take over the bucket, or remove the newest step. The backup ends and the store does
// not; it can be attached to another bucket.
func TestAttach_Fenced(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, b Bucket, s *Store){
		"another writer": func(t *testing.T, b Bucket, s *Store) {
			c, err := chain.Claim(t.Context(), b, chain.Claimant{StoreID: s.id, Writer: 99, Now: modelNow, Note: func(*object.Step, uint64) error { return nil }})
			mustNil(t, err)
			_, err = c.Fence(t.Context(), b, object.Position{})
			mustNil(t, err)
		},
		"a step that is removed": func(t *testing.T, b Bucket, s *Store) {
			mustNil(t, b.Delete(t.Context(), object.StepName(s.Status().Step)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem, b, model, events := vfs.NewMem(), NewMem(), map[string]string{}, new(eventList)
			db := openPlain(t, mem)
			defer db.Close()
			o := manual(mem)
			o.OnEvent = events.add
			s, err := Attach(t.Context(), db, "db", b, o)
			mustNil(t, err)
			fill(t, db, model, "a", 3000)
			mustNil(t, s.Publish(t.Context()))
			take(t, b, s)
			fill(t, db, model, "b", 3000)
			for range 3 {
				err = errors.Join(s.Ship(t.Context()), s.Publish(t.Context()))
			}
			if name == "another writer" && (!errors.Is(err, ErrFenced) || !errors.Is(s.Err(), ErrFenced) || len(events.kinds()) == 0) {
				t.Fatalf("Ship and Publish = %v, Err = %v, events %v", err, s.Err(), events.kinds())
			}
			fill(t, db, model, "c", 3000) // writes go on
			mustNil(t, s.Close())
			if kept := shale.ShippingOf(db).HeldLogBytes(); s.Err() != nil && kept > 0 {
				t.Errorf("%d bytes of logs are still kept", kept)
			}
			other := NewMem()
			s, err = Attach(t.Context(), db, "db", other, manual(mem))
			mustNil(t, err)
			fill(t, db, model, "d", 10)
			mustNil(t, s.Publish(t.Context()))
			sameMap(t, "the other bucket", restoredContents(t, other), model)
			mustNil(t, s.Close())
		})
	}
}

// TestAttach_Refuses checks what Attach can't do.
func TestAttach_Refuses(t *testing.T) {
	db := openPlain(t, vfs.NewMem())
	defer db.Close()
	for _, o := range []*Options{{Strict: true}, {MaxLag: 1}} {
		if _, err := Attach(t.Context(), db, "db", NewMem(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestAttach_RandomLives lets an attached store, or one that Open has opened, live with a bucket that is away now and then,
// loses answers, and gets more logs than may wait for it, through crashes and attempts that end in the midst. The store
// never fails. Whenever the bucket has all, a restore has all; and at any time what is restored is some state the store had.
func TestAttach_RandomLives(t *testing.T) {
	for seed := range lives(t, 40) {
		for _, attached := range []bool{true, false} {
			randomLife(t, seed, attached)
			if t.Failed() {
				t.Fatalf("seed %d, attached %v", seed, attached)
			}
		}
	}
}

// A waiting life is one of TestAttach_RandomLives.
type waitingLife struct {
	t        *testing.T
	rng      *rand.Rand
	mem      *vfs.Mem
	b        *remotetest.Fake
	attached bool
	db       *shale.DB
	s        *Store // nil: not attached
	states   []map[string]string
	buckets  int
	letGo    atomic.Int64
	history  []string
	complete bool // the bucket has been restored
}

func randomLife(t *testing.T, seed uint64, attached bool) {
	l := &waitingLife{t: t, rng: rand.New(rand.NewPCG(seed, 11)), mem: vfs.NewMem(), b: remotetest.NewFake(NewMem()), attached: attached, states: []map[string]string{{}}}
	defer func() {
		if t.Failed() {
			t.Logf("%q", l.history)
		}
	}()
	for range 60 {
		l.step()
	}
	l.b.Hook(nil, nil)
	l.begin()
	if l.s == nil {
		t.Fatal("the bucket does all, and the store could not be attached")
	}
	mustNil(t, l.s.Publish(t.Context()))
	sameMap(t, "at the end", restoredContents(t, l.b.Bucket), l.states[len(l.states)-1])
	mustNil(t, l.s.Close())
	if attached {
		mustNil(t, l.db.Close())
	}
	t.Logf("seed %d: %d buckets, let go %d times", seed, l.buckets+1, l.letGo.Load())
}

// begin attaches or opens the store, if it is not.
func (l *waitingLife) begin() {
	l.t.Helper()
	if l.s != nil {
		return
	}
	o := manual(l.mem)
	o.MaxKept = 20 << 10
	o.OnEvent = func(e Event) {
		if e.Kind == EventLetGo {
			l.letGo.Add(1)
		}
	}
	var err error
	if !l.attached {
		if l.s, err = Open(l.t.Context(), "db", l.b, o); err == nil {
			l.db = l.s.DB()
		}
	} else {
		if l.db == nil {
			l.db = openPlain(l.t, l.mem)
		}
		l.s, err = Attach(l.t.Context(), l.db, "db", l.b, o)
	}
	if errors.Is(err, ErrFenced) && l.attached { // as after a crash while logs were let go
		l.b, l.buckets, l.complete = remotetest.NewFake(NewMem()), l.buckets+1, false
		l.begin()
		return
	}
	if err != nil {
		l.s = nil
		if errors.Is(err, ErrFenced) {
			l.t.Fatal(err)
		}
	}
}

// say notes what was done.
func (l *waitingLife) say(what ...any) { l.history = append(l.history, fmt.Sprint(what...)) }

func (l *waitingLife) step() {
	l.t.Helper()
	ctx := context.Background()
	switch x := l.rng.IntN(20); {
	case x < 4:
		l.begin()
		l.say("begin", l.s != nil)
	case x < 10 && l.db != nil:
		for range 1 + l.rng.IntN(8) {
			now, b := maps.Clone(l.states[len(l.states)-1]), new(shale.Batch)
			for range 1 + l.rng.IntN(100) {
				k := fmt.Sprintf("k%03d", l.rng.IntN(200))
				now[k] = fmt.Sprintf("%d-%d", len(l.states), l.rng.Uint64()) + strings.Repeat("-", l.rng.IntN(800))
				mustNil(l.t, b.Put([]byte(k), []byte(now[k])))
			}
			mustNil(l.t, l.db.Write(ctx, b))
			l.states = append(l.states, now)
		}
		l.say("write", len(l.states))
	case x < 11 && l.db != nil:
		mustNil(l.t, l.db.Flush(ctx))
		l.say("flush")
	case x < 13 && l.s != nil:
		l.say("ship", l.s.Ship(ctx)) // the bucket may be away
		mustNil(l.t, l.s.letGo())
	case x < 15 && l.s != nil:
		l.say("publish", l.s.Publish(ctx))
		l.restore()
	case x < 16 && l.s != nil: // ends, and may not have shipped all
		l.say("close", l.s.Close())
		l.s = nil
		if !l.attached {
			l.db = nil
		}
	case x < 17 && l.db != nil: // crashes; only what was synced is sure to survive
		l.say("crash", l.db.Sync())
		mem := l.mem.Crash(vfs.CrashConfig{})
		l.trouble(0) // what is dead does not reach the bucket
		if l.s != nil {
			_ = l.s.Close()
		}
		_ = l.db.Close()
		l.s, l.db, l.mem = nil, nil, mem
		l.b.Hook(nil, nil)
	case x < 18:
		l.b.Hook(nil, nil)
		l.say("bucket back")
	default:
		// A lost answer to the claim of an Open that then fails may look like another writer's.
		l.trouble(l.rng.IntN(map[bool]int{true: 3, false: 2}[l.attached]))
	}
}

// restore restores what the bucket has, if that is possible, and checks that the store was like that once.
func (l *waitingLife) restore() {
	l.t.Helper()
	fsys := vfs.NewMem()
	if _, err := Restore(context.Background(), l.b.Bucket, "db", At{}, &RestoreOptions{FS: fsys}); err != nil {
		if !errors.As(err, new(*PointError)) || errors.As(err, new(*shale.CorruptionError)) || l.complete {
			l.t.Fatal(err)
		}
		return // the first step waits for tables
	}
	got := contentsOf(l.t, fsys, "db")
	l.complete = l.complete || len(got) > 0
	if !slices.ContainsFunc(l.states, func(state map[string]string) bool { return maps.Equal(got, state) }) {
		l.t.Errorf("%d keys were restored that the store never had together", len(got))
	}
}

// trouble makes the bucket fail: all calls, PUTs before or after they have worked, now and then.
func (l *waitingLife) trouble(kind int) {
	seed, calls := l.rng.Uint64(), new(atomic.Uint64)
	l.say("trouble", kind)
	fails := func(call, _ string) error {
		if kind == 0 || call == "put" && rand.New(rand.NewPCG(seed, calls.Add(1))).IntN(3) == 0 {
			return remotetest.Refusal{Err: errors.New("503")}
		}
		return nil
	}
	if kind < 2 {
		l.b.Hook(fails, nil)
	} else {
		l.b.Hook(nil, fails)
	}
}

// TestStore_LetsGoUnderWay lets logs go while the answer to a PUT of a segment is lost. The directory goes on after a crash:
// what is let go is not looked for.
func TestStore_LetsGoUnderWay(t *testing.T) {
	for _, attached := range []bool{false, true} {
		l := &waitingLife{t: t, mem: vfs.NewMem(), b: remotetest.NewFake(NewMem()), attached: attached, states: []map[string]string{{}}}
		model := map[string]string{}
		l.begin()
		fill(t, l.db, model, "a", 100)
		mustNil(t, l.s.Publish(t.Context()))
		fill(t, l.db, model, "b", 100)
		mustNil(t, l.db.Sync())
		l.b.Hook(nil, func(call, _ string) error {
			if call == "put" {
				return remotetest.Refusal{Err: errors.New("the answer is lost")}
			}
			return nil
		})
		if err := l.s.Ship(t.Context()); err == nil {
			t.Fatal("Ship succeeded")
		}
		l.b.Refuse("", "")
		fill(t, l.db, model, "c", 5000)
		mustNil(t, l.db.Flush(t.Context()))
		mustNil(t, l.s.letGo())
		mem := l.mem.Crash(vfs.CrashConfig{})
		_ = l.s.Close() // the bucket is away
		_ = l.db.Close()
		l.s, l.db, l.mem = nil, nil, mem
		l.b.Hook(nil, nil)
		l.begin()
		if l.s == nil || l.buckets > 0 || l.letGo.Load() == 0 {
			t.Fatalf("attached %v: not opened, or in another bucket; let go %d times", attached, l.letGo.Load())
		}
		mustNil(t, l.s.Publish(t.Context()))
		sameMap(t, "at the end", restoredContents(t, l.b.Bucket), model)
		mustNil(t, l.s.Close())
	}
}

// TestStore_LetsGoFlushedOnly lets logs go while a flush fails. The log of the memtable that waits for it stays: with the
// bucket back, Publish is complete although the memtable is in no table yet.
func TestStore_LetsGoFlushedOnly(t *testing.T) {
	mem, b, model := faultfs.New(vfs.NewMem(), nil), remotetest.NewFake(NewMem()), map[string]string{}
	o := manual(mem)
	s := openStore(t, "db", b, o)
	fill(t, s.DB(), model, "a", 10)
	mustNil(t, s.Publish(t.Context()))
	b.Refuse("", "")
	fill(t, s.DB(), model, "b", 3000)
	mustNil(t, s.DB().Flush(t.Context()))
	mem.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpCreate && strings.HasSuffix(name, ".sst") {
			return errors.New("no table now")
		}
		return nil
	})
	log := shale.ShippingOf(s.DB()).Position().Log
	for i := 0; shale.ShippingOf(s.DB()).Position().Log == log; i++ { // a memtable waits
		fill(t, s.DB(), model, fmt.Sprint("c", i), 1)
	}
	if s.DB().Metrics().MemtableEntries < 50 {
		t.Fatal("no memtable waits")
	}
	s.opts.MaxKept = 20 << 10
	mustNil(t, s.letGo())
	if n := shale.ShippingOf(s.DB()).HeldLogBytes(); n > 0 {
		t.Errorf("%d bytes of logs are kept whose writes are in tables", n)
	}
	b.Hook(nil, nil)
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "after Publish", restoredContents(t, b.Bucket), model)
	mem.Inject(nil)
}

// TestAttach_LetsGoWhileAway starts a store again whose bucket is away, after a crash. Attach fails, and lets logs go of which
// the bucket has a part that was not noted. It says so, and with the bucket back it goes on there.
func TestAttach_LetsGoWhileAway(t *testing.T) {
	mem, b, model, events := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}, new(eventList)
	db := openPlain(t, mem)
	s, err := Attach(t.Context(), db, "db", b, manual(mem))
	mustNil(t, err)
	fill(t, db, model, "a", 100)
	mustNil(t, s.Ship(t.Context())) // a part of a log
	crashed := mem.Crash(vfs.CrashConfig{})
	b.Refuse("", "")
	_ = s.Close() // the bucket is away
	mustNil(t, db.Close())

	db = openPlain(t, crashed)
	defer db.Close()
	o := manual(crashed)
	o.MaxKept, o.OnEvent = 20<<10, events.add
	for i := range 3 {
		fill(t, db, model, fmt.Sprint("away", i), 3000)
		mustNil(t, db.Flush(t.Context()))
		if _, err := Attach(t.Context(), db, "db", b, o); err == nil {
			t.Fatal("the bucket is away, and the store was attached")
		}
		if kept := shale.ShippingOf(db).HeldLogBytes(); kept > 0 {
			t.Errorf("%d bytes of logs are still kept", kept)
		}
		if n := len(events.kinds()); n != i+1 || events.kinds()[i] != EventLetGo {
			t.Errorf("events %v after %d attempts", events.kinds(), i+1)
		}
	}
	b.Hook(nil, nil)
	s, err = Attach(t.Context(), db, "db", b, o)
	mustNil(t, err)
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "the bucket", restoredContents(t, b), model)
	mustNil(t, s.Close())
}

// TestStore_LetsGoAndEndsTwice lets logs go while the PUT of a segment is on its way. The next Open ends too, when it has
// claimed the store, and the PUT arrives after that. The directory is not taken for a copy that lacks these writes.
func TestStore_LetsGoAndEndsTwice(t *testing.T) {
	mem, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	s := openStore(t, "db", b, manual(mem))
	fill(t, s.DB(), model, "a", 100)
	mustNil(t, s.Publish(t.Context()))
	fill(t, s.DB(), model, "b", 100)
	b.Refuse("put", object.SegmentFolder) // these requests are late
	if err := s.Ship(t.Context()); err == nil || s.ship.pending == nil {
		t.Fatalf("Ship: %v", err)
	}
	late := s.ship.pending
	src, err := late.Encode(nil)
	mustNil(t, err)
	fill(t, s.DB(), model, "c", 5000)
	mustNil(t, s.DB().Flush(t.Context()))
	s.opts.MaxKept = 20 << 10
	mustNil(t, s.letGo())
	mem = copyOf(mem)
	_ = s.Close() // it can't ship the rest
	if err := mem.Remove("db/" + base.LogName(base.FileNum(late.Log))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err) // the local store removes it in the background
	}

	if _, err := Open(t.Context(), "db", b, manual(mem)); err == nil || errors.Is(err, ErrFenced) {
		t.Fatalf("Open that can't PUT its fence: %v", err)
	}
	mustNil(t, PutObject(t.Context(), b.Bucket, late.Name(), src, true))
	b.Hook(nil, nil)
	s = openStore(t, "db", b, manual(mem))
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "at the end", restoredContents(t, b.Bucket), model)
	mustNil(t, s.Close())
}
