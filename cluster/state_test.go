package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// TestState_Answers compares states and answers with a model, for pieces of all sizes.
func TestState_Answers(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{1, 3, 64, 1000} {
		h := newHistory(t, 400, 7)
		m := mustStart(t, vfs.NewMem())
		got, err := m.apply(h, 0, 400, piece)
		mustNil(t, err)
		m.mustBe(h, 400)
		if _, want := h.at(400); !reflect.DeepEqual(got, want) {
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("pieces of %d: answer to entry %d is %+v, want %+v", piece, i+1, got[i], want[i])
				}
			}
		}
		m.close()
	}
}

// TestState_ReservedKeysHidden looks for the group's own key in every way, in the state and in a transaction. There it does not
// count as read, although each command changes it.
func TestState_ReservedKeysHidden(t *testing.T) {
	t.Parallel()
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	last := string(reservedKey[:31]) + "\xfe"
	data, err := encodeWrite(batchOf(t, "a=1", last+"=2"))
	mustNil(t, err)
	m.mustApply(history{{Index: 1, Term: 1, Data: data}}, 0, 1, 1)
	lookForReserved(t, m.state.reader().(reader))
	cmd, err := m.state.transact(func(tx *Txn) error {
		lookForReserved(t, tx)
		lookForReserved(t, tx.Untracked().(reader))
		return tx.Put([]byte("b"), nil)
	})
	mustNil(t, err)
	got, err := m.apply(history{nil, {Index: 2, Term: 1, Data: cmd}}, 1, 2, 1)
	if err != nil || !got[1].Done {
		t.Errorf("the transaction gets %+v, %v", got[1], err)
	}
}

// A range delete without bounds leaves the group's own keys, also where another member's program has not cut its upper bound.
func TestState_DeleteRangeKeepsReserved(t *testing.T) {
	t.Parallel()
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	b := batchOf(t, "a=1", "b=2")
	mustNil(t, b.DeleteRange(nil, nil))
	mustNil(t, b.Put([]byte("c"), []byte("3")))
	data, err := encodeWrite(b)
	mustNil(t, err)
	absent, err := encodePutIfAbsent([]byte("a"), []byte("4"), time.Time{})
	mustNil(t, err)
	h := history{{Index: 1, Term: 1, Data: data}, {Index: 2, Term: 1, Data: absent}, {Index: 3, Term: 1, Data: data}}
	answers, err := m.apply(h, 0, 3, 3)
	if err != nil || !answers[1].Done {
		t.Errorf("PutIfAbsent behind a range delete gives %+v, %v", answers[1], err)
	}
	m.mustBe(h, 3)
	b.Reset()
	mustNil(t, b.DeleteRange(reservedKey, nil))
	if _, err := encodeWrite(b); !errors.Is(err, ErrReservedKey) {
		t.Errorf("a range delete of the group's own keys: %v", err)
	}
}

