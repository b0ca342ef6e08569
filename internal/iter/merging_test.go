package iter

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// randomKey prefers keys with the same beginning that differ
// before, at or after the 16 bytes that a match compares first.
func randomKey(r *rand.Rand) []byte {
	key := bytes.Repeat([]byte{"a\x00\xff"[r.IntN(3)]}, []int{0, 1, 8, 15, 16, 17, 30}[r.IntN(7)])
	for range r.IntN(3) {
		key = append(key, "\x00a\xff"[r.IntN(3)])
	}
	return key
}

// deal makes n entries with many versions and deals them to k hands.
func deal(r *rand.Rand, n, k int) (all []base.KV, hands [][]base.KV) {
	hands = make([][]base.KV, k)
	for i := range n {
		kv := base.KV{InternalKey: base.NewKey(randomKey(r), base.Seq(i+1), base.Kind(r.IntN(2))), Value: fmt.Append(nil, i)}
		all = append(all, kv)
		h := r.IntN(k)
		hands[h] = append(hands[h], kv)
	}
	order := func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) }
	slices.SortFunc(all, order)
	for _, h := range hands {
		slices.SortFunc(h, order)
	}
	return all, hands
}

func fakes(t testing.TB, hands [][]base.KV) (children []base.Iterator, fs []*fake) {
	for _, h := range hands {
		f := newFake(t, h)
		children, fs = append(children, f), append(fs, f)
	}
	return children, fs
}

func TestMerging_Model(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			k := 2 + r.IntN(9)
			all, hands := deal(r, r.IntN(60), k)
			children, fs := fakes(t, hands)
			for i, f := range fs {
				switch r.IntN(3) {
				case 0:
					children[i] = &stepping{fake: f}
				case 1: // a run of a few tables, whatever their entries are like
					run := cut(t, f.kvs, 5)
					run.stepping = r.IntN(2) == 0
					children[i] = NewConcat(len(run.tables), run)
				}
			}
			c := &cursor{t: t, it: NewMerging(children...), want: all, i: -2}
			c.move(4, nil, 0) // a fresh one stands nowhere
			ahead := true
			for range 400 {
				op := r.IntN(24)
				if op >= 4 && ahead {
					op = 4
				} else if op >= 4 {
					op = 5
				}
				ahead = op%2 == 0
				c.move(op, randomKey(r), base.Seq(r.IntN(62)))
			}
			if err := c.it.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMerging_ErrorAtEveryOperation makes each operation of each child fail
// once. The movement must return nil and the error. Steps must then return
// nothing more, and another First, Last or seek must find everything.
func TestMerging_ErrorAtEveryOperation(t *testing.T) {
	seen := 0
	for failing := range 3 {
		for failAt := 1; ; failAt++ {
			r := rand.New(rand.NewPCG(9, 9))
			all, hands := deal(r, 40, 3)
			children, fs := fakes(t, hands)
			fs[failing].failAt = failAt
			it := NewMerging(children...)
			steps := []func() *base.KV{it.First, it.Last, func() *base.KV { return it.SeekGE(all[20].UserKey, base.MaxSeq) },
				func() *base.KV { return it.SeekLT(all[20].UserKey) }, it.Next, it.Prev}
			var err error
			valid, way := false, 0
			for n := 0; n < 500 && err == nil; n++ {
				op := r.IntN(4)
				if n%10 != 0 && valid {
					op = 4 + way
				}
				way = op % 2
				kv := steps[op]()
				valid = kv != nil
				if err = it.Err(); err != nil && kv != nil {
					t.Fatalf("an entry and an error: %s, %v", kv, err)
				}
				if failed := fs[failing].failed; failed != err {
					t.Fatalf("child %d failed with %v, Err() = %v", failing, failed, err)
				}
			}
			if err == nil {
				break // failAt is beyond the end of the script
			}
			seen++
			if kv, kv2 := it.Next(), it.Prev(); kv != nil || kv2 != nil || it.Err() != err {
				t.Fatalf("after the error: Next() = %s, Prev() = %s, Err() = %v", describe(kv), describe(kv2), it.Err())
			}
			c := &cursor{t: t, it: it, want: all}
			c.move(0, nil, 0)
			for range all {
				c.move(4, nil, 0)
			}
		}
	}
	if seen < 300 {
		t.Errorf("%d failures seen, want more than 300", seen)
	}
}

// TestMerging_GrowingChild adds entries to a child while it is read, as
// happens to a memtable. The entries that were there at first must all be
// returned, and each step must go in its direction, whatever is added.
func TestMerging_GrowingChild(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		all, hands := deal(r, 40, 3)
		children, fs := fakes(t, hands)
		it := NewMerging(children...)
		step, sign, i, kv := it.Next, 1, 0, it.First()
		if seed%2 == 0 {
			step, sign, i, kv = it.Prev, -1, len(all)-1, it.Last()
		}
		for seq := base.Seq(41); i >= 0 && i < len(all); seq++ {
			if !equalKV(kv, all[i]) {
				t.Fatalf("seed %d: entry %d = %s, want %s", seed, i, describe(kv), all[i])
			}
			fs[0].insert(base.KV{InternalKey: base.NewKey(randomKey(r), seq, base.KindPut)})
			from := all[i].InternalKey
			for kv = step(); kv != nil; kv = step() {
				if base.Compare(kv.InternalKey, from) != sign {
					t.Fatalf("seed %d: step %d from %s leads to %s", seed, sign, from, kv)
				}
				if kv.Seq() <= 40 {
					break
				}
				from = base.NewKey(bytes.Clone(kv.UserKey), kv.Seq(), kv.Kind())
			}
			i += sign
		}
		if kv != nil || it.Err() != nil {
			t.Fatalf("seed %d: at the end %s, %v", seed, describe(kv), it.Err())
		}
	}
}

