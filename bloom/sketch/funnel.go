package sketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Of is a filter of values of type T in place of bytes. A function, the funnel, says which
// fields of a value are its key:
//
//	visits := sketch.NewOf(bloom.New(1e6, 0.01), func(v Visit, s *sketch.Sink) {
//		s.String(v.Host)
//		s.Uint64(v.User)
//	})
//
// It may be used by several goroutines at once if the filter below may, and allocates
// nothing of its own. It has no serialized form: write the filter below. The zero Of has no
// filter below. It answers maybe to every value, and returns an error from Add.
type Of[T any] struct {
	asker  Asker // nil in the zero Of
	add    func(key []byte) error
	remove func(key []byte) bool
	funnel func(t T, s *Sink)
}

// An Asker is a filter that can be asked for keys: a Filter, Scalable, Counting,
// Cuckoo or Exact, or a function.
type Asker interface {
	// MayContain reports whether key may be in the filter. False is certain. The key is
	// only lent: the filter must not keep it.
	MayContain(key []byte) bool
}

// AskerFunc is a function as an Asker. With it a Static, which is asked for
// hashes, is an Asker too:
//
//	sketch.AskerFunc(func(key []byte) bool { return s.MayContain(s.Hasher().Hash(key)) })
type AskerFunc func(key []byte) bool

// MayContain returns f(key).
func (f AskerFunc) MayContain(key []byte) bool { return f(key) }

// NewOf returns f as a filter of values. The funnel writes to the Sink the fields
// that make two values different, and always the same fields for equal values. It
// must not keep the Sink.
//
// NewOf adds keys with the method Add of f, and removes them with its method Remove. Add
// takes the key, and returns nothing, a bool, an error, or a bool and an error. Remove
// takes the key and returns a bool. The filters of this package and of the packages
// below it have such methods. If f has neither, the result can only be asked. NewOf
// panics if Add or Remove has another form; then f needs a type around it. It also
// panics if f or funnel is nil.
func NewOf[T any](f Asker, funnel func(t T, s *Sink)) *Of[T] {
	if f == nil || funnel == nil {
		panic(errors.New("bloom: new Of: no filter, or no funnel"))
	}
	o := &Of[T]{asker: f, funnel: funnel}
	switch a := f.(type) {
	case interface{ Add(key []byte) }:
		o.add = func(key []byte) error { a.Add(key); return nil }
	case interface{ Add(key []byte) error }:
		o.add = a.Add
	case interface{ Add(key []byte) bool }:
		o.add = func(key []byte) error { a.Add(key); return nil }
	case interface {
		Add(key []byte) (bool, error)
	}:
		o.add = func(key []byte) error { _, err := a.Add(key); return err }
	default:
		m, found := reflect.TypeOf(f).MethodByName("Add")
		refuse(f, m, found)
	}
	if r, ok := f.(interface{ Remove(key []byte) bool }); ok {
		o.remove = r.Remove
	} else {
		m, found := reflect.TypeOf(f).MethodByName("Remove")
		refuse(f, m, found)
	}
	return o
}

// refuse panics if f has the method m. NewOf does not know the form of the method, so each
// such call of the Of would fail.
func refuse(f Asker, m reflect.Method, found bool) {
	if found {
		panic(fmt.Errorf("bloom: new Of: %T has a method %s that is %v, not one that NewOf knows", f, m.Name, m.Type))
	}
}

// Add adds t. It returns the error of the filter below, or an error that says that nothing
// can be added to that filter.
func (o *Of[T]) Add(t T) error {
	if o.asker == nil {
		return errors.New("bloom: add: this Of was not made by NewOf")
	}
	if o.add == nil {
		return fmt.Errorf("bloom: add: a %T cannot be added to", o.asker)
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	err := o.add(s.key)
	s.done()
	return err
}

// MayContain reports whether t may have been added. False is certain.
func (o *Of[T]) MayContain(t T) bool {
	if o.asker == nil {
		return true
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	may := o.asker.MayContain(s.key)
	s.done()
	return may
}

// Remove removes t, which must have been added. It returns what the filter below returns,
// or false if that filter has no Remove.
func (o *Of[T]) Remove(t T) bool {
	if o.remove == nil {
		return false
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	removed := o.remove(s.key)
	s.done()
	return removed
}

// Filter returns the filter below.
func (o *Of[T]) Filter() Asker { return o.asker }

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
