package harness

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// These are the methods that make a Model a Store.

func (m *Model) Get(key []byte) ([]byte, error) { return m.Now().reader().Get(key) }
func (m *Model) AppendValue(dst, key []byte) ([]byte, error) {
	return m.Now().reader().AppendValue(dst, key)
}
func (m *Model) ViewValue(key []byte, fn func(value []byte) error) error {
	return m.Now().reader().ViewValue(key, fn)
}
func (m *Model) Has(key []byte) (bool, error)                     { return m.Now().reader().Has(key) }
func (m *Model) ExpiresAt(key []byte) (time.Time, error)          { return m.Now().reader().ExpiresAt(key) }
func (m *Model) Scan(r shale.Range) iter.Seq2[shale.Entry, error] { return m.Now().reader().Scan(r) }
func (m *Model) Iterator(r shale.Range) Iterator                  { return m.Now().reader().Iterator(r) }

func (m *Model) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found := m.Now().Get(string(key))
		v := []byte(value)
		if !found {
			v = nil
		}
		if err := fn(i, v, found); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) Explain(key []byte) (bool, []byte, error) {
	value, found := m.Now().Get(string(key))
	if !found {
		return false, nil, nil
	}
	return true, []byte(value), nil
}

func (m *Model) MayContain(key []byte) bool {
	_, found := m.Now().Get(string(key))
	return found
}

func (m *Model) MayContainMany(keys [][]byte, out []bool) {
	for i := range out {
		out[i] = i >= len(keys) || m.MayContain(keys[i])
	}
}

func (m *Model) Denied(keys [][]byte) (denied [][]byte, err error) {
	return slices.DeleteFunc(slices.Clone(keys), m.MayContain), nil
}

func (m *Model) Snapshot() (Snapshot, error) {
	return &modelSnapshot{modelReader: m.Now().reader()}, nil
}

func (m *Model) Put(key, value []byte) error {
	return m.Write(Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: key, Value: value}}})
}

func (m *Model) PutTTL(key, value []byte, ttl time.Duration) error {
	return m.Write(Write{Ops: []shale.Op{m.expiring(key, value, ttl)}})
}

// expiring returns the operation of a PutTTL.
func (m *Model) expiring(key, value []byte, ttl time.Duration) shale.Op {
	if ttl <= 0 {
		return shale.Op{Kind: shale.OpDelete, Key: key}
	}
	return shale.Op{Kind: shale.OpPut, Key: key, Value: value, ExpiresAt: overAt(m.clock(), ttl)}
}

func (m *Model) Delete(key []byte) error {
	return m.Write(Write{Ops: []shale.Op{{Kind: shale.OpDelete, Key: key}}})
}

func (m *Model) DeleteRange(lower, upper []byte) error {
	return m.Write(Write{Ops: []shale.Op{{Kind: shale.OpDeleteRange, Key: lower, Value: upper}}})
}

func (m *Model) PutIfAbsent(key, value []byte) (bool, error) {
	if m.MayContain(key) {
		return false, nil
	}
	return true, m.Put(key, value)
}

func (m *Model) PutIfAbsentTTL(key, value []byte, ttl time.Duration) (bool, error) {
	if m.MayContain(key) {
		return false, nil
	}
	return true, m.PutTTL(key, value, ttl)
}

// errRefused is the error of a Model for what a store refuses.
var errRefused = errors.New("refused")

func (m *Model) Cancelled(Write) error { return errRefused }

func (m *Model) Write(w Write) error {
	for _, op := range w.Ops {
		if len(op.Key) > shale.MaxKeySize {
			return errRefused
		}
	}
	synced := w.Synced(m.Durability)
	m.commit(Commit{Ops: w.Ops, Marker: w.Marker, Early: synced && m.Durability != shale.SyncEach}, synced)
	return nil
}

func (m *Model) Update(w Write, before, after func(r Reader)) error {
	before(m.Now().reader())
	after(m.Now().withAt(m.clock(), w.Ops...).reader())
	return m.Write(w)
}

func (m *Model) Ingest(puts []Entry) error {
	if !ascending(puts) {
		return errRefused
	}
	if len(puts) == 0 {
		return nil // which makes nothing durable either
	}
	ops := make([]shale.Op, len(puts))
	for i, e := range puts {
		ops[i] = shale.Op{Kind: shale.OpPut, Key: []byte(e.Key), Value: []byte(e.Value)}
	}
	c := Commit{Ops: ops}
	for _, e := range puts {
		if strings.HasPrefix(e.Key, ingestMarker) {
			c.Marker = e.Key
		}
	}
	m.commit(c, true)
	return nil
}

// ascending reports whether each key is above the one before it.
func ascending(puts []Entry) bool {
	for i := 1; i < len(puts); i++ {
		if puts[i-1].Key >= puts[i].Key {
			return false
		}
	}
	return true
}

