package sketch

import (
	"bytes"
	"encoding"
	"errors"
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A savedKind is a type that can be opened in its bytes.
type savedKind struct {
	name    string
	make    func(t testing.TB) encoding.BinaryMarshaler
	open    func(b []byte) (encoding.BinaryMarshaler, error)
	zero    func() encoding.BinaryUnmarshaler
	changes map[string]func(f any)
}

func opener[T any, P interface {
	*T
	encoding.BinaryMarshaler
}](open func(b []byte) (*T, error)) func(b []byte) (encoding.BinaryMarshaler, error) {
	return func(b []byte) (encoding.BinaryMarshaler, error) {
		f, err := open(b)
		if err != nil {
			return nil, err
		}
		return P(f), nil
	}
}

func addKey(f any) { bloom.Must(0, f.(bloom.Adder).Add([]byte("another"))) }

var savedKinds = []savedKind{
	{"Counting", func(testing.TB) encoding.BinaryMarshaler { return countingOf(CountingOptions{Keys: 100}, 100) }, opener(OpenCounting),
		func() encoding.BinaryUnmarshaler { return new(Counting) }, map[string]func(f any){
			"Add": addKey, "Remove": func(f any) { f.(*Counting).Remove(filtertest.Numbered(3)) }, "Reset": func(f any) { f.(*Counting).Reset() },
			"Union": func(f any) { bloom.Must(0, f.(*Counting).Union(countingOf(CountingOptions{Keys: 100}, 50))) },
		}},
	{"Cuckoo", func(testing.TB) encoding.BinaryMarshaler { return cuckooOf(CuckooOptions{Keys: 100}, 115) }, opener(OpenCuckoo),
		func() encoding.BinaryUnmarshaler { return new(Cuckoo) }, map[string]func(f any){
			"Remove":  func(f any) { f.(*Cuckoo).Remove(filtertest.Numbered(3)) },
			"replace": func(f any) { f.(*Cuckoo).Remove(filtertest.Numbered(3)); addKey(f) }, "Reset": func(f any) { f.(*Cuckoo).Reset() },
		}},
	{"Bitset", func(testing.TB) encoding.BinaryMarshaler { return bitsetOf(0, 1, 3, 64, 1000) }, opener(OpenBitset),
		func() encoding.BinaryUnmarshaler { return new(Bitset) }, map[string]func(f any){
			"Set": func(f any) { bloom.Must(0, f.(*Bitset).Set(77)) }, "Set beyond": func(f any) { bloom.Must(0, f.(*Bitset).Set(7777)) },
			"Clear": func(f any) { f.(*Bitset).Clear(3) }, "Reset": func(f any) { f.(*Bitset).Reset() }, "Compact": func(f any) { f.(*Bitset).Compact() },
			"Union":     func(f any) { bloom.Must(0, f.(*Bitset).Union(bitsetOf(0, 5))) },
			"Intersect": func(f any) { bloom.Must(0, f.(*Bitset).Intersect(bitsetOf(0, 3))) },
		}},
	{"Scalable", func(t testing.TB) encoding.BinaryMarshaler { return scalableOf(t, 10, 0.01, ScalableOptions{}, 100) }, opener(OpenScalable),
		func() encoding.BinaryUnmarshaler { return new(Scalable) }, map[string]func(f any){
			"Add": addKey, "grow": func(f any) {
				for i := range 300 {
					bloom.Must(0, f.(*Scalable).Add(filtertest.Numbered(i)))
				}
			}, "Reset": func(f any) { f.(*Scalable).Reset() },
		}},
}

// What is opened is the same as what is read, also after each change, and never changes the
// bytes that it was opened from, wherever they begin.
func TestOpen_CopiesAtTheFirstChange(t *testing.T) {
	for _, k := range savedKinds {
		written := filtertest.Marshal(t, k.make(t))
		for offset := range 9 {
			b := append(make([]byte, offset, offset+len(written)), written...)[offset:]
			for name, change := range k.changes {
				opened, err := k.open(b)
				if err != nil {
					t.Fatalf("%s: %v", k.name, err)
				}
				if !bytes.Equal(filtertest.Marshal(t, opened), written) {
					t.Errorf("%s: written again it is another", k.name)
				}
				read := k.zero()
				if err := read.UnmarshalBinary(b); err != nil {
					t.Fatal(err)
				}
				for _, f := range []any{opened, read} {
					change(f)
				}
				if !bytes.Equal(b, written) {
					t.Fatalf("%s, offset %d: %s changed the bytes", k.name, offset, name)
				}
				if !bytes.Equal(filtertest.Marshal(t, opened), filtertest.Marshal(t, read.(encoding.BinaryMarshaler))) {
					t.Errorf("%s, offset %d: after %s it is another than one that was read", k.name, offset, name)
				}
			}
		}
	}
}

// A copy of an opened filter does not lean on the bytes.
func TestOpen_CloneIsFree(t *testing.T) {
	b := filtertest.Marshal(t, countingOf(CountingOptions{Keys: 100}, 100))
	c := filtertest.Marshal(t, cuckooOf(CuckooOptions{Keys: 100}, 100))
	counting, cuckoo := bloom.Must(OpenCounting(b)).Clone(), bloom.Must(OpenCuckoo(c)).Clone()
	clear(b)
	clear(c)
	filtertest.CheckHas(t, counting, 0, 100)
	filtertest.CheckHas(t, cuckoo, 0, 100)
	if strconv.IntSize == 32 {
		return // a Bitset has no such numbers there
	}
	if again := bloom.Must(OpenBitset(filtertest.Marshal(t, bitsetOf(1<<40, 1<<33)))); !again.Has(1<<33) || again.Limit() < 1<<33 {
		t.Errorf("a large number is not opened: limit %d", again.Limit())
	}
}

// FuzzOpen gives bytes to all decoders that keep them. They agree with those that copy, and
// no change of what they return changes the bytes.
func FuzzOpen(f *testing.F) {
	goldens(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, filtertest.Reseal(b)} {
			kept := bytes.Clone(b)
			for _, k := range savedKinds {
				var opened encoding.BinaryMarshaler
				var err error
				decodeLimit.Check(t, len(b), func() { opened, err = k.open(b) })
				failed := k.zero().UnmarshalBinary(b)
				if (failed == nil) != (err == nil) && !errors.Is(failed, ErrRange) {
					t.Fatalf("%s: opened: %v, read: %v", k.name, err, failed)
				}
				if err != nil {
					if errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) {
						t.Fatalf("%s: %v", k.name, err)
					}
					continue
				}
				if !bytes.Equal(filtertest.Marshal(t, opened), b) {
					t.Fatalf("%s: written again it is another", k.name)
				}
				probeOpened(t, opened, b)
				if !bytes.Equal(b, kept) {
					t.Fatalf("%s: the bytes changed", k.name)
				}
			}
		}
	})
}

// probeOpened asks and changes a filter that may have any bytes.
func probeOpened(t *testing.T, opened any, key []byte) {
	switch f := opened.(type) {
	case *Bitset:
		was := f.Has(77)
		if err := f.Set(77); err != nil || !f.Has(77) || !was && !f.Clear(77) {
			t.Fatalf("Set: %v", err)
		}
	case *Scalable:
		if last := f.layers[len(f.layers)-1]; last.Count < last.capacity && f.Add(key) == nil && !f.MayContain(key) {
			t.Fatal("an added key is denied")
		}
	case interface {
		bloom.Adder
		Count() uint64
	}:
		if f.Count() < 1<<63 && f.Add(key) == nil && !f.MayContain(key) {
			t.Fatal("an added key is denied")
		}
	}
}
