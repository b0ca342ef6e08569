package main

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

func newChild(n int) *child {
	return &child{spec: spec{N: n, ValueBytes: 100, Keys: "random", Seconds: 0.001}, space: data.NewSpace("random", n)}
}

// A reader that lies ends the run.
func TestCheck_WrongAnswer(t *testing.T) {
	c := newChild(1000)
	var k data.Key
	key := c.space.Present(&k, 5)
	right := data.Tag(key)
	for _, tc := range []struct {
		reader  liar
		present bool
		ok      bool
	}{
		{liar{100, right, nil}, true, true},
		{liar{stores.Absent, 0, nil}, false, true},
		{liar{100, right, nil}, false, false},
		{liar{stores.Absent, 0, nil}, true, false},
		{liar{99, right, nil}, true, false},
		{liar{100, right + 1, nil}, true, false},
		{liar{stores.Absent, 0, errors.New("unreadable")}, false, false},
	} {
		if err := c.check(tc.reader, key, tc.present); (err == nil) != tc.ok {
			t.Errorf("check of %+v, present %v: %v", tc.reader, tc.present, err)
		}
	}
}

type liar struct {
	size int
	tag  uint64
	err  error
}

func (l liar) Get([]byte) (int, uint64, error) { return l.size, l.tag, l.err }
func (l liar) Refresh() error                  { return nil }
func (l liar) Close() error                    { return nil }

// So does an iterator that passes over an entry, changes the order, a value, or
// ends too early.
func TestScan_WrongAnswer(t *testing.T) {
	c := newChild(1000)
	c.space = data.NewSpace("structured", 1000)
	var entries []entry
	var k data.Key
	values := data.NewValues(100, 1)
	for i := range uint64(1000) {
		key := string(c.space.Ordered(&k, i))
		entries = append(entries, entry{key, string(values.Next([]byte(key)))})
	}
	from := []byte(entries[100].key)
	if err := c.scan(&list{entries: entries}, from, 11); err != nil {
		t.Errorf("scan of a right list: %v", err)
	}
	swapped := append([]entry(nil), entries...)
	swapped[103], swapped[104] = swapped[104], swapped[103]
	other := append([]entry(nil), entries...)
	other[105].value = other[106].value
	for name, list := range map[string]*list{
		"swapped": {entries: swapped}, "another value": {entries: other},
		"an early end": {entries: entries[:105]}, "the first key missing": {entries: append(entries[:100:100], entries[101:]...)},
	} {
		if err := c.scan(list, from, 11); err == nil {
			t.Errorf("scan of a list with %s: no error", name)
		}
	}
	short := newChild(1000)
	short.space, short.store = c.space, listStore{entries: entries[:999]}
	if _, err := short.measure("readseq", short.duration(), short.readAll); err == nil {
		t.Error("readseq of 999 entries: no error")
	}
	short.store = listStore{entries: entries}
	if _, err := short.measure("readreverse", short.duration(), short.readReverse); err != nil {
		t.Errorf("readreverse of all entries: %v", err)
	}
}

type entry struct{ key, value string }

// A list is a sorted list of entries, at one of them.
type list struct {
	entries []entry
	at      int
}

func (l *list) move(to int) bool {
	l.at = to
	return to >= 0 && to < len(l.entries)
}

func (l *list) First() bool { return l.move(0) }
func (l *list) Last() bool  { return l.move(len(l.entries) - 1) }
func (l *list) Next() bool  { return l.move(l.at + 1) }
func (l *list) Prev() bool  { return l.move(l.at - 1) }
func (l *list) SeekGE(key []byte) bool {
	for i, e := range l.entries {
		if e.key >= string(key) {
			return l.move(i)
		}
	}
	return false
}
func (l *list) Key() []byte            { return []byte(l.entries[l.at].key) }
func (l *list) Value() ([]byte, error) { return []byte(l.entries[l.at].value), nil }
func (l *list) Close() error           { return nil }

type listStore struct {
	stores.Store
	entries []entry
}

func (s listStore) Iterator() (stores.Iterator, error) { return &list{entries: s.entries}, nil }

// So does a store that loses an addition, or half a transfer.
func TestTransactions_Wrong(t *testing.T) {
	for _, name := range []string{"txncounter16", "txntransfer"} {
		for _, loses := range []int{0, 2} {
			c := newChild(1000)
			c.Workloads = []string{name}
			c.kind.New = func() stores.Store { return &forgetful{numbers: map[string]uint64{}, loses: loses} }
			if err := c.transactions(); (err == nil) != (loses == 0) {
				t.Errorf("%s on a store that loses write %d: %v", name, loses, err)
			}
		}
	}
}

// A forgetful store runs transactions one by one. It loses one of what they set.
type forgetful struct {
	stores.Store
	mu      sync.Mutex
	numbers map[string]uint64
	loses   int // the write that is lost; 0: none
	writes  int
}

func (s *forgetful) Open(string, stores.Options) error   { return nil }
func (s *forgetful) Settle() error                       { return nil }
func (s *forgetful) Levels() ([]results.Level, error)    { return nil, nil }
func (s *forgetful) Writer() (stores.Writer, error)      { return forgetfulWriter{s: s}, nil }
func (s *forgetful) Client() stores.Client               { return s }
func (s *forgetful) View(fn func(stores.Tx) error) error { return s.Update(fn) }
func (s *forgetful) Number(key []byte) (uint64, error)   { return s.numbers[string(key)], nil }
func (s *forgetful) Update(fn func(stores.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(s)
}

func (s *forgetful) SetNumber(key []byte, n uint64) error {
	if s.writes++; s.writes != s.loses {
		s.numbers[string(key)] = n
	}
	return nil
}

type forgetfulWriter struct {
	stores.Writer
	s *forgetful
}

func (w forgetfulWriter) Close() error { return nil }

func (w forgetfulWriter) Batch(n int, entry func() (key, value []byte)) error {
	for range n {
		key, value := entry()
		w.s.numbers[string(key)] = binary.LittleEndian.Uint64(value)
	}
	return nil
}