// insert adds an entry and keeps the position.
func (f *fake) insert(kv base.KV) {
	i, _ := slices.BinarySearchFunc(f.kvs, kv.InternalKey, compareKV)
	if f.kvs = slices.Insert(slices.Clone(f.kvs), i, kv); f.i >= i {
		f.i++
	}
}

func TestMerging_EqualKeysNewestSourceFirst(t *testing.T) {
	it := NewMerging(newFake(t, parse(t, "a#1,PUT=new")), newFake(t, parse(t, "a#1,PUT=old")), newFake(t, parse(t, "a#1,PUT=oldest")))
	for _, want := range []string{"new", "old", "oldest"} {
		kv := it.Next()
		if want == "new" {
			kv = it.First()
		}
		if kv == nil || string(kv.Value) != want {
			t.Errorf("forward: %s, want %s", describe(kv), want)
		}
	}
	for _, want := range []string{"oldest", "old", "new"} {
		kv := it.Prev()
		if want == "oldest" {
			kv = it.Last()
		}
		if kv == nil || string(kv.Value) != want {
			t.Errorf("backward: %s, want %s", describe(kv), want)
		}
	}
}

func TestMerging_NoneAndOne(t *testing.T) {
	none := &cursor{t: t, it: NewMerging(), i: -2}
	for op := range 6 {
		none.move(op, []byte("a"), 1)
	}
	if err := none.it.Close(); err != nil {
		t.Error(err)
	}
	f := newFake(t, nil)
	if it := NewMerging(f); it != base.Iterator(f) {
		t.Errorf("one child: %T, want the child itself", it)
	}
}

func TestMerging_CloseClosesAllAndJoins(t *testing.T) {
	children, fs := fakes(t, make([][]base.KV, 4))
	fs[1].close, fs[3].close = errors.New("one"), errors.New("three")
	it := NewMerging(children...)
	it.First()
	err := it.Close()
	for i, f := range fs {
		if f.closed != 1 {
			t.Errorf("child %d closed %d times", i, f.closed)
		}
		if f.close != nil && !errors.Is(err, f.close) {
			t.Errorf("Close() = %v, want %v in it", err, f.close)
		}
	}
	if err := it.Close(); err != nil {
		t.Errorf("second Close() = %v", err)
	}
}

// TestMerging_NearSeek checks which children a seek moves: in the direction of the last movement,
// those that are not at the target yet, and otherwise all.
func TestMerging_NearSeek(t *testing.T) {
	_, fs := fakes(t, [][]base.KV{
		parse(t, "a#1,PUT b#1,PUT c#1,PUT z#1,PUT"), parse(t, "a#2,PUT m#1,PUT"), parse(t, "a#3,PUT"),
	})
	m := NewMerging(fs[0], &stepping{fake: fs[1]}, &stepping{fake: fs[2]})
	defer m.Close()
	for _, s := range []struct {
		seek  string
		back  bool
		want  string
		moved [3]int // seeks of each child
	}{
		{"a", false, "a#3,PUT", [3]int{1, 1, 1}},
		{"aa", false, "b#1,PUT", [3]int{1, 1, 1}}, // all stood on a
		{"c", false, "c#1,PUT", [3]int{1, 0, 0}},  // the third is at its end, the second on m
		{"b", false, "b#1,PUT", [3]int{1, 1, 1}},  // back
		{"y", false, "z#1,PUT", [3]int{1, 1, 0}},
		{"zz", true, "z#1,PUT", [3]int{1, 1, 1}}, // the other direction
		{"n", true, "m#1,PUT", [3]int{1, 0, 0}},  // the others stand on m and a
		{"c", true, "b#1,PUT", [3]int{1, 1, 0}},
		{"d", true, "c#1,PUT", [3]int{1, 1, 1}},
	} {
		before := [3]int{fs[0].ops, fs[1].ops, fs[2].ops}
		var kv *base.KV
		if s.back {
			kv = m.SeekLT([]byte(s.seek))
		} else {
			kv = m.SeekGE([]byte(s.seek), base.MaxSeq)
		}
		moved := [3]int{fs[0].ops - before[0], fs[1].ops - before[1], fs[2].ops - before[2]}
		if got := describe(kv); got != s.want || moved != s.moved {
			t.Errorf("seek to %s, back %v: %s after %v seeks of the children, want %s after %v", s.seek, s.back, got, moved, s.want, s.moved)
		}
	}
}
