package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
)

// A Reader is what reads of a Store or of a snapshot look like to a step.
type Reader interface {
	Get(key []byte) ([]byte, error)
	AppendValue(dst, key []byte) ([]byte, error)
	ViewValue(key []byte, fn func(value []byte) error) error
	Has(key []byte) (bool, error)
	Scan(r shale.Range) iter.Seq2[shale.Entry, error]
	Iterator(r shale.Range) Iterator
}

// An Iterator is what *shale.Iterator does.
type Iterator interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// A Snapshot is what *shale.Snapshot does.
type Snapshot interface {
	Reader
	Close() error
}

// A Store is what a step uses: a real store or the Model of one.
type Store interface {
	Reader
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	Explain(key []byte) (found bool, value []byte, err error)
	// MayContain and Denied may say less than a Model knows: that a key may be there says nothing.
	MayContain(key []byte) bool
	Denied(keys [][]byte) ([][]byte, error) // by a bundle of the exported filters
	Snapshot() (Snapshot, error)

	Put(key, value []byte) error
	Delete(key []byte) error
	PutIfAbsent(key, value []byte) (bool, error)
	Write(w Write) error
	Cancelled(w Write) error // Write with a context that is over
	Ingest(puts []Entry) error

	Sync() error
	Flush() error
	Compact(r shale.Range) error
	RebuildFilters() error
	Verify() error
	Tables() error // lists them and checks their order

	// Checkpoint makes a checkpoint, and UseCopy opens one that was made before.
	Checkpoint(dir string) error
	UseCopy(dir string, use func(copy Store)) error
	// ReadOnly opens the store a second time, for reading.
	ReadOnly(use func(r Reader)) error
}

// A Write is a batch.
type Write struct {
	Ops []shale.Op
	// Own says that the batch has a durability of its own.
	Own        bool
	Durability shale.Durability
	Marker     string // see Commit; may be empty
}

// Synced reports whether the batch is durable when it is acknowledged, in a store with the durability of.
func (w Write) Synced(of shale.Durability) bool {
	if w.Own {
		of = w.Durability
	}
	return of == shale.SyncEach
}

// Batch returns the batch.
func (w Write) Batch() *shale.Batch {
	b := new(shale.Batch)
	for _, op := range w.Ops {
		if op.Kind == shale.OpDelete {
			_ = b.Delete(op.Key) // far below every limit
		} else {
			_ = b.Put(op.Key, op.Value) // likewise
		}
	}
	if w.Own {
		b.SetDurability(w.Durability)
	}
	return b
}

// realReader is a Reader of the store itself, or of a snapshot of it.
type realReader struct {
	shale.Reader
	of *Real
}

func (r realReader) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	return value, r.of.noteRead(err)
}

func (r realReader) AppendValue(dst, key []byte) ([]byte, error) {
	value, err := r.Reader.AppendValue(dst, key)
	return value, r.of.noteRead(err)
}

func (r realReader) ViewValue(key []byte, fn func(value []byte) error) error {
	return r.of.noteRead(r.Reader.ViewValue(key, fn))
}

func (r realReader) Has(key []byte) (bool, error) {
	has, err := r.Reader.Has(key)
	return has, r.of.noteRead(err)
}

func (r realReader) Scan(rng shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		for e, err := range r.Reader.Scan(rng) {
			if !yield(e, r.of.noteRead(err)) {
				return
			}
		}
	}
}

func (r realReader) Iterator(rng shale.Range) Iterator { return realIterator{r.NewIterator(rng), r.of} }

type realIterator struct {
	*shale.Iterator
	of *Real
}

func (it realIterator) Err() error   { return it.of.noteRead(it.Iterator.Err()) }
func (it realIterator) Close() error { return it.of.noteRead(it.Iterator.Close()) }

// Real is an open store as a Store. The first error is kept, so that whoever runs a step can judge
// what the step says in a word.
type Real struct {
	realReader
	DB *shale.DB
	// Open opens a store beside this one: a checkpoint or the same store read-only. Nil: no step asks for it.
	Open func(dir string, readOnly bool) (*shale.DB, error)
	// Copied, if it is set, is called with what a checkpoint holds before it is used.
	Copied func(dir string, has State)
	// Err is the first error of a call since it was last cleared. That a key is absent is none.
	Err error
	// Wrote is how many calls that write have succeeded before that.
	Wrote int
}

