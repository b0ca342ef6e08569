package typed

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/shaledb/shale"
)

// An Index finds the entries of a Map by what their values say. Put and Delete of the map change it.
type Index[K, V, S any] struct {
	m      *Map[K, V]
	name   string
	prefix []byte
	codec  KeyCodec[S]
	find   func(V) []S
	unique bool
}

var (
	// ErrNotUnique is wrapped by the error of a Put that would give a unique index a second entry with the same value.
	ErrNotUnique = errors.New("not unique in index")

	// ErrNotBuilt is wrapped by the error of a call on a map whose indexes in the store are not those of the program, or
	// not complete. Build makes them so.
	ErrNotBuilt = errors.New("indexes are not built")

	errMissing = errors.New("an index has it, and the map does not: see Check")
)

// NewIndex declares an index of m, which finds each entry by what of returns for its value. of must return the same for
// the same value each time; if that is to change, the index needs another name. All indexes of a map are declared before
// the map is used. A second index of the same name is a mistake in the program: writes of the map, and scans of its
// indexes, say so.
func NewIndex[K, V, S any](m *Map[K, V], name string, codec KeyCodec[S], of func(V) S) *Index[K, V, S] {
	return NewMultiIndex(m, name, codec, func(value V) []S { return []S{of(value)} })
}

// NewMultiIndex declares an index that finds an entry by each of what of returns for its value: tags, for example. If
// it returns nothing, the index does not have the entry. See [NewIndex].
func NewMultiIndex[K, V, S any](m *Map[K, V], name string, codec KeyCodec[S], of func(V) []S) *Index[K, V, S] {
	prefix, _ := String.append(m.place(indexArea), name, true) // no string is refused
	x := &Index[K, V, S]{m: m, name: name, prefix: prefix, codec: codec, find: of}
	at := sort.Search(len(m.indexes), func(i int) bool { return m.indexes[i].title() >= name })
	if at < len(m.indexes) && m.indexes[at].title() == name {
		m.mistake = m.wrap(fmt.Errorf("the program declares index %q twice", name))
		return x
	}
	m.indexes = slices.Insert(m.indexes, at, indexed[K, V](x))
	m.complete, m.building = stateOf(complete, m.indexes), stateOf(building, m.indexes)
	return x
}

// Unique makes x refuse, with [ErrNotUnique], a second entry with the same value, and returns x. It belongs to the
// declaration of x. Where several entries may have the same value already, Build it first without, mend these entries,
// and see that Check finds no more.
func (x *Index[K, V, S]) Unique() *Index[K, V, S] {
	x.unique = true
	return x
}

func (x *Index[K, V, S]) title() string  { return x.name }
func (x *Index[K, V, S]) area() []byte   { return x.prefix }
func (x *Index[K, V, S]) isUnique() bool { return x.unique }

func (x *Index[K, V, S]) of(key []byte, value V) ([][]byte, error) {
	by := x.find(value)
	all := make([][]byte, len(by))
	for i, s := range by {
		b, err := x.codec.append(bytes.Clone(x.prefix), s, true)
		if all[i] = append(b, key...); err == nil && len(all[i]) > shale.MaxKeySize {
			err = shale.ErrKeyTooLarge // before anything is written
		}
		if err != nil {
			return nil, fmt.Errorf("index %q: %w", x.name, err)
		}
	}
	slices.SortFunc(all, bytes.Compare)
	return slices.CompactFunc(all, bytes.Equal), nil
}

// A Found is an entry that an index has found, by By.
type Found[S, K, V any] struct {
	By S // what the index sorts the entry by
	Entry[K, V]
}

// Get returns the first entry with s, in the order of keys, or shale.ErrNotFound. Of a unique index it is the only one.
func (x *Index[K, V, S]) Get(r shale.Reader, s S) (key K, value V, err error) {
	only := Only(s)
	only.Limit = 1
	for found, err := range x.Scan(r, only) {
		return found.Key, found.Value, err
	}
	return key, value, shale.ErrNotFound
}

// Scan walks the entries of a range of the index: by what the index sorts by, and entries where that is equal by key. All
// that a loop shows is one state of r. An error ends the loop and is yielded once, with a zero Found.
func (x *Index[K, V, S]) Scan(r shale.Reader, by Range[S]) iter.Seq2[Found[S, K, V], error] {
	return func(yield func(Found[S, K, V], error) bool) {
		if err := x.scan(r, by, func(f Found[S, K, V]) bool { return yield(f, nil) }); err != nil {
			yield(Found[S, K, V]{}, err)
		}
	}
}

// scan calls yield with the entries of a range, until it returns false.
func (x *Index[K, V, S]) scan(r shale.Reader, by Range[S], yield func(Found[S, K, V]) bool) error {
	in, err := by.in(x.prefix, x.codec, true)
	if err != nil {
		return x.wrap(err)
	}
	it := x.m.iterate(r)
	defer it.Close()
	if err := it.built(); err != nil {
		return err
	}
	return it.walk(in, func(raw, _ []byte) (bool, error) {
		f, err := x.found(raw)
		if err == nil && !by.KeysOnly {
			f.Value, err = it.entry(f.Key)
		}
		return err == nil && yield(f), err
	})
}

