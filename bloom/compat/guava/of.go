package guava

import (
	"fmt"
	"sync"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Of is a Guava filter of values of type T, as BloomFilter<T> is in Java. A function, the
// funnel, puts the fields of a value into a Sink, in the order and with the methods of the
// Java program's Funnel<T>:
//
//	// In Java: (person, into) -> into.putInt(person.id).putString(person.name, UTF_8)
//	people, err := guava.NewOf(filter, func(p Person, s *guava.Sink) {
//		s.PutInt(p.ID)
//		s.PutString(p.Name, guava.UTF8)
//	})
//
// Goroutines may use it as they may use the filter below. It allocates nothing of its own.
// It has no serialized form: write and read the filter below. The zero Of has no filter
// below. It answers maybe to every value, and returns an error from Add.
type Of[T any] struct {
	filter *Filter // nil in the zero Of
	funnel func(t T, s *Sink)
}

// NewOf returns f as a filter of values. The funnel must not keep the Sink. Several
// goroutines may call it at once. It is an error if f or funnel is nil.
func NewOf[T any](f *Filter, funnel func(t T, s *Sink)) (*Of[T], error) {
	if f == nil || funnel == nil {
		return nil, fmt.Errorf("guava: new Of: %w: no filter, or no funnel", ErrParameters)
	}
	return &Of[T]{f, funnel}, nil
}

// sinks holds *Sink with their buffers for the next call. What the funnel receives is moved
// to the heap, so each call would allocate one.
var sinks = sync.Pool{New: func() any { return new(Sink) }}

// maxSink is the largest buffer in bytes that is kept for the next call.
const maxSink = 64 << 10

// done gives s back to sinks.
func (s *Sink) done() {
	if cap(s.key) <= maxSink {
		s.Reset()
		sinks.Put(s)
	}
}

// Add adds t. The error is [ErrParameters] for the zero Of, and if the filter
// below is the zero value.
func (o *Of[T]) Add(t T) error {
	if o.filter == nil || len(o.filter.words) == 0 {
		return fmt.Errorf("guava: add: %w: no filter below, or one without bits", ErrParameters)
	}
	o.CheckAndAdd(t)
	return nil
}

// Put adds t and reports whether a bit has changed, as put does. Any number of goroutines may call it at
// once: see [Filter.Put].
func (o *Of[T]) Put(t T) (changed bool) {
	if o.filter == nil {
		return false
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	changed = o.filter.put(bloom.Murmur3(s.key))
	s.done()
	return changed
}

// CheckAndAdd adds t, and reports whether it may have been there before: the opposite of
// what put returns.
func (o *Of[T]) CheckAndAdd(t T) bool {
	if o.filter == nil {
		return true
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	changed := o.filter.set(bloom.Murmur3(s.key))
	s.done()
	return !changed
}

// MayContain reports whether t may have been added, as mightContain does. False is certain.
func (o *Of[T]) MayContain(t T) bool {
	if o.filter == nil {
		return true
	}
	s := sinks.Get().(*Sink)
	o.funnel(t, s)
	may := o.filter.has(bloom.Murmur3(s.key))
	s.done()
	return may
}

// Filter returns the filter below.
func (o *Of[T]) Filter() *Filter { return o.filter }

// String describes the filter below in one line.
func (o Of[T]) String() string {
	if o.filter == nil {
		return "guava.Of: " + form.Zero
	}
	return "guava.Of: " + o.filter.String()
}

// MarshalText always returns an error, which is errors.ErrUnsupported: an Of has no serialized
// form. Without it an encoder would write an empty object and return no error.
func (o Of[T]) MarshalText() ([]byte, error) { return nil, form.ErrNone("guava.Of", form.WriteBelow) }

// UnmarshalText always returns an error: see MarshalText.
func (o *Of[T]) UnmarshalText([]byte) error { return form.ErrNone("guava.Of", form.WriteBelow) }
