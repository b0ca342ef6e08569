package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// Members whose clocks differ by hours, and jump, and lead one after the other: what is gone stays gone, and what lasts
// lasts, also after a restart and for a member that gets a snapshot.
func TestTime_ClocksDiffer(t *testing.T) {
	t.Parallel()
	var offsets [4]atomic.Int64
	g := newGroup(t, 3, func(o *Options) {
		i := int(o.ID[1] - '0')
		offsets[i].Store(int64(time.Duration(1-i) * time.Hour))
		o.Forward = true
		o.Raft = func(c *raft.Config) {
			fastRaft(c)
			c.TrailingLogs = 0 // who joins gets a snapshot
		}
		o.clock = func() time.Time { return time.Now().Add(time.Duration(offsets[i].Load())) }
	})
	read := func(m *testMember, key string) (value string) {
		t.Helper()
		g.led("a read", func() (err error) { value, err = m.get(short(t), key); return err })
		return value
	}
	gone := func(key string) {
		t.Helper()
		g.eventually(key+" is gone", func() error {
			if v, err := g.leader().get(short(t), key); err != nil || v != "" {
				return fmt.Errorf("%q, %v", v, err)
			}
			return nil
		})
	}
	put := func(key string, ttl time.Duration) {
		t.Helper()
		g.led("a write", func() error { return g.members[0].PutTTL(short(t), []byte(key), []byte("v"), ttl) })
	}
	check := func(when string) {
		t.Helper()
		for _, m := range g.members {
			if short, lasts := read(m, "short"), read(m, "lasts"); short != "" || lasts != "v" {
				t.Errorf("%s, on %s: %q and %q, want none and v", when, m.opts.ID, short, lasts)
			}
		}
	}
	lead := func(i int) {
		t.Helper()
		to := g.members[i]
		g.eventually("it leads", func() error {
			if to.IsLeader() {
				return nil
			}
			return g.leader().TransferLeadership(short(t), to.opts.ID)
		})
		check("when " + to.opts.ID + " leads")
		// The next value ends too, although this leader's clock may be behind the group's time.
		put("next", 50*time.Millisecond)
		gone("next")
		offsets[i].Add(int64(3 * time.Hour))
		put("jump", time.Millisecond)
		gone("jump")
		offsets[i].Add(-int64(5 * time.Hour))
		inserted := false
		unknown := g.led("an insert", func() (err error) {
			inserted, err = g.members[0].PutIfAbsentTTL(short(t), []byte("next"), []byte("again"), time.Millisecond)
			return err
		})
		if !inserted && unknown == 0 {
			t.Error("a key whose value is over is present")
		}
		gone("next")
	}
	put("short", 10*time.Millisecond)
	put("lasts", 100*time.Hour)
	gone("short")
	for i := range 3 {
		lead(i)
	}

	put("short", time.Millisecond)
	gone("short")
	restarted := g.members[1]
	mustNil(t, restarted.Close())
	offsets[1].Add(-int64(time.Hour))
	g.open(restarted)
	g.waitVoters(3)
	check("after a restart")
	lead(1)

	put("short", time.Millisecond)
	gone("short")
	for _, m := range g.members {
		mustNil(t, m.Snapshot(short(t)))
	}
	joined := g.add()
	g.waitVoters(4)
	if joined.state.current.Load().number < 2 {
		t.Error("the new member has not been sent a snapshot")
	}
	check("after a snapshot")
	lead(3)

	g.agree()
	ends, err := g.members[0].Local().ExpiresAt([]byte("lasts"))
	mustNil(t, err)
	for _, m := range g.members {
		if at, err := m.Local().ExpiresAt([]byte("lasts")); err != nil || !at.Equal(ends) {
			t.Errorf("on %s it ends at %v, %v; on m0 at %v", m.opts.ID, at, err, ends)
		}
	}
}