// found decodes a key of the index.
func (x *Index[K, V, S]) found(raw []byte) (f Found[S, K, V], err error) {
	by, rest, err := x.codec.decode(raw[len(x.prefix):], true)
	if err == nil {
		f.By = by
		f.Key, _, err = x.m.keys.decode(rest, false)
	}
	if err != nil {
		return f, x.wrap(fmt.Errorf("%q is no key of it: %w", raw, err))
	}
	return f, nil
}

func (x *Index[K, V, S]) split(raw []byte) (by, key []byte, err error) {
	_, key, err = x.codec.decode(raw[len(x.prefix):], true)
	if err != nil {
		return nil, nil, x.wrap(fmt.Errorf("%q is no key of it: %w", raw, err))
	}
	return raw[:len(raw)-len(key)], key, nil
}

func (x *Index[K, V, S]) wrap(err error) error {
	return x.m.wrap(fmt.Errorf("index %q: %w", x.name, err))
}

// An iterator shows one state of a map, its indexes included. One cursor does all, since two need not see the same state.
type iterator[K, V any] struct {
	*shale.Iterator
	m   *Map[K, V]
	r   shale.Reader
	buf []byte
}

func (m *Map[K, V]) iterate(r shale.Reader) *iterator[K, V] {
	all := shale.Range{Lower: m.entries, Upper: m.place(areasEnd)}
	return &iterator[K, V]{Iterator: r.NewIterator(all), m: m, r: r}
}

// has moves to a key, and reports whether it is there.
func (it *iterator[K, V]) has(key []byte) (bool, error) {
	found := it.SeekGE(key) && bytes.Equal(it.Key(), key)
	return found, it.err()
}

// err returns the error of the last movement.
func (it *iterator[K, V]) err() error {
	if err := it.Err(); err != nil {
		return it.m.wrap(err)
	}
	return nil
}

// built returns an error if the indexes are not complete. In a map without entries they are.
func (it *iterator[K, V]) built() error {
	if it.m.mistake != nil {
		return it.m.mistake
	}
	var s []byte
	found, err := it.has(it.m.state)
	if found {
		s = it.Value()
	} else if err == nil {
		empty := !begin(it.Iterator, shale.Prefix(it.m.entries))
		if err = it.err(); empty {
			return err
		}
	}
	if err == nil && !bytes.Equal(s, it.m.complete) {
		err = it.m.notBuilt(s)
	}
	return err
}

// entry returns the value of a key that an index has found.
func (it *iterator[K, V]) entry(key K) (value V, err error) {
	if it.buf, err = it.m.appendKey(it.buf[:0], key); err != nil {
		return value, err
	}
	found, err := it.has(it.buf)
	if err == nil && !found {
		err = it.m.failed(key, errMissing)
	}
	if err == nil {
		_, value, err = it.m.decode(shale.Entry{Key: it.Key(), Value: it.Value()}, false)
	}
	return value, err
}

// chunk is how many entries walk reads before it passes them on.
const chunk = 16

// walk calls fn with keys and values of a range, both of whose bounds are set, until it returns false. fn may move it.
func (it *iterator[K, V]) walk(r shale.Range, fn func(key, value []byte) (bool, error)) error {
	cursor := it.Iterator
	if tx, is := inTxn(it.r); is { // it has one state, and is to conflict with nothing outside of the range
		cursor = tx.NewIterator(r)
		defer cursor.Close()
	}
	for n := 0; ; {
		size := chunk
		if r.Limit > 0 {
			size = min(size, r.Limit-n)
		}
		var next []shale.Entry
		for more := begin(cursor, r); more; more = step(cursor, r) {
			next = append(next, shale.Entry{Key: cursor.Key(), Value: cursor.Value()}.Clone())
			if len(next) == size {
				break
			}
		}
		if err := cursor.Err(); err != nil {
			return it.m.wrap(err)
		}
		for _, e := range next {
			if again, err := fn(e.Key, e.Value); err != nil || !again {
				return err
			}
			if r.Reverse {
				r.Upper = e.Key
			} else {
				r.Lower = append(e.Key, 0)
			}
		}
		if n += len(next); n == r.Limit || len(next) < size {
			return nil
		}
	}
}

// begin moves to the entry of a range with which a walk begins, and step to the next one.
func begin(it *shale.Iterator, r shale.Range) bool {
	if r.Reverse {
		return it.SeekLT(r.Upper) && bytes.Compare(it.Key(), r.Lower) >= 0
	}
	return it.SeekGE(r.Lower) && bytes.Compare(it.Key(), r.Upper) < 0
}

func step(it *shale.Iterator, r shale.Range) bool {
	if r.Reverse {
		return it.Prev() && bytes.Compare(it.Key(), r.Lower) >= 0
	}
	return it.Next() && bytes.Compare(it.Key(), r.Upper) < 0
}
