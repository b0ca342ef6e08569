package typed

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/shaledb/shale"
)

// A Map is a map from K to V in a store, sorted by its keys. It is a declaration, and holds no state: its entries are
// those of the Reader or Writer that a call gets. Maps with different names do not mix.
type Map[K, V any] struct {
	name     string
	keys     KeyCodec[K]
	values   ValueCodec[V]
	indexes  []indexed[K, V] // sorted by name
	mistake  error           // of the declaration of indexes; nil: none
	entries  []byte          // what the keys of entries begin with
	state    []byte          // the key whose value is complete or building if the store has just these indexes
	cursor   []byte          // the key whose value says how far Build has come
	complete []byte          // nothing if there are none
	building []byte
}

// An indexed is an Index of a Map, without the type of what it sorts by.
type indexed[K, V any] interface {
	title() string
	area() []byte // what its keys begin with

	// of returns the keys of an entry of the map, sorted. Each ends in key, the bytes of the entry's key.
	of(key []byte, value V) ([][]byte, error)
	isUnique() bool

	// split divides a key of the index: what is the same for all entries with one value, and the entry's key.
	split(raw []byte) (by, key []byte, err error)
}

// The areas of a map: what follows its name.
const (
	entryArea  = 0x01 // and then the key; the value is the entry's
	indexArea  = 0x02 // and then name of the index, what it sorts by, key; the value is empty
	stateArea  = 0x03 // its value says which indexes there are
	cursorArea = 0x04 // its value says how far Build has come
	areasEnd   = 0x05
)

// place returns what the keys of an area of the map begin with.
func (m *Map[K, V]) place(area byte) []byte {
	b, _ := String.append(nil, m.name, true) // no string is refused
	b[len(b)-1] = area
	return b
}

// NewMap declares a map. The name is part of the keys in the store, so a short one saves bytes. It and the codecs must
// stay as they are while the store has entries. A program must not declare two maps of one name, or have other keys that
// begin with the name and a byte 00.
func NewMap[K, V any](name string, keys KeyCodec[K], values ValueCodec[V]) *Map[K, V] {
	m := &Map[K, V]{name: name, keys: keys, values: values}
	m.entries, m.state, m.cursor = m.place(entryArea), m.place(stateArea), m.place(cursorArea)
	m.building = stateOf(building, m.indexes)
	return m
}

// An Entry is a key of a Map with its value.
type Entry[K, V any] struct {
	Key   K
	Value V
}

// ErrNoTxn is wrapped by the error of a call that needs a transaction, and got another Writer.
var ErrNoTxn = errors.New("it needs a transaction, such as that of DB.Update")

// buffers has memory for keys and values.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// maxBuffer is the largest buffer that is kept.
const maxBuffer = 64 << 10

func free(b *[]byte) {
	if cap(*b) <= maxBuffer {
		buffers.Put(b)
	}
}

// show returns a key as errors have it.
func show[K any](key K) string {
	switch k := any(key).(type) {
	case string, []byte:
		return fmt.Sprintf("%q", k)
	}
	return fmt.Sprintf("%v", key)
}

// showRaw is show for a key as the store has it, without the name of the map.
func (m *Map[K, V]) showRaw(raw []byte) string {
	key, _, err := m.keys.decode(raw, false)
	if err != nil {
		return fmt.Sprintf("%q", raw)
	}
	return show(key)
}

// failed wraps an error about the entry of a key.
func (m *Map[K, V]) failed(key K, err error) error {
	return fmt.Errorf("typed: map %q, key %s: %w", m.name, show(key), err)
}

func (m *Map[K, V]) wrap(err error) error { return fmt.Errorf("typed: map %q: %w", m.name, err) }

// appendKey appends the key as the store has it.
func (m *Map[K, V]) appendKey(dst []byte, key K) ([]byte, error) {
	dst, err := m.keys.append(append(dst, m.entries...), key, false)
	if err != nil {
		return dst, m.failed(key, err)
	}
	return dst, nil
}

// Key returns the key under which a store has the entry of key, for calls such as DB.MayContain and DB.GetMany.
func (m *Map[K, V]) Key(key K) ([]byte, error) { return m.appendKey(nil, key) }

// Get returns the value of key, or shale.ErrNotFound.
func (m *Map[K, V]) Get(r shale.Reader, key K) (value V, err error) {
	b := buffers.Get().(*[]byte)
	defer free(b)
	if *b, err = m.appendKey((*b)[:0], key); err != nil {
		return value, err
	}
	n := len(*b)
	if *b, err = r.AppendValue(*b, *b); errors.Is(err, shale.ErrNotFound) {
		return value, shale.ErrNotFound
	} else if err == nil {
		value, err = m.values.Decode((*b)[n:])
	}
	if err != nil {
		return *new(V), m.failed(key, err)
	}
	return value, nil
}

// Has reports whether key is there, without reading its value.
func (m *Map[K, V]) Has(r shale.Reader, key K) (bool, error) {
	b := buffers.Get().(*[]byte)
	defer free(b)
	var err error
	if *b, err = m.appendKey((*b)[:0], key); err != nil {
		return false, err
	}
	return r.Has(*b)
}

// All is Scan of all keys.
func (m *Map[K, V]) All(r shale.Reader) iter.Seq2[Entry[K, V], error] { return m.Scan(r, Range[K]{}) }