func (m *Model) Sync() error               { m.promise(); return nil }
func (m *Model) Flush() error              { m.promise(); return nil }
func (m *Model) Compact(shale.Range) error { m.promise(); return nil }
func (m *Model) RebuildFilters() error     { return nil }
func (m *Model) HoldLogs(int)              {}
func (m *Model) Verify() error             { return nil }
func (m *Model) Tables() error             { return nil }

// Checkpoint keeps the state under the name dir.
func (m *Model) Checkpoint(dir string) error {
	if _, is := m.copies[dir]; is {
		return errRefused // the directory is there
	}
	if m.copies == nil {
		m.copies = make(map[string]*Model)
	}
	m.copies[dir] = &Model{now: m.now, base: m.now, time: m.clock(), Durability: shale.SyncEach}
	m.made = &Copy{dir, m.now}
	return nil
}

func (m *Model) UseCopy(dir string, use func(Store)) error {
	c, is := m.copies[dir]
	if !is {
		return errRefused
	}
	c.time = max(c.time, m.clock())
	use(c)
	c.Acknowledge()
	return nil
}

func (m *Model) ReadOnly(use func(Reader)) error {
	use(m.Now().reader())
	return nil
}

// A modelReader reads a State.
type modelReader struct{ State }

func (s State) reader() modelReader { return modelReader{s} }

func (r modelReader) Get(key []byte) ([]byte, error) {
	value, ok := r.State.Get(string(key))
	if !ok {
		return nil, shale.ErrNotFound
	}
	return []byte(value), nil
}

func (r modelReader) AppendValue(dst, key []byte) ([]byte, error) {
	value, ok := r.State.Get(string(key))
	if !ok {
		return dst, shale.ErrNotFound
	}
	return append(dst, value...), nil
}

func (r modelReader) ViewValue(key []byte, fn func(value []byte) error) error {
	value, ok := r.State.Get(string(key))
	if !ok {
		return shale.ErrNotFound
	}
	return fn([]byte(value))
}

func (r modelReader) Has(key []byte) (bool, error) {
	_, ok := r.State.Get(string(key))
	return ok, nil
}

func (r modelReader) ExpiresAt(key []byte) (time.Time, error) {
	i, ok := r.find(string(key))
	if !ok {
		return time.Time{}, shale.ErrNotFound
	}
	return r.entries[i].expiresAt(), nil
}

// expiresAt is the reverse of expiryOf.
func (e Entry) expiresAt() time.Time {
	if e.Expiry == 0 {
		return time.Time{}
	}
	return time.UnixMilli(e.Expiry)
}

func (r modelReader) Scan(rng shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		part := slices.Clone(r.Within(rng))
		if rng.Reverse {
			slices.Reverse(part)
		}
		if rng.Limit > 0 {
			part = part[:min(rng.Limit, len(part))]
		}
		for _, e := range part {
			entry := shale.Entry{Key: []byte(e.Key), Value: []byte(e.Value), ExpiresAt: e.expiresAt()}
			if rng.KeysOnly {
				entry.Value = nil
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

func (r modelReader) Iterator(rng shale.Range) Iterator {
	return &modelIterator{entries: r.Within(rng), pos: -1, keysOnly: rng.KeysOnly}
}

type modelSnapshot struct {
	modelReader
	closed bool
}

func (s *modelSnapshot) Close() error {
	if s.closed {
		return shale.ErrClosed
	}
	s.closed = true
	return nil
}

// A modelIterator stands on entry pos: -1 is before the first and len after the last.
type modelIterator struct {
	entries  []Entry
	pos      int
	keysOnly bool
	closed   bool
}

func (it *modelIterator) to(pos int) bool {
	if !it.closed {
		it.pos = max(-1, min(pos, len(it.entries)))
	}
	return it.Valid()
}

func (it *modelIterator) find(key []byte) int {
	return State{entries: it.entries}.place(string(key))
}

// place returns the place of the first entry that is not below key.
func (s State) place(key string) int { i, _ := s.find(key); return i }

func (it *modelIterator) First() bool            { return it.to(0) }
func (it *modelIterator) Last() bool             { return it.to(len(it.entries) - 1) }
func (it *modelIterator) SeekGE(key []byte) bool { return it.to(it.find(key)) }
func (it *modelIterator) SeekLT(key []byte) bool { return it.to(it.find(key) - 1) }
func (it *modelIterator) Next() bool             { return it.to(it.pos + 1) }
func (it *modelIterator) Prev() bool             { return it.to(it.pos - 1) }
func (it *modelIterator) Valid() bool {
	return !it.closed && it.pos >= 0 && it.pos < len(it.entries)
}
func (it *modelIterator) Key() []byte          { return []byte(it.entries[it.pos].Key) }
func (it *modelIterator) ExpiresAt() time.Time { return it.entries[it.pos].expiresAt() }
func (it *modelIterator) Value() []byte {
	if it.keysOnly {
		return nil
	}
	return []byte(it.entries[it.pos].Value)
}
func (it *modelIterator) Err() error {
	if it.closed {
		return shale.ErrClosed
	}
	return nil
}
func (it *modelIterator) Close() error { it.closed = true; return nil }
