package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A txnStep is what a transaction does. It returns what it has read.
type txnStep func(tx *Txn) (string, error)

func get(key string) txnStep {
	return func(tx *Txn) (string, error) {
		v, err := tx.Get([]byte(key))
		if errors.Is(err, shale.ErrNotFound) {
			return "-", nil
		}
		return string(v), err
	}
}

func put(key, value string) txnStep {
	return func(tx *Txn) (string, error) { return "", tx.Put([]byte(key), []byte(value)) }
}

func remove(key string) txnStep {
	return func(tx *Txn) (string, error) { return "", tx.Delete([]byte(key)) }
}

// count scans a range; "" stands for no bound.
func count(lower, upper string) txnStep {
	r := shale.Range{Lower: []byte(lower)}
	if upper != "" {
		r.Upper = []byte(upper)
	}
	return func(tx *Txn) (string, error) {
		n := 0
		for _, err := range tx.Scan(r) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n), nil
	}
}

// Whether a transaction is written depends on the state that its command meets, and on nothing else: neither on what is applied
// together with it, nor on restarts and snapshots before.
func TestUpdate_Verdict(t *testing.T) {
	t.Parallel()
	none := func(tx *Txn) (string, error) { return "", nil }
	all := func(steps ...txnStep) txnStep {
		return func(tx *Txn) (string, error) {
			for _, s := range steps {
				if _, err := s(tx); err != nil {
					return "", err
				}
			}
			return "", nil
		}
	}
	limited := func(tx *Txn) (string, error) {
		for _, err := range tx.Scan(shale.Range{Limit: 2}) {
			if err != nil {
				return "", err
			}
		}
		return "", nil
	}
	backwards := func(tx *Txn) (string, error) {
		it := tx.NewIterator(shale.Range{})
		defer it.Close()
		if !it.Last() || string(it.Key()) != "e" || !it.Prev() {
			return "", fmt.Errorf("it stands on %q: %v", it.Key(), it.Err())
		}
		return "", it.Err()
	}
	untracked := func(tx *Txn) (string, error) {
		v, err := tx.Untracked().Get([]byte("a"))
		return string(v), err
	}
	many := func(tx *Txn) (string, error) {
		return "", tx.GetMany([][]byte{[]byte("a"), []byte("b"), reservedKey, digestKey}, func(i int, _ []byte, found bool) error {
			if found != (i == 0) {
				return fmt.Errorf("key %d is there: %v", i, found)
			}
			return nil
		})
	}
	for _, c := range []struct {
		name   string
		read   txnStep
		others []string // written before it: a=1 c=3 e=5 are there at first
		lost   bool
	}{
		{"a blind write", none, []string{"a=2"}, false},
		{"a key that nobody has changed", get("a"), []string{"b=2"}, false},
		{"a key that has changed", get("a"), []string{"a=2"}, true},
		{"a key whose value got shorter", get("a"), []string{"a="}, true},
		{"a key that has changed and changed back", get("a"), []string{"a=2", "a=1"}, false},
		{"a key that is gone", get("a"), []string{"a"}, true},
		{"an absent key that was deleted", get("b"), []string{"b"}, false},
		{"an absent key that has come", get("b"), []string{"b="}, true},
		{"an absent key that has come and gone", get("b"), []string{"b=2", "b"}, false},
		{"one of many keys", many, []string{"b=2"}, true},
		{"none of many keys", many, []string{"c=2"}, false},
		{"a scan with a changed value", count("a", "d"), []string{"c=4"}, true},
		{"a scan that has lost a key", count("a", "d"), []string{"c"}, true},
		{"a scan with a phantom in a gap", count("a", "d"), []string{"b=2"}, true},
		{"a scan with a phantom at the end", count("a", "d"), []string{"cc=2"}, true},
		{"a scan, and a key behind it", count("a", "d"), []string{"d=2"}, false},
		{"a scan, and a key before it", count("b", "d"), []string{"a=2"}, false},
		{"an empty scan with a phantom", count("b", "c"), []string{"bb=2"}, true},
		{"an empty scan, and keys around it", count("b", "c"), []string{"aa=2", "c=2"}, false},
		{"a scan in which a value has moved to another key", count("a", "d"), []string{"a", "b=1"}, true},
		{"a scan in which bytes have moved from a key to its value", count("a", "d"), []string{"a=", "1=x"}, true},
		{"a scan of all", count("", ""), []string{"f=2"}, true},
		{"a scan of all, and nothing else but the group's own keys", count("", ""), []string{"a=1"}, false},
		{"a scan up to its second key", limited, []string{"d=2"}, false},
		{"a scan up to its second key, and a phantom", limited, []string{"b=2"}, true},
		{"the last key", backwards, []string{"f=2"}, true},
		{"the last two keys, and one before", backwards, []string{"b=2"}, false},
		{"what it has written itself", all(put("a", "9"), get("a")), []string{"a=2"}, false},
		{"what it has read before it wrote", all(get("a"), put("a", "9")), []string{"a=2"}, true},
		{"a scan over what it has written itself", all(put("b", "9"), count("a", "d")), []string{"b=2"}, true},
		{"what does not count", untracked, []string{"a=2"}, false},
		{"the second of two", all(get("b"), get("a")), []string{"a=2"}, true},
		{"a scan behind a key", all(get("a"), count("b", "d")), []string{"b=2"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.NewMem()
			m := mustStart(t, disk)
			h := history{}
			add := func(data []byte, err error) {
				mustNil(t, err)
				h = append(h, &raft.Log{Index: uint64(len(h) + 1), Term: 1, Data: data})
			}
			add(encodeWrite(batchOf(t, "a=1", "c=3", "e=5")))
			m.mustApply(h, 0, 1, 1)
			cmd, err := m.state.transact(func(tx *Txn) error {
				_, err := c.read(tx)
				return errors.Join(err, tx.Put([]byte("done"), nil))
			})
			for _, o := range c.others {
				add(encodeWrite(batchOf(t, o)))
			}
			before := uint64(len(h))
			add(cmd, err)
			add(cmd, err) // it has read and written the same, so whether it wins once more depends on what it has read
			n := uint64(len(h))

			want, wantAnswers := h.at(n)
			if wantAnswers[before].Done == c.lost || (wantAnswers[before].Lost > 0) != c.lost {
				t.Errorf("the model says %+v", wantAnswers[before])
			}
			check := func(how string, m *machine, from uint64, piece int) {
				t.Helper()
				got, err := m.apply(h, from, n, piece)
				mustNil(t, err)
				for i := before; i < n; i++ {
					if fmt.Sprint(got[i]) != fmt.Sprint(wantAnswers[i]) {
						t.Errorf("%s: %+v, want %+v", how, got[i], wantAnswers[i])
					}
				}
				if state, err := contents(m.state.reader()); err != nil || fmt.Sprint(state) != fmt.Sprint(want) {
					t.Errorf("%s: the state is %v, %v; want %v", how, state, err, want)
				}
			}
			together := mustStart(t, vfs.NewMem())
			check("applied with all before", together, 0, 100)
			check("applied alone", m, 1, 1)
			source, restored := mustStart(t, vfs.NewMem()), mustStart(t, vfs.NewMem())
			source.mustApply(h, 0, before, 1)
			mustNil(t, source.snapshot(h, before))
			mustNil(t, restored.receive(source))
			check("applied to a snapshot", restored, before, 100)
			source.close()
			source = mustStart(t, source.snaps.fs)
			check("applied after a restart", source, before, 100)
			sum := m.state.current.Load().digests.now
			for _, m := range []*machine{m, together, restored, source} {
				if got := m.state.current.Load().digests.now; got != sum {
					t.Errorf("members differ: %+v and %+v", got, sum)
				}
				m.close()
			}
		})
	}
}