// Commands are decided by the time in the log, however they come in batches.
func TestTime_Decided(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 9} {
		m := mustStart(t, vfs.NewMem())
		var h history
		add := func(now int64, cmd []byte, err error) {
			mustNil(t, err)
			timed := append(appendTimed(nil, now, 0), cmd...)
			if cmd[0] == kindTimed {
				timed = append(appendTimed(nil, now, 0), cmd[timedSize:]...)
			}
			h = append(h, entryOf(len(h)+1, timed))
		}
		until := func(ms int64) ([]byte, error) { return encodePutIfAbsent([]byte("k"), []byte("v"), time.UnixMilli(ms)) }
		a := func(now, ttl int64) { cmd, err := until(ttl); add(now, cmd, err) }
		a(1000, 500) // until 1500
		a(1499, 500) // there
		a(1200, 500) // the time does not go back: there
		a(1500, 500) // over: until 2000
		a(1600, 900) // there
		del, err := encodeDelete([][]byte{[]byte("k")})
		add(2000, del, err) // over
		a(2000, 100)        // until 2100
		add(2099, del, err) // there
		a(2200, 100)        // until 2300
		add(2300, appendTimed(nil, 0, 0), nil)
		a(2250, 100) // over: the time has not gone back
		want := []bool{true, false, false, true, false, false, true, true, true, false, true}
		for from := 0; from < len(h); from += size {
			part := h[from:min(from+size, len(h))]
			for i, r := range m.state.ApplyBatch(part) {
				r := r.(result)
				if got := r.Done || len(r.Present) == 1 && r.Present[0]; got != want[from+i] {
					t.Errorf("in batches of %d, command %d: %+v, want %v", size, from+i, r, want[from+i])
				}
			}
		}
		if now := m.state.current.Load().time.now.Load(); now != 2300 {
			t.Errorf("in batches of %d, the time is %d, want 2300", size, now)
		}
		m.close()
	}
}

// A value that keeps its end does so whatever the time is when its command is applied, and next to values that do not. All
// members decide alike that it is over, also those that got it too late.
func TestTime_Ends(t *testing.T) {
	t.Parallel()
	var h history
	apply := func(now int64, ops ...shale.Op) {
		b, ends := new(shale.Batch), map[string]int64{}
		for _, op := range ops {
			mustNil(t, b.Add(op))
			if string(op.Value) == "kept" {
				ends[string(op.Key)] = op.ExpiresAt.UnixMilli()
			}
		}
		cmd, err := encodeUpdate(new(observed), b, 1000, ends) // whoever made it read the state of 1000
		mustNil(t, err)
		binary.LittleEndian.PutUint64(cmd[1:], uint64(now))
		h = append(h, entryOf(len(h)+1, cmd))
	}
	put := func(key, value string, until int64) shale.Op {
		return shale.Op{Kind: shale.OpPut, Key: []byte(key), Value: []byte(value), ExpiresAt: time.UnixMilli(until)}
	}
	apply(1300, put("a", "kept", 2000), put("b", "moved", 2000), put("c", "kept", 1300), put("d", "kept", 1301))
	apply(1400, put("e", "moved", 1500), put("e", "kept", 1700))
	apply(1600, put("f", "kept", 1400))
	for _, size := range []int{1, 2, 3} {
		m := mustStart(t, vfs.NewMem())
		check := func(now int64, want string) {
			t.Helper()
			var got []string
			for e, err := range m.state.reader().Scan(shale.Range{}) {
				mustNil(t, err)
				got = append(got, fmt.Sprintf("%s=%d", e.Key, e.ExpiresAt.UnixMilli()))
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("in batches of %d, at %d: %s, want %s", size, now, text, want)
			}
		}
		for from := 0; from < len(h); from += size {
			m.state.ApplyBatch(h[from:min(from+size, len(h))])
		}
		check(1600, "a=2000 b=2300 e=1700")
		for i, want := range []string{"a=2000 b=2300 e=1700", "a=2000 b=2300", "b=2300"} {
			now := []int64{1699, 1700, 2000}[i]
			m.state.Apply(entryOf(len(h)+1+i, appendTimed(nil, now, 0)))
			check(now, want)
		}
		m.close()
	}
}