// lookForReserved looks for the group's own keys in a reader of two others.
func lookForReserved(t *testing.T, r reader) {
	t.Helper()
	for _, key := range []string{string(reservedKey), string(reservedKey) + "\x00"} {
		if v, err := r.Get([]byte(key)); !errors.Is(err, shale.ErrNotFound) {
			t.Errorf("Get = %q, %v", v, err)
		}
		if v, err := r.AppendValue([]byte("x"), []byte(key)); !errors.Is(err, shale.ErrNotFound) || string(v) != "x" {
			t.Errorf("AppendValue = %q, %v", v, err)
		}
		if err := r.ViewValue([]byte(key), func([]byte) error { return nil }); !errors.Is(err, shale.ErrNotFound) {
			t.Errorf("ViewValue: %v", err)
		}
		if has, err := r.Has([]byte(key)); has || err != nil {
			t.Errorf("Has = %v, %v", has, err)
		}
		found := 0
		err := r.GetMany([][]byte{[]byte("a"), []byte(key)}, func(i int, v []byte, there bool) error {
			if found++; there != (i == 0) {
				t.Errorf("GetMany: key %d is %q, %v", i, v, there)
			}
			return nil
		})
		if err != nil || found != 2 {
			t.Errorf("GetMany gave %d: %v", found, err)
		}
		for _, rng := range []shale.Range{{}, {Upper: []byte(key)}, {Upper: []byte(key + "\xff")}, shale.Prefix("\xff"), {Lower: []byte(key)}} {
			want := 2
			switch {
			case reserved(rng.Lower):
				want = 0
			case rng.Lower != nil:
				want = 1
			}
			for _, rng.Reverse = range []bool{false, true} {
				n := 0
				for e, err := range r.Scan(rng) {
					if n++; err != nil || reserved(e.Key) {
						t.Errorf("Scan of %+v: %q, %v", rng, e.Key, err)
					}
				}
				if n != want {
					t.Errorf("Scan of %+v gave %d", rng, n)
				}
			}
			it := r.NewIterator(rng)
			for _, move := range []func() bool{it.Last, it.Next, it.Prev, it.Next, it.First,
				func() bool { return it.SeekGE([]byte(key)) }, func() bool { return it.SeekLT([]byte(key + "\xff")) },
				it.Next, func() bool { return it.SeekGE([]byte("b")) }, it.Next, it.Next} {
				if move() && reserved(it.Key()) {
					t.Errorf("iterator of %+v stands on %x", rng, it.Key())
				}
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestState_UnknownCommand meets a command of a newer program, which must not be passed over.
func TestState_UnknownCommand(t *testing.T) {
	t.Parallel()
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	for _, data := range []string{"", "\x63\x01\x01\x01\x01k\x01v", "\x01\x01\x02\x00"} {
		m.failed = make(chan error, 1)
		m.state.fail = func(err error) { m.failed <- err }
		if _, err := m.apply(history{{Index: 9, Term: 1, Data: []byte(data)}}, 0, 1, 1); err == nil {
			t.Errorf("command %q is applied", data)
		}
	}
	if m.state.applied() != 0 {
		t.Errorf("the state is at %d", m.state.applied())
	}
}

// TestState_LargeBatches applies more at once than fits into one batch of the store.
func TestState_LargeBatches(t *testing.T) {
	t.Parallel()
	var h history
	value := bytes.Repeat([]byte("v"), 1<<20)
	for i := range uint64(12) {
		data, err := encodePutIfAbsent(fmt.Appendf(nil, "%d", i%9), value, time.Time{})
		mustNil(t, err)
		h = append(h, &raft.Log{Index: i + 1, Term: 1, Data: data})
	}
	m := mustStart(t, vfs.NewMem())
	defer m.close()
	got, err := m.apply(h, 0, 12, 12)
	mustNil(t, err)
	if _, want := h.at(12); !reflect.DeepEqual(got, want) {
		t.Errorf("answers %+v, want %+v", got, want)
	}
	m.mustBe(h, 12)
}

// TestState_RestoreBesideReaders replaces the state while readers are at work: those that began
// before end with what they began with, and then the old store goes.
func TestState_RestoreBesideReaders(t *testing.T) {
	t.Parallel()
	h := newHistory(t, 300, 5)
	source := mustStart(t, vfs.NewMem())
	source.mustApply(h, 0, 300, 50)
	mustNil(t, source.snapshot(h, 300))
	disk := vfs.NewMem()
	m := mustStart(t, disk)
	m.mustApply(h, 0, 100, 50)
	before, _ := h.at(100)
	r := m.state.reader()
	it := r.NewIterator(shale.Range{})
	waiting := make(chan error, 1)
	go func() { waiting <- m.state.waitFor(context.Background(), 300) }()
	seen := 0
	for _, err := range r.Scan(shale.Range{}) {
		mustNil(t, err)
		if seen++; seen == 1 {
			mustNil(t, m.receive(source))
			m.mustBe(h, 300)
		}
	}
	if err := <-waiting; err != nil || seen != len(before) {
		t.Errorf("%d entries seen, want %d; %v", seen, len(before), err)
	}
	n := 0
	for it.Next() {
		n++
	}
	if err := it.Err(); err != nil || n != len(before) {
		t.Errorf("the iterator gave %d entries, want %d; %v", n, len(before), err)
	}
	mustNil(t, it.Close())
	for states(t, disk) != "state-2" {
		time.Sleep(time.Millisecond)
	}
	// A snapshot that the state has passed changes nothing.
	mustNil(t, m.receive(source))
	m.mustBe(h, 300)
	m.close()
	source.close()
	if got := states(t, disk); got != "state-2" {
		t.Errorf("the directory has %s", got)
	}
	m = mustStart(t, disk)
	m.mustBe(h, 300)
	m.close()
}

// states returns the names of the states on the disk.
func states(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List(machineDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, statePrefix) }), " ")
}
