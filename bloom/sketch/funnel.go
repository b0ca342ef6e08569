package sketch

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A View asks a filter of keys for values of type T. A function, the funnel, says which
// fields of a value are its key. It is for filters that nothing can be added to, such as a
// bloom.Static. An Of can add too.
//
// It may be used by several goroutines at once if the filter below may, and allocates
// nothing of its own. It has no serialized form: write the filter below. The zero View has no
// filter below, and answers maybe to every value.
type View[T any] struct {
	set    bloom.Set // nil in the zero View
	funnel func(t T, s *Sink)
}

// Of is a filter of values of type T in place of bytes:
//
//	visits := bloom.Must(sketch.NewOf(bloom.New(1e6, 0.01), func(v Visit, s *sketch.Sink) {
//		s.String(v.Host)
//		s.Uint64(v.User)
//	}))
//
// What the comment of View says holds here too. The zero Of returns an error from Add.
type Of[T any] struct {
	View[T]
	adder bloom.Adder // the set of the View
}

// A Remover is a filter that keys can be removed from, such as a Counting or a Cuckoo.
type Remover interface {
	bloom.Adder

	// Remove removes key, which must have been added, and reports whether it did.
	Remove(key []byte) bool
}

// OfRemover is an Of over a filter that keys can be removed from.
type OfRemover[T any] struct {
	Of[T]
	remover Remover // the set of the View
}

// NewView returns set as a filter of values that can be asked. The funnel writes to the Sink
// the fields that make two values different, and always the same fields for equal values. It
// must not keep the Sink. The error says that set or funnel is nil.
func NewView[T any](set bloom.Set, funnel func(t T, s *Sink)) (*View[T], error) {
	if set == nil || funnel == nil {
		return nil, errors.New("bloom: new filter of values: no filter, or no funnel")
	}
	return &View[T]{set: set, funnel: funnel}, nil
}

// NewOf returns set as a filter of values that can be added. The funnel and the error are
// those of NewView.
func NewOf[T any](set bloom.Adder, funnel func(t T, s *Sink)) (*Of[T], error) {
	v, err := NewView(set, funnel)
	if err != nil {
		return nil, err
	}
	return &Of[T]{View: *v, adder: set}, nil
}

// NewOfRemover returns set as a filter of values that can be added and removed. The funnel
// and the error are those of NewView.
func NewOfRemover[T any](set Remover, funnel func(t T, s *Sink)) (*OfRemover[T], error) {
	o, err := NewOf(set, funnel)
	if err != nil {
		return nil, err
	}
	return &OfRemover[T]{Of: *o, remover: set}, nil
}

// Add adds t. It returns the error of the filter below.
func (o *Of[T]) Add(t T) error {
	if o.adder == nil {
		return errors.New("bloom: add: the zero Of takes no values; make one with NewOf")
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	err := o.adder.Add(s.key)
	s.done()
	return err
}

// MayContain reports whether t may have been added. False is certain.
func (v *View[T]) MayContain(t T) bool {
	if v.set == nil {
		return true
	}
	s := sinks.Get().(*Sink)
	v.funnel(t, s)
	may := v.set.MayContain(s.key)
	s.done()
	return may
}

// Remove removes t, which must have been added. It returns what the filter below returns.
func (o *OfRemover[T]) Remove(t T) bool {
	if o.remover == nil {
		return false
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	removed := o.remover.Remove(s.key)
	s.done()
	return removed
}

// Filter returns the filter below.
func (v *View[T]) Filter() bloom.Set { return v.set }

// A Sink collects the fields of a value as bytes. It keeps a field apart from its
// neighbours, and fields of different kinds apart: ("ab", "c") and ("a", "bc")
// are different values, and so are Uint64(1) and Int64(1). The zero Sink is empty
// and ready to use.
//
// The bytes of a field never change, because serialized filters rely on them. The first
// byte is the kind. A number follows as 8 bytes, little-endian, a bool as one byte, and a
// string as its length in a varint and its bytes.
type Sink struct{ key []byte }

// The kinds of fields. Part of the format, never changes.
const (
	sinkBytes   = 1
	sinkUint64  = 2
	sinkInt64   = 3
	sinkFloat64 = 4
	sinkBool    = 5
)

// sinks holds *Sink with their buffers for the next call. What the funnel receives is moved
// to the heap, so each call would allocate one.
var sinks = sync.Pool{New: func() any { return new(Sink) }}

// done gives s back to sinks.
func (s *Sink) done() {
	if cap(s.key) <= form.MaxScratch {
		s.key = s.key[:0]
		sinks.Put(s)
	}
}

// Bytes adds a field of bytes, which are copied. An empty slice is a field too, and so
// is nil, which is equal to it.
func (s *Sink) Bytes(b []byte) {
	s.key = append(binary.AppendUvarint(append(s.key, sinkBytes), uint64(len(b))), b...)
}

// String adds a string. It is the same as adding its bytes.
func (s *Sink) String(v string) {
	s.key = append(binary.AppendUvarint(append(s.key, sinkBytes), uint64(len(v))), v...)
}

// Uint64 adds a number.
func (s *Sink) Uint64(v uint64) { s.word(sinkUint64, v) }

// Int64 adds a number.
func (s *Sink) Int64(v int64) { s.word(sinkInt64, uint64(v)) }

// Float64 adds a number. 0 and -0 are the same field, and all NaN are the same.
func (s *Sink) Float64(v float64) {
	switch {
	case v == 0:
		v = 0
	case math.IsNaN(v):
		v = math.NaN()
	}
	s.word(sinkFloat64, math.Float64bits(v))
}

// Bool adds a truth value.
func (s *Sink) Bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	s.key = append(s.key, sinkBool, b)
}

func (s *Sink) word(kind byte, v uint64) {
	s.key = binary.LittleEndian.AppendUint64(append(s.key, kind), v)
}

// Key returns the bytes of the fields that s has taken, for a caller that asks a filter
// without an Of. They are valid until the next call of a method of s.
func (s *Sink) Key() []byte { return s.key }

// Reset empties s.
func (s *Sink) Reset() { s.key = s.key[:0] }