// A transaction that has read a value conflicts when that is over, or lasts longer.
func TestTime_Update(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, func(o *Options) { o.Raft = lonelyRaft })
	n, ctx := g.leader(), short(t)
	key := []byte("k")
	mustNil(t, n.PutTTL(ctx, key, []byte("v"), 100*time.Hour))
	runs := 0
	mustNil(t, n.Update(ctx, func(tx *Txn) error {
		if runs++; runs == 1 {
			if err := n.PutTTL(context.Background(), key, []byte("v"), 200*time.Hour); err != nil {
				return err
			}
		}
		at, err := tx.ExpiresAt(key)
		if err != nil {
			return err
		}
		return tx.PutTTL([]byte("copy"), nil, time.Until(at))
	}))
	if runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
	at, err := n.Local().ExpiresAt([]byte("copy"))
	if left := time.Until(at); err != nil || left < 199*time.Hour || left > 201*time.Hour {
		t.Errorf("the copy lasts for %v, %v", left, err)
	}
	mustNil(t, n.PutTTL(ctx, key, []byte("v"), 5*time.Millisecond))
	eventually(t, "gone for Local", func() error {
		if _, err := n.Local().Get(key); !errors.Is(err, shale.ErrNotFound) {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
}

// A counter that all members change without pause, and by clocks that differ by hours, ends when it was said, and not later.
func TestTime_Counter(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) {
		o.Forward = true
		ahead := time.Duration(int(o.ID[1])-'1') * time.Hour
		o.clock = func() time.Time { return time.Now().Add(ahead) }
	})
	key, ctx := []byte("counter"), t.Context()
	const life = 5 * time.Second // the race detector on a busy machine counts five in a second
	g.led("the counter", func() error { return g.members[0].PutTTL(ctx, key, []byte("0"), life) })
	var ends time.Time
	g.led("a look", func() error {
		return g.members[0].Read(ctx, func(r shale.Reader) (err error) { ends, err = r.ExpiresAt(key); return err })
	})
	// count adds one to the counter while there is one. It returns what it was, or -1.
	count := func(m *testMember) (n int, err error) {
		err = m.Update(ctx, func(tx *Txn) error {
			n = -1
			v, err := tx.Get(key)
			if errors.Is(err, shale.ErrNotFound) {
				return nil
			}
			at, err2 := tx.ExpiresAt(key)
			if err = errors.Join(err, err2); err != nil {
				return err
			}
			if n, err = strconv.Atoi(string(v)); err != nil {
				return err
			}
			if !at.Equal(ends) {
				t.Errorf("at %d the counter ends at %v instead of %v", n, at, ends)
			}
			return errors.Join(tx.Put([]byte("last"), v), tx.PutTTL(key, v, life), tx.PutUntil(key, strconv.AppendInt(nil, int64(n+1), 10), at))
		})
		return n, err
	}
	began := time.Now()
	var counting sync.WaitGroup
	var counted, lasted atomic.Int64 // lasted: when the last attempt began that has found the counter, since began
	for _, m := range g.members {
		counting.Go(func() {
			for n := 0; n >= 0; {
				var err error
				at := time.Since(began)
				switch n, err = count(m); {
				case errors.Is(err, shale.ErrConflict):
					n = 0 // the others were quicker each time, and nothing was written
				case errors.Is(err, ErrNotLeader):
					n = 0
					time.Sleep(10 * time.Millisecond) // the leader was too slow on this machine, and nothing was written
				case err != nil && !errors.Is(err, ErrUnknown):
					t.Error(err)
					return
				default:
					counted.Add(1)
					for old := lasted.Load(); n >= 0 && int64(at) > old && !lasted.CompareAndSwap(old, int64(at)); {
						old = lasted.Load()
					}
				}
			}
		})
	}
	counting.Wait()
	if lasted := time.Duration(lasted.Load()); lasted > life+time.Second {
		t.Errorf("the counter was there %v after it was seen, and was to be for %v", lasted, life)
	}
	if counted.Load() < 20 {
		t.Errorf("only %d were counted", counted.Load())
	}
	g.agree()
	for _, m := range g.members {
		if now := time.UnixMilli(m.state.current.Load().time.now.Load()); now.Before(ends) {
			t.Errorf("on %s it was over at %v, and was to be at %v", m.opts.ID, now, ends)
		}
	}
}

// entryOf returns entry number i.
func entryOf(i int, data []byte) *raft.Log {
	return &raft.Log{Index: uint64(i), Term: 1, Type: raft.LogCommand, Data: data}
}