// A state that is replaced by a snapshot stays for the transaction that reads it.
func TestUpdate_StateReplacedBeneath(t *testing.T) {
	t.Parallel()
	source, m := mustStart(t, vfs.NewMem()), mustStart(t, vfs.NewMem())
	defer source.close()
	defer m.close()
	var h history
	for i, o := range []string{"a=1", "a=2"} {
		data, err := encodeWrite(batchOf(t, o))
		mustNil(t, err)
		h = append(h, &raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
	}
	m.mustApply(h, 0, 1, 1)
	source.mustApply(h, 0, 2, 1)
	mustNil(t, source.snapshot(h, 2))
	cmd, err := m.state.transact(func(tx *Txn) error {
		mustNil(t, m.receive(source))
		if v, err := m.state.reader().Get([]byte("a")); err != nil || string(v) != "2" {
			t.Errorf("the state has %q, %v", v, err)
		}
		if v, err := get("a")(tx); err != nil || v != "1" {
			t.Errorf("the transaction has read %q, %v", v, err)
		}
		return tx.Put([]byte("a"), []byte("3"))
	})
	mustNil(t, err)
	h = append(h, &raft.Log{Index: 3, Term: 1, Data: cmd})
	if got, err := m.apply(h, 2, 3, 1); err != nil || got[2].Lost != 1 {
		t.Errorf("it gets %+v, %v", got[2], err)
	}
	for states(t, m.state.fs) != "state-2" {
		time.Sleep(time.Millisecond)
	}
}

// A running is a transaction that takes one step after the other.
type running struct {
	steps chan txnStep // closed at its end
	outs  chan string
	end   chan error
	stop  context.CancelFunc
}

var errGiveUp = errors.New("it gives up")

// run begins a transaction on a member, which runs once. If it can't, the first step finds out.
func run(t *testing.T, m *testMember) *running {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &running{make(chan txnStep), make(chan string), make(chan error, 1), cancel}
	began := make(chan struct{})
	go func() {
		_, err := m.tryUpdate(ctx, func(tx *Txn) error {
			close(began)
			for {
				select {
				case s, more := <-r.steps:
					if !more {
						return nil
					}
					out, err := s(tx)
					if err != nil {
						return err
					}
					r.outs <- out
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		r.end <- err
		cancel()
	}()
	select {
	case <-began:
	case <-ctx.Done():
	}
	return r
}

// do takes a step. nil is the end: then it returns "conflict" if there was one.
func (r *running) do(s txnStep) (out string, err error) {
	if s == nil {
		close(r.steps)
		if err = <-r.end; errors.Is(err, shale.ErrConflict) {
			return "conflict", nil
		}
		return "", err
	}
	select {
	case r.steps <- s:
		select {
		case out = <-r.outs:
		case err = <-r.end:
		}
	case err = <-r.end:
	}
	if errors.Is(err, errGiveUp) {
		err = nil
	}
	return out, err
}

// The anomalies that shale's TestTxn_Anomalies names do not happen between two members either. The group has x = 0 and y = 0 at
// first. Transaction 0 runs on the leader, and 1 on another member.
func TestUpdate_Anomalies(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) { o.Forward = true })
	giveUp := func(*Txn) (string, error) { return "", errGiveUp }
	type step struct {
		tx int
		do txnStep
	}
	for _, c := range []struct {
		name       string
		steps      []step
		want, then string // what was read, and the outcomes; x and y in the end
	}{
		{"G0, writes that mix",
			[]step{{0, put("x", "1")}, {1, put("x", "2")}, {1, put("y", "2")}, {0, put("y", "1")}, {0, nil}, {1, nil}},
			"", "2 2"},
		{"G1a, a read of what is discarded",
			[]step{{0, put("x", "1")}, {1, get("x")}, {0, giveUp}, {1, get("x")}, {1, put("y", "2")}, {1, nil}},
			"0 0", "0 2"},
		{"G1b, a read of what is overwritten",
			[]step{{0, put("x", "1")}, {1, get("x")}, {0, put("x", "2")}, {0, nil}, {1, get("x")}, {1, nil}},
			"0 0", "2 0"},
		{"G1c, each reads of the other",
			[]step{{0, put("x", "1")}, {1, put("y", "2")}, {0, get("y")}, {1, get("x")}, {0, nil}, {1, nil}},
			"0 0 conflict", "1 0"},
		{"a lost update",
			[]step{{0, get("x")}, {1, get("x")}, {0, put("x", "1")}, {1, put("x", "2")}, {1, nil}, {0, nil}},
			"0 0 conflict", "2 0"},
		{"a lost update of a key that is absent",
			[]step{{0, get("z")}, {1, get("z")}, {0, put("z", "1")}, {1, put("z", "2")}, {1, nil}, {0, nil}},
			"- - conflict", "0 0"},
		{"a lost deletion",
			[]step{{0, get("x")}, {1, remove("x")}, {1, nil}, {0, put("y", "1")}, {0, nil}},
			"0 conflict", "- 0"},
		{"read skew",
			[]step{{0, get("x")}, {1, put("x", "1")}, {1, put("y", "1")}, {1, nil}, {0, get("y")}, {0, nil}},
			"0 0", "1 1"},
		{"G2 on items, write skew",
			[]step{{0, get("x")}, {0, get("y")}, {1, get("x")}, {1, get("y")}, {0, put("x", "1")}, {1, put("y", "2")}, {0, nil}, {1, nil}},
			"0 0 0 0 conflict", "1 0"},
		{"G2 on ranges",
			[]step{{0, count("x", "z")}, {1, count("x", "z")}, {0, put("x1", "1")}, {1, put("x2", "2")}, {0, nil}, {1, nil}},
			"2 2 conflict", "0 0"},
		{"G2 on empty scans",
			[]step{{0, count("a", "b")}, {1, count("a", "b")}, {0, put("a1", "1")}, {1, put("a2", "2")}, {0, nil}, {1, nil}},
			"0 0 conflict", "0 0"},
		{"a phantom in the gap of a scan",
			[]step{{0, count("x", "z")}, {1, put("x5", "1")}, {1, nil}, {0, put("w", "1")}, {0, nil}},
			"2 conflict", "0 0"},
		{"next to a scan, and no conflict",
			[]step{{0, count("x", "z")}, {1, put("z", "1")}, {1, put("w", "1")}, {1, nil}, {0, put("w", "1")}, {0, nil}},
			"2", "0 0"},
		{"blind writes, and no conflict",
			[]step{{0, put("x", "1")}, {1, get("x")}, {1, put("x", "2")}, {1, nil}, {0, nil}},
			"0", "1 0"},
		{"own writes are not read",
			[]step{{0, put("x", "1")}, {0, get("x")}, {1, put("x", "2")}, {1, nil}, {0, nil}},
			"1", "1 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			g.led("the steps", func() error { // from the beginning, if another member leads meanwhile
				for _, k := range []string{"a1", "a2", "w", "x1", "x2", "x5", "z"} {
					if err := g.leader().Delete(short(t), []byte(k)); err != nil {
						return err
					}
				}
				g.write("x", "0")
				g.write("y", "0")
				txs := []*running{run(t, g.leader()), run(t, g.follower())}
				var outs []string
				for i, s := range c.steps {
					out, err := txs[s.tx].do(s.do)
					if err != nil {
						for _, r := range txs {
							r.stop()
						}
						return fmt.Errorf("step %d: %w", i, err)
					}
					if out != "" {
						outs = append(outs, out)
					}
				}
				got = strings.Join(outs, " ")
				return nil
			})
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			mustNil(t, g.follower().Update(short(t), func(tx *Txn) error {
				x, err := get("x")(tx)
				y, err2 := get("y")(tx)
				if x+" "+y != c.then {
					t.Errorf("in the end %s %s, want %s", x, y, c.then)
				}
				return errors.Join(err, err2)
			}))
		})
	}
	g.agree()
}