// NewReal returns db as a Store.
func NewReal(db *shale.DB) *Real {
	r := &Real{DB: db}
	r.realReader = realReader{db, r}
	return r
}

// note keeps the error of a call that does not write.
func (r *Real) note(err error) error {
	if err != nil && r.Err == nil {
		r.Err = err
	}
	return err
}

// noteRead is note for a read.
func (r *Real) noteRead(err error) error {
	if errors.Is(err, shale.ErrNotFound) {
		return err
	}
	return r.note(err)
}

// wrote notes how a call ended that writes.
func (r *Real) wrote(err error) error {
	if err == nil && r.Err == nil {
		r.Wrote++
	}
	return r.note(err)
}

func (r *Real) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	var own error // that fn has returned
	err := r.DB.GetMany(keys, func(i int, value []byte, found bool) error {
		own = fn(i, value, found)
		return own
	})
	if own != nil && errors.Is(err, own) {
		return err
	}
	return r.note(err)
}

func (r *Real) Explain(key []byte) (found bool, value []byte, err error) {
	x, err := r.DB.Explain(key)
	return x.Found, x.Value, r.note(err)
}

func (r *Real) MayContain(key []byte) bool { return r.DB.MayContain(key) }

func (r *Real) Denied(keys [][]byte) (denied [][]byte, err error) {
	var file bytes.Buffer
	if _, err := r.DB.ExportFilters(context.Background(), &file); err != nil {
		return nil, r.note(err)
	}
	b, err := bundle.Open(file.Bytes())
	if err != nil {
		return nil, r.note(err)
	}
	for _, key := range keys {
		if !b.MayContain(key) {
			denied = append(denied, key)
		}
	}
	return denied, r.note(b.Err())
}

func (r *Real) Snapshot() (Snapshot, error) {
	s, err := r.DB.Snapshot()
	if err != nil {
		return nil, r.note(err)
	}
	return realSnapshot{realReader{s, r}, s}, nil
}

type realSnapshot struct {
	realReader
	s *shale.Snapshot
}

func (s realSnapshot) Close() error { return s.s.Close() }

func (r *Real) Put(key, value []byte) error { return r.wrote(r.DB.Put(key, value)) }
func (r *Real) Delete(key []byte) error     { return r.wrote(r.DB.Delete(key)) }

func (r *Real) PutIfAbsent(key, value []byte) (bool, error) {
	inserted, err := r.DB.PutIfAbsent(key, value)
	if !inserted && err == nil {
		return false, nil
	}
	return inserted, r.wrote(err)
}

func (r *Real) Write(w Write) error {
	return r.wrote(r.DB.Write(context.Background(), w.Batch()))
}

func (r *Real) Cancelled(w Write) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.DB.Write(ctx, w.Batch())
}

func (r *Real) Ingest(puts []Entry) error {
	return r.wrote(r.DB.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
		for _, e := range puts {
			if !yield([]byte(e.Key), []byte(e.Value)) {
				return
			}
		}
	}))
}

func (r *Real) Sync() error  { return r.note(r.DB.Sync()) }
func (r *Real) Flush() error { return r.note(r.DB.Flush(context.Background())) }
func (r *Real) Compact(rng shale.Range) error {
	return r.note(r.DB.Compact(context.Background(), rng))
}
func (r *Real) Verify() error { return r.note(r.DB.Verify(context.Background())) }

// Tables lists the tables. Those of a run follow each other in key order and overlap nowhere; runs are
// numbered from 0 in each level, and levels ascend.
func (r *Real) Tables() error {
	var last *shale.TableInfo
	for _, t := range r.DB.Tables() {
		sameLevel := last != nil && t.Level == last.Level
		switch {
		case bytes.Compare(t.Smallest, t.Largest) > 0 || t.Entries == 0:
			return r.note(fmt.Errorf("table %d has %d entries, from %q to %q", t.Number, t.Entries, t.Smallest, t.Largest))
		case last != nil && t.Level < last.Level, !sameLevel && t.Run != 0, sameLevel && t.Run != last.Run && t.Run != last.Run+1:
			return r.note(fmt.Errorf("table %d, of level %d and run %d, follows one of %d and %d", t.Number, t.Level, t.Run, last.Level, last.Run))
		case sameLevel && t.Run == last.Run && bytes.Compare(last.Largest, t.Smallest) >= 0:
			return r.note(fmt.Errorf("table %d begins at %q; the one before it ends at %q", t.Number, t.Smallest, last.Largest))
		}
		last = &t
	}
	return nil
}

