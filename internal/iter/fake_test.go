package iter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// A fake is a child over a sorted slice that is strict about the contract of
// base.Iterator. It fails the test when it is stepped without a position, used
// after an error, or used or closed after Close. It returns the same KV each
// time, and overwrites the previous entry. Its failAt-th operation fails.
type fake struct {
	t      testing.TB
	kvs    []base.KV
	i      int // -2: nowhere
	kv     base.KV
	ops    int
	failAt int // 0: never
	failed error
	closed int
	close  error
}

func newFake(t testing.TB, kvs []base.KV) *fake { return &fake{t: t, kvs: kvs, i: -2} }

func (f *fake) op(name string, i int) *base.KV {
	if f.closed > 0 {
		f.t.Errorf("%s after Close", name)
	}
	if (name == "Next" || name == "Prev") && (f.i < 0 || f.i >= len(f.kvs)) {
		f.t.Errorf("%s without a position", name)
	}
	f.ops++
	f.i, f.failed = i, nil
	if f.ops == f.failAt {
		f.i, f.failed = -2, fmt.Errorf("%s failed as operation %d", name, f.ops)
	}
	clear(f.kv.UserKey)
	if f.i < 0 || f.i >= len(f.kvs) {
		return nil
	}
	kv := f.kvs[f.i]
	f.kv = base.KV{InternalKey: base.InternalKey{UserKey: append(f.kv.UserKey[:0], kv.UserKey...), Trailer: kv.Trailer}, Value: kv.Value}
	return &f.kv
}

func (f *fake) First() *base.KV { return f.op("First", 0) }
func (f *fake) Last() *base.KV  { return f.op("Last", len(f.kvs)-1) }
func (f *fake) Next() *base.KV  { return f.op("Next", f.i+1) }
func (f *fake) Prev() *base.KV  { return f.op("Prev", f.i-1) }
func (f *fake) Err() error      { return f.failed }
func (f *fake) SeekGE(key []byte, seq base.Seq) *base.KV {
	return f.op("SeekGE", seekGE(f.kvs, key, seq))
}
func (f *fake) SeekLT(key []byte) *base.KV {
	return f.op("SeekLT", seekGE(f.kvs, key, base.MaxSeq)-1)
}

func (f *fake) Close() error {
	if f.closed++; f.closed > 1 {
		f.t.Error("closed twice")
	}
	return f.close
}

// A stepping is a fake that takes seeks in steps, and is strict about those too.
type stepping struct {
	*fake
	steps int
	seek  string // which one is under way
}

func (f *stepping) step(step int, seek string) {
	if step == 0 {
		f.steps, f.seek = 0, seek
	}
	if f.closed > 0 || step != f.steps || seek != f.seek {
		f.t.Errorf("step %d of %s, want %d of %s", step, seek, f.steps, f.seek)
	}
	f.steps++
	f.i = -2 // there is no position until the end
}

func (f *stepping) end(seek string) {
	if f.steps != base.SeekSteps || seek != f.seek {
		f.t.Errorf("end of %s after %d steps of %s", seek, f.steps, f.seek)
	}
	f.steps = 0
}

func (f *stepping) SeekStep(step int, key []byte, seq base.Seq) {
	f.step(step, fmt.Sprintf("SeekGE(%q, %d)", key, seq))
}

func (f *stepping) SeekEnd(key []byte, seq base.Seq) *base.KV {
	f.end(fmt.Sprintf("SeekGE(%q, %d)", key, seq))
	return f.SeekGE(key, seq)
}

func (f *stepping) SeekLTStep(step int, key []byte) { f.step(step, fmt.Sprintf("SeekLT(%q)", key)) }

func (f *stepping) SeekLTEnd(key []byte) *base.KV {
	f.end(fmt.Sprintf("SeekLT(%q)", key))
	return f.SeekLT(key)
}

// seekGE returns the index of the first entry at or after (key, seq).
func seekGE(kvs []base.KV, key []byte, seq base.Seq) int {
	i, _ := slices.BinarySearchFunc(kvs, base.NewKey(key, seq, base.KindMax), compareKV)
	return i
}

func compareKV(kv base.KV, k base.InternalKey) int { return base.Compare(kv.InternalKey, k) }

// parse reads entries in text notation, separated by blanks; a value may
// follow: a#1,PUT=x.
func parse(t testing.TB, text string) []base.KV {
	t.Helper()
	var kvs []base.KV
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		k, err := base.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, base.KV{InternalKey: k, Value: []byte(value)})
	}
	if !slices.IsSortedFunc(kvs, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) }) {
		t.Fatalf("%s is not sorted", text)
	}
	return kvs
}

func describe(kv *base.KV) string {
	if kv == nil {
		return "."
	}
	if len(kv.Value) == 0 {
		return kv.String()
	}
	return fmt.Sprintf("%s=%s", kv, kv.Value)
}

// A cursor is an iterator under test, together with
// the index where it should be in a sorted slice.
type cursor struct {
	t    *testing.T
	it   base.Iterator
	want []base.KV
	i    int
}

// move makes the movement that op and key stand for, checks the result, and
// returns the movement as text. Steps without a position must return nil.
func (c *cursor) move(op int, key []byte, seq base.Seq) string {
	c.t.Helper()
	valid := c.i >= 0 && c.i < len(c.want)
	var got *base.KV
	var what string
	switch op {
	case 0:
		what, got, c.i = "First", c.it.First(), 0
	case 1:
		what, got, c.i = "Last", c.it.Last(), len(c.want)-1
	case 2:
		what, got, c.i = fmt.Sprintf("SeekGE(%q, %d)", key, seq), c.it.SeekGE(key, seq), seekGE(c.want, key, seq)
	case 3:
		what, got, c.i = fmt.Sprintf("SeekLT(%q)", key), c.it.SeekLT(key), seekGE(c.want, key, base.MaxSeq)-1
	case 4:
		what, got = "Next", c.it.Next()
		if valid {
			c.i++
		}
	case 5:
		what, got = "Prev", c.it.Prev()
		if valid {
			c.i--
		}
	}
	want := "."
	if c.i >= 0 && c.i < len(c.want) {
		want = describe(&c.want[c.i])
	}
	if err := c.it.Err(); describe(got) != want || err != nil {
		c.t.Fatalf("%s = %s, %v, want %s", what, describe(got), err, want)
	}
	return what
}

// equalKV reports whether an iterator has returned exactly this entry.
func equalKV(got *base.KV, want base.KV) bool {
	return got != nil && base.Compare(got.InternalKey, want.InternalKey) == 0 && bytes.Equal(got.Value, want.Value)
}