// increment adds 1 to a counter.
func increment(tx *Txn) error {
	v, err := get("counter")(tx)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(v) // "-" is none
	return tx.Put([]byte("counter"), []byte(strconv.Itoa(n+1)))
}

// A counter that many count in, on all members and under leaders that change, has the exact sum: each Update has happened once,
// or not at all if it says so.
func TestUpdate_Counter(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) { o.Forward = true })
	const writers, each = 12, 12
	var unsure atomic.Int64
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				unsure.Add(int64(g.led("an increment", func() error { return g.members[i%3].Update(short(t), increment) })))
				if i == 0 && n%4 == 3 {
					_ = g.leader().TransferLeadership(short(t), "") // it may fall meanwhile
				}
			}
		})
	}
	wg.Wait()
	g.agree()
	v, err := g.leader().get(short(t), "counter")
	mustNil(t, err)
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < writers*each || n > writers*each+unsure.Load() {
		t.Errorf("the counter is %q, with %d increments, and %d that may have happened", v, writers*each, unsure.Load())
	}
	for _, m := range g.members {
		m.mustHoldNothing(t)
	}
}

// A transaction on any member sees what was acknowledged before, also if it writes nothing.
func TestUpdate_SeesAcknowledged(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	for i := range 30 {
		want := fmt.Sprint(i)
		g.write("k", want)
		for _, m := range g.members {
			mustNil(t, m.Update(short(t), func(tx *Txn) error {
				if v, err := get("k")(tx); err != nil || v != want {
					t.Errorf("%s has read %q, %v; want %q", m.opts.ID, v, err, want)
				}
				return nil
			}))
		}
	}
}