func (r *Real) Checkpoint(dir string) error { return r.note(r.DB.Checkpoint(dir)) }

func (r *Real) UseCopy(dir string, use func(copy Store)) error {
	db, err := r.Open(dir, false)
	if err != nil {
		return r.note(err)
	}
	c := NewReal(db)
	if r.Copied != nil {
		has, err := Read(db)
		if err != nil {
			return r.note(errors.Join(err, db.Close()))
		}
		r.Copied(dir, has)
	}
	use(c)
	return r.note(errors.Join(c.Err, db.Close()))
}

// Dir is the directory of the stores that programs run on.
const Dir = "db"

func (r *Real) ReadOnly(use func(Reader)) error {
	db, err := r.Open(Dir, true)
	if err != nil {
		return r.note(err)
	}
	use(realReader{db, r})
	if err := db.Put(nil, nil); !errors.Is(err, shale.ErrReadOnly) {
		err = fmt.Errorf("Put to a read-only store: %w, want ErrReadOnly", err)
		return r.note(errors.Join(err, db.Close()))
	}
	return r.note(db.Close())
}

// RebuildFilters rebuilds the filters. A store that wants none refuses, which is the right answer then.
func (r *Real) RebuildFilters() error {
	_, err := r.DB.RebuildFilters(context.Background())
	if none := optionsOf(r.DB).FilterBits < 0; none && err != nil {
		return nil
	} else if none {
		err = fmt.Errorf("done, with FilterBits below 0")
	}
	return r.note(err)
}

// These are the methods that make a Model a Store.

func (m *Model) Get(key []byte) ([]byte, error) { return m.now.reader().Get(key) }
func (m *Model) AppendValue(dst, key []byte) ([]byte, error) {
	return m.now.reader().AppendValue(dst, key)
}
func (m *Model) ViewValue(key []byte, fn func(value []byte) error) error {
	return m.now.reader().ViewValue(key, fn)
}
func (m *Model) Has(key []byte) (bool, error)                     { return m.now.reader().Has(key) }
func (m *Model) Scan(r shale.Range) iter.Seq2[shale.Entry, error] { return m.now.reader().Scan(r) }
func (m *Model) Iterator(r shale.Range) Iterator                  { return m.now.reader().Iterator(r) }

func (m *Model) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found := m.now.Get(string(key))
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
	value, found := m.now.Get(string(key))
	if !found {
		return false, nil, nil
	}
	return true, []byte(value), nil
}

func (m *Model) MayContain(key []byte) bool {
	_, found := m.now.Get(string(key))
	return found
}

func (m *Model) Denied(keys [][]byte) (denied [][]byte, err error) {
	return slices.DeleteFunc(slices.Clone(keys), m.MayContain), nil
}

func (m *Model) Snapshot() (Snapshot, error) { return &modelSnapshot{modelReader: m.now.reader()}, nil }

func (m *Model) Put(key, value []byte) error {
	return m.Write(Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: key, Value: value}}})
}

func (m *Model) Delete(key []byte) error {
	return m.Write(Write{Ops: []shale.Op{{Kind: shale.OpDelete, Key: key}}})
}

func (m *Model) PutIfAbsent(key, value []byte) (bool, error) {
	if m.MayContain(key) {
		return false, nil
	}
	return true, m.Put(key, value)
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
	m.copies[dir] = &Model{now: m.now, base: m.now, Durability: shale.SyncEach}
	m.made = &Copy{dir, m.now}
	return nil
}

func (m *Model) UseCopy(dir string, use func(Store)) error {
	c, is := m.copies[dir]
	if !is {
		return errRefused
	}
	use(c)
	c.Acknowledge()
	return nil
}

func (m *Model) ReadOnly(use func(Reader)) error {
	use(m.now.reader())
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
			entry := shale.Entry{Key: []byte(e.Key), Value: []byte(e.Value)}
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
func (it *modelIterator) Key() []byte { return []byte(it.entries[it.pos].Key) }
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
