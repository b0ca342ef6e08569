package txn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// add appends an operation to data, in the form of a batch, and adds it to o.
func add(o *Overlay, data []byte, key, value string, kind base.Kind) []byte {
	at := len(data)
	data = append(data, byte(kind))
	data = append(binary.AppendUvarint(data, uint64(len(key))), key...)
	if kind != base.KindDelete {
		data = append(binary.AppendUvarint(data, uint64(len(value))), value...)
	}
	o.Add(data, at, []byte(key))
	return data
}

// An overlay and its iterators behave as a sorted map does; an iterator shows the time when it was made.
func TestOverlay_Model(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for range 30 {
		var o Overlay
		data := make([]byte, 20) // as before the operations of a batch
		model := map[string]string{}
		key := func() string { return fmt.Sprintf("a key with a long beginning %02d", r.IntN(40))[r.IntN(2)*27:] }
		for n := range 200 {
			k, v := key(), fmt.Sprint(n)
			if r.IntN(4) == 0 {
				data, v = add(&o, data, k, "", base.KindDelete), ""
			} else {
				data = add(&o, data, k, v, base.KindPut)
			}
			model[k] = v
			k = key()
			value, kind, found := o.Find([]byte(k))
			if want, there := model[k]; found != there || string(value) != want || found && (kind == base.KindDelete) != (want == "") {
				t.Fatalf("Find(%q) = %q, %v, %v; want %q, %v", k, value, kind, found, want, there)
			}
			if n%10 == 0 {
				then := maps.Clone(model)
				it := o.NewIterator()
				k := key()
				data, model[k] = add(&o, data, k, "later", base.KindPut), "later"
				walk(t, r, it, then, key)
			}
		}
		if o.Len() != len(model) {
			t.Errorf("%d keys, want %d", o.Len(), len(model))
		}
		o.Reset()
		if _, _, found := o.Find([]byte("x")); found || o.Len() != 0 {
			t.Error("not empty after Reset")
		}
	}
}

// walk moves it at random and compares it with the map.
func walk(t *testing.T, r *rand.Rand, it *Iterator, model map[string]string, key func() string) {
	keys := slices.Sorted(maps.Keys(model))
	at := -1
	for range 30 {
		var kv *base.KV
		k := key()
		i, there := slices.BinarySearch(keys, k)
		switch n := r.IntN(10); {
		case n == 0:
			kv, at = it.First(), 0
		case n == 1:
			kv, at = it.Last(), len(keys)-1
		case n == 2 || at < 0 || at >= len(keys):
			kv, at = it.SeekGE([]byte(k), 7), i
		case n == 3:
			if kv, at = it.SeekGE([]byte(k), 0), i; there {
				at++ // behind the writes of k
			}
		case n == 4:
			kv, at = it.SeekLT([]byte(k)), i-1
		case n < 8:
			kv = it.Next()
			at++
		default:
			kv = it.Prev()
			at--
		}
		if at < 0 || at >= len(keys) {
			if kv != nil {
				t.Fatalf("it stands on %q, want nothing", kv.UserKey)
			}
			continue
		}
		if kv == nil || string(kv.UserKey) != keys[at] || string(kv.Value) != model[keys[at]] || kv.Seq() != OwnSeq || (kv.Kind() == base.KindDelete) != (model[keys[at]] == "") {
			t.Fatalf("it stands on %v, want %q", kv, keys[at])
		}
	}
}

// A ReadSet has what was added, and nothing else as long as it is small. Folded, it has all of that, and more.
func TestReadSet_Model(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	key := func() []byte { return fmt.Appendf(nil, "%03d", r.IntN(200)) }
	for round := range 200 {
		var s ReadSet
		var points [][]byte
		var spans []Span
		for range r.IntN(30) {
			if r.IntN(2) == 0 {
				k := key()
				points = append(points, k)
				s.AddKey(k)
				continue
			}
			sp := Span{key(), key(), End(r.IntN(3))}
			if sp.End == AtUpper && bytes.Compare(sp.Lower, sp.Upper) > 0 {
				sp.Lower, sp.Upper = sp.Upper, sp.Lower // else it may be one of a range whose bounds are the wrong way round
			}
			if s.AddSpan(sp); sp.End != BeforeUpper || bytes.Compare(sp.Lower, sp.Upper) < 0 {
				spans = append(spans, sp)
			}
		}
		folded := round%4 == 3 && !s.Empty()
		if folded {
			s.fold()
		}
		has := func(k []byte) bool {
			return slices.ContainsFunc(points, func(p []byte) bool { return bytes.Equal(p, k) }) ||
				slices.ContainsFunc(spans, func(sp Span) bool { return bytes.Compare(sp.Lower, k) <= 0 && sp.Reaches(k) })
		}
		some := func(from, to int) bool {
			for i := from; i <= to; i++ {
				if has(fmt.Appendf(nil, "%03d", i)) {
					return true
				}
			}
			return false
		}
		for i := range 200 {
			k := fmt.Appendf(nil, "%03d", i)
			if got := s.Has(Hash(k), k); got != has(k) {
				t.Fatalf("Has(%s) = %v; points %s, spans %v", k, got, points, spans)
			}
			// A span between two neighbouring keys is not among the keys of the model.
			to := min(i+r.IntN(5), 199)
			if some(i, to) && !s.HasIn(Span{k, fmt.Appendf(nil, "%03d", to), AtUpper}) || some(i, to-1) && !s.HasIn(Span{k, fmt.Appendf(nil, "%03d", to), BeforeUpper}) ||
				some(i, 199) && !s.HasIn(Span{Lower: k, End: Unbounded}) {
				t.Fatalf("HasIn(%s, %d) = false", k, to)
			}
			if !folded && len(spans) == 0 && s.HasIn(Span{k, fmt.Appendf(nil, "%03d", to), BeforeUpper}) != some(i, to-1) {
				t.Fatalf("HasIn(%s, %d) is not %v", k, to, some(i, to-1))
			}
		}
		if s.Empty() != (len(points)+len(spans) == 0) {
			t.Errorf("Empty = %v", s.Empty())
		}
		s.Reset()
		if k := key(); !s.Empty() || s.Has(Hash(k), k) {
			t.Error("not empty after Reset")
		}
	}
}

// A million reads take bounded memory, and none of them is forgotten.
func TestReadSet_Large(t *testing.T) {
	var s ReadSet
	const n = 1_000_000
	for i := range n {
		k := fmt.Appendf(nil, "key/%08d", i*7%n*2)
		s.AddKey(k)
		if i%10 == 0 {
			s.AddSpan(Span{k, k, AtUpper})
		}
	}
	if len(s.Spans()) > 300_000 || len(s.keys) > maxBytes {
		t.Errorf("%d spans, %d bytes of keys", len(s.Spans()), len(s.keys))
	}
	for i := range n {
		if k := fmt.Appendf(nil, "key/%08d", i*2); !s.Has(Hash(k), k) {
			t.Fatalf("%s is forgotten", k)
		}
	}
	if k := []byte("key0"); s.Has(Hash(k), k) {
		t.Error("it has a key above all")
	}
}