// mustHoldNothing checks that no transaction has left anything behind.
func (m *testMember) mustHoldNothing(t testing.TB) {
	t.Helper()
	st := m.state.current.Load()
	if pins, s := st.pins.Load(), st.db.Metrics(); pins != 1 || s.OpenSnapshots != 0 || s.OpenIterators != 0 {
		t.Errorf("%s: %d pins, %d snapshots, %d iterators", m.opts.ID, pins, s.OpenSnapshots, s.OpenIterators)
	}
}

// Bad use gives a clear error, and nothing is written.
func TestUpdate_BadUse(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	g.write("k", "v")
	ctx := context.Background()
	l := g.leader()
	refused := func(t *testing.T, fn func(tx *Txn) error, want error) {
		t.Helper()
		err := l.Update(short(t), func(tx *Txn) error {
			return errors.Join(tx.Put([]byte("k"), []byte("refused")), fn(tx))
		})
		if !errors.Is(err, want) {
			t.Errorf("Update = %v, want %v", err, want)
		}
		if v, err := l.get(short(t), "k"); err != nil || v != "v" {
			t.Errorf("k = %q, %v", v, err)
		}
		l.mustHoldNothing(t)
	}
	t.Run("an error of fn", func(t *testing.T) {
		refused(t, func(*Txn) error { return errGiveUp }, errGiveUp)
	})
	t.Run("a panic and Goexit in fn", func(t *testing.T) {
		for _, end := range []func(){func() { panic("mine") }, runtime.Goexit} {
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_ = l.Update(ctx, func(tx *Txn) error { _ = tx.Put([]byte("k"), []byte("w")); end(); return nil })
			})
			wg.Wait()
		}
		refused(t, func(*Txn) error { return errGiveUp }, errGiveUp)
	})
	t.Run("after the end", func(t *testing.T) {
		var tx *Txn
		var it *shale.Iterator
		mustNil(t, l.Update(ctx, func(t *Txn) error {
			tx, it = t, t.NewIterator(shale.Range{})
			it.Next()
			return nil
		}))
		for name, err := range map[string]error{
			"Put": tx.Put([]byte("k"), nil), "Delete": tx.Delete([]byte("k")), "Get": second(tx.Get([]byte("k"))), "Has": second(tx.Has([]byte("k"))),
			"AppendValue": second(tx.AppendValue(nil, []byte("k"))), "ViewValue": tx.ViewValue([]byte("k"), nil),
			"GetMany":     tx.GetMany([][]byte{[]byte("k")}, func(int, []byte, bool) error { return nil }),
			"NewIterator": tx.NewIterator(shale.Range{}).Err(), "Untracked": second(tx.Untracked().Get([]byte("k"))),
		} {
			if err != shale.ErrTxnDone {
				t.Errorf("%s = %v", name, err)
			}
		}
		if it.Next() || it.Err() != shale.ErrTxnDone {
			t.Errorf("an iterator moves: %v", it.Err())
		}
		_ = it.Close() // its error is that of before
		l.mustHoldNothing(t)
	})
	t.Run("the group's own keys", func(t *testing.T) {
		refused(t, func(tx *Txn) error { return tx.Put(reservedKey, nil) }, ErrReservedKey)
		refused(t, func(tx *Txn) error { return tx.Delete(digestKey) }, ErrReservedKey)
	})
	t.Run("too much", func(t *testing.T) {
		refused(t, func(tx *Txn) error {
			for i := range maxObserved + 1 {
				if _, err := tx.Has(fmt.Append(nil, i)); err != nil {
					return err
				}
			}
			return nil
		}, ErrReadTooMuch)
		refused(t, func(tx *Txn) error { return tx.Put([]byte("large"), make([]byte, maxCommandSize)) }, shale.ErrValueTooLarge)
	})
	t.Run("an Update in an Update of the same key", func(t *testing.T) {
		tries := 0
		err := l.Update(ctx, func(tx *Txn) error {
			tries++
			if err := increment(tx); err != nil {
				return err
			}
			return l.Update(ctx, increment)
		})
		if !errors.Is(err, shale.ErrConflict) || tries != maxTries+1 || !strings.Contains(err.Error(), `"counter"`) {
			t.Errorf("Update = %v after %d tries", err, tries)
		}
	})
	t.Run("a context that is done", func(t *testing.T) {
		done, cancel := context.WithCancel(ctx)
		ran := false
		if err := l.Update(done, func(tx *Txn) error { ran = true; cancel(); return tx.Put([]byte("k"), []byte("w")) }); !errors.Is(err, context.Canceled) || !ran {
			t.Errorf("Update = %v, ran %v", err, ran)
		}
		if err := l.Update(done, func(*Txn) error { t.Error("it runs"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("Update = %v", err)
		}
	})
	t.Run("a member that is closed meanwhile", func(t *testing.T) {
		closed := make(chan error, 1)
		err := l.Update(ctx, func(tx *Txn) error {
			go func() { closed <- l.Close() }()
			<-l.stopping
			return tx.Put([]byte("k"), []byte("w"))
		})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("Update = %v", err)
		}
		mustNil(t, <-closed)
		if err := l.Update(ctx, func(*Txn) error { t.Error("it runs"); return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("Update of a closed member = %v", err)
		}
	})
}

// A member that does not lead refuses what a transaction has written, unless Options.Forward is set.
func TestUpdate_NotLeader(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	g.eventually("a refusal", func() error { // it may lead by now
		err := g.follower().Update(short(t), func(tx *Txn) error { return tx.Put([]byte("k"), []byte("w")) })
		if !errors.Is(err, ErrNotLeader) {
			return fmt.Errorf("Update = %v", err)
		}
		return nil
	})
}

func second[T any](_ T, err error) error { return err }

// What a transaction of many keys and ranges has observed is sent as a whole, and compared as a whole.
func TestUpdate_Many(t *testing.T) {
	t.Parallel()
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	const n = 2000
	b := new(shale.Batch)
	for i := range n {
		mustNil(t, b.Put(fmt.Appendf(nil, "key%05d", i), bytes.Repeat([]byte{byte(i)}, i%300)))
	}
	data, err := encodeWrite(b)
	h := history{{Index: 1, Term: 1, Data: data}}
	mustNil(t, err)
	m.mustApply(h, 0, 1, 1)
	cmd, err := m.state.transact(func(tx *Txn) error {
		for i := 0; i < n; i += 2 {
			if _, err := get(fmt.Sprintf("key%05d", i))(tx); err != nil {
				return err
			}
			if _, err := count(fmt.Sprintf("key%05d", i), fmt.Sprintf("key%05dx", i))(tx); err != nil {
				return err
			}
		}
		return tx.Put([]byte("done"), nil)
	})
	mustNil(t, err)
	c, err := decodeCommand(cmd)
	mustNil(t, err)
	if len(c.observed.keys) != n/2 || len(c.observed.ranges) != n/2 {
		t.Errorf("%d keys and %d ranges", len(c.observed.keys), len(c.observed.ranges))
	}
	apply := func(data []byte, err error) result {
		t.Helper()
		mustNil(t, err)
		h = append(h, &raft.Log{Index: uint64(len(h) + 1), Term: 1, Data: data})
		got, err := m.apply(h, uint64(len(h)-1), uint64(len(h)), 1)
		mustNil(t, err)
		return got[len(h)-1]
	}
	ops := slices.Collect(b.Ops())
	for i := 0; i < n; i += 97 {
		apply(encodeWrite(batchOf(t, fmt.Sprintf("%s=changed", ops[i].Key))))
		if r := apply(cmd, nil); r.Done != (i%2 == 1) || r.Lost > 0 && r.Lost != 1+i/2 {
			t.Errorf("after a change of key %d: %+v", i, r)
		}
		apply(encodeWrite(batchOf(t, fmt.Sprintf("%s=%s", ops[i].Key, ops[i].Value))))
	}
	if r := apply(cmd, nil); !r.Done {
		t.Errorf("with all as it was: %+v", r)
	}
}

// A transaction that has read more bytes than members may have to look up is refused, by keys and by ranges alike.
func TestUpdate_TooManyBytes(t *testing.T) {
	t.Parallel()
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	var h history
	for i, k := range []string{"a", "b", "c"} {
		b := new(shale.Batch)
		mustNil(t, b.Put([]byte(k), make([]byte, maxObservedBytes*2/5)))
		data, err := encodeWrite(b)
		mustNil(t, err)
		h = append(h, &raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
	}
	m.mustApply(h, 0, 3, 1)
	for _, c := range []struct {
		read []txnStep
		want error
	}{
		{[]txnStep{get("a"), get("b")}, nil},
		{[]txnStep{get("a"), get("b"), get("c")}, ErrReadTooMuch},
		{[]txnStep{count("a", "c")}, nil},
		{[]txnStep{count("a", "")}, ErrReadTooMuch},
		{[]txnStep{get("a"), count("b", "")}, ErrReadTooMuch},
	} {
		cmd, err := m.state.transact(func(tx *Txn) error {
			for _, read := range c.read {
				if _, err := read(tx); err != nil {
					return err
				}
			}
			return tx.Put([]byte("d"), nil)
		})
		if !errors.Is(err, c.want) || (cmd == nil) != (c.want != nil) || len(cmd) > 1000 {
			t.Errorf("%d reads: a command of %d bytes, %v; want %v", len(c.read), len(cmd), err, c.want)
		}
	}
}