// Scan walks the entries of a range in order. An error ends the loop and is yielded once, with a zero Entry.
func (m *Map[K, V]) Scan(r shale.Reader, keys Range[K]) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		in, err := keys.in(m.entries, m.keys, false)
		if err != nil {
			yield(Entry[K, V]{}, m.wrap(err))
			return
		}
		for raw, err := range r.Scan(in) {
			var e Entry[K, V]
			if err != nil {
				err = m.wrap(err)
			} else if e.Key, e.Value, err = m.decode(raw, keys.KeysOnly); err != nil {
				e = Entry[K, V]{}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// decode decodes an entry.
func (m *Map[K, V]) decode(raw shale.Entry, keysOnly bool) (key K, value V, err error) {
	key, _, err = m.keys.decode(raw.Key[len(m.entries):], false)
	if err != nil {
		return key, value, m.wrap(fmt.Errorf("%q is no key: %w", raw.Key, err))
	}
	if !keysOnly {
		value, err = m.values.Decode(raw.Value)
	}
	if err != nil {
		err = m.failed(key, err)
	}
	return key, value, err
}

// Put sets the value of key, and changes the indexes. With indexes w must be a transaction, or the error wraps
// [ErrNoTxn].
func (m *Map[K, V]) Put(w shale.Writer, key K, value V) error { return m.write(w, key, &value) }

// Delete removes key, and its entries in the indexes. Deleting an absent key is no error. With indexes w must be a
// transaction.
func (m *Map[K, V]) Delete(w shale.Writer, key K) error { return m.write(w, key, nil) }

// A transaction reads and writes one state.
type transaction interface {
	shale.Reader
	shale.Writer
}

// inTxn returns v if it is a transaction, or a part of one. Transactions, and nothing else, have reads that they do not
// track.
func inTxn(v any) (tx transaction, is bool) {
	if part, ok := v.(*shale.Sub); ok {
		is = part.InTxn()
	} else {
		_, is = v.(interface{ Untracked() shale.Reader })
	}
	if is {
		tx, is = v.(transaction)
	}
	return tx, is
}

// write sets the value of key, or deletes it if there is none.
func (m *Map[K, V]) write(w shale.Writer, key K, value *V) error {
	b := buffers.Get().(*[]byte)
	defer free(b)
	var err error
	if *b, err = m.appendKey((*b)[:0], key); err != nil {
		return err
	}
	k, data := *b, (*b)[len(*b):]
	if value != nil {
		if data, err = m.values.Append(data, *value); err != nil {
			return m.failed(key, err)
		}
	}
	changes, err := m.changes(w, k, key, value)
	if err != nil {
		return err
	}
	if value != nil {
		err = w.Put(k, data)
	} else {
		err = w.Delete(k)
	}
	for i := 0; err == nil && i < len(changes); i++ {
		if c := changes[i]; c.add {
			err = w.Put(c.key, nil)
		} else {
			err = w.Delete(c.key)
		}
	}
	if err != nil {
		return m.failed(key, err)
	}
	return nil
}

// A change adds a key to an index, or removes one.
type change struct {
	key []byte
	add bool
}

// changes returns what a write of key, k in the store, changes in the indexes. It checks all that can be checked before
// anything is written.
func (m *Map[K, V]) changes(w shale.Writer, k []byte, key K, value *V) ([]change, error) {
	tx, is := inTxn(w)
	db, isDB := w.(*shale.DB)
	if !is && len(m.indexes) > 0 {
		return nil, m.failed(key, fmt.Errorf("the map has indexes: %w", ErrNoTxn))
	}
	if !is && isDB {
		tx, is = db, true
	}
	if !is {
		return nil, nil
	}
	isComplete, err := m.known(tx)
	if err != nil || len(m.indexes) == 0 {
		return nil, err
	}
	was, err := m.Get(tx, key)
	absent := err == shale.ErrNotFound
	if err != nil && !absent {
		return nil, err
	}
	var changes []change
	for _, x := range m.indexes {
		var before, now [][]byte
		if !absent {
			if before, err = x.of(k[len(m.entries):], was); err != nil {
				return nil, m.failed(key, err)
			}
		}
		if value != nil {
			if now, err = x.of(k[len(m.entries):], *value); err != nil {
				return nil, m.failed(key, err)
			}
		}
		for _, b := range before {
			if !contains(now, b) {
				changes = append(changes, change{b, false})
			}
		}
		for _, b := range now {
			if contains(before, b) {
				continue
			}
			if x.isUnique() && !isComplete {
				return nil, m.failed(key, fmt.Errorf("unique index %q: %w", x.title(), m.notBuilt(m.building)))
			}
			if err := m.single(tx, x, b, k, key); err != nil {
				return nil, err
			}
			changes = append(changes, change{b, true})
		}
	}
	return changes, nil
}

// contains reports whether sorted has b.
func contains(sorted [][]byte, b []byte) bool {
	_, found := slices.BinarySearchFunc(sorted, b, bytes.Compare)
	return found
}

// single returns an error if x is unique, and has another entry that differs from b, of key, in the key alone.
func (m *Map[K, V]) single(r shale.Reader, x indexed[K, V], b, k []byte, key K) error {
	if !x.isUnique() {
		return nil
	}
	same := b[:len(b)-len(k)+len(m.entries)]
	in := shale.Prefix(same)
	in.KeysOnly, in.Limit = true, 2
	for e, err := range r.Scan(in) {
		if err != nil {
			return m.failed(key, err)
		}
		if !bytes.Equal(e.Key, b) {
			return m.failed(key, fmt.Errorf("%w %q: key %s has it", ErrNotUnique, x.title(), m.showRaw(e.Key[len(same):])))
		}
	}
	return nil
}
