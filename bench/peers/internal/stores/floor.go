package stores

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/vfs"
)

// floorStore does only what can't be left out, of the work that is compared. All entries are in one sorted table, which Settle
// makes of the log: blocks of about 4 KiB under snappy, with a checksum each, and a filter. Nothing is written twice, merged,
// evicted or shared with writers. What a workload costs on it is a bound for every store that logs, compresses and checks.
//
//	log:    key | value, one after the other
//	table:  block... | first key, offset and size of each block | filter | bytes of a value, entries, bytes of both parts
//	block:  snappy(key | value, one after the other) | crc32c
//
// With a cache for all data its blocks stay decompressed in memory; with a smaller one each lookup reads one.
type floorStore struct {
	dir   string
	table *floorTable
	log   *floorLog
}

func (s *floorStore) Open(dir string, o Options) error {
	s.dir = dir
	var err error
	if s.table, err = openFloorTable(s.path("table"), o.Cache); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !o.Reading {
		s.log, err = openFloorLog(s.path("log"), o.Sync)
		return err
	}
	return nil
}

func (s *floorStore) path(name string) string { return filepath.Join(s.dir, name) }

func (s *floorStore) Writer() (Writer, error) { return s.log, nil }

func (s *floorStore) Reader(Way) (Reader, error)       { return newFloorCursor(s.table), nil }
func (s *floorStore) Iterator() (Iterator, error)      { return newFloorCursor(s.table), nil }
func (s *floorStore) Flush() error                     { return nil }
func (s *floorStore) Counts() Counts                   { return unknownCounts }
func (s *floorStore) Levels() ([]results.Level, error) { return nil, nil }

func (s *floorStore) Close() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.f.Close(), os.Remove(s.path("log")))
	}
	if s.table != nil {
		errs = append(errs, s.table.f.Close())
	}
	return errors.Join(errs...)
}

// Settle makes a table of the last one and the log. The newest value of a key counts.
func (s *floorStore) Settle() error {
	if s.log == nil || s.log.size == 0 {
		return nil
	}
	stride := data.KeySize + s.log.value
	var entries []byte
	if s.table != nil {
		it := newFloorCursor(s.table)
		for ok := it.First(); ok; ok = it.Next() {
			entries = append(entries, it.entry...)
		}
		if err := errors.Join(it.err, s.table.f.Close()); err != nil {
			return err
		}
	}
	old := len(entries)
	entries = append(entries, make([]byte, s.log.size)...)
	if _, err := s.log.f.ReadAt(entries[old:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	order := make([]int, len(entries)/stride)
	for i := range order {
		order[i] = i * stride
	}
	key := func(at int) []byte { return entries[at : at+data.KeySize] }
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(bytes.Compare(key(a), key(b)), cmp.Compare(b, a)) })
	order = slices.CompactFunc(order, func(a, b int) bool { return bytes.Equal(key(a), key(b)) })
	if err := writeFloorTable(s.path("table"), s.log.value, len(order), func(i int) []byte { return entries[order[i] : order[i]+stride] }); err != nil {
		return err
	}
	var err error
	if s.table, err = openFloorTable(s.path("table"), 0); err != nil {
		return err
	}
	s.log.size, s.log.synced = 0, 0
	return s.log.f.Truncate(0)
}

// A floorLog appends entries. Writers that sync share one write and one sync: whoever comes while one is under way is served by
// the next.
type floorLog struct {
	f     vfs.File
	sync  bool
	value int // bytes

	mu      sync.Mutex // of what is pending
	size    int64      // with what is pending
	pending []byte
	syncing sync.Mutex
	spare   []byte // what is not pending
	synced  int64
}

func openFloorLog(path string, sync bool) (*floorLog, error) {
	f, err := vfs.Default.Create(path)
	if err == nil {
		err = f.Preallocate(floorRoom)
	}
	return &floorLog{f: f, sync: sync}, err
}

// floorRoom is how much of the log is reserved, so that a sync writes no metadata.
const floorRoom = 64 << 20

func (l *floorLog) Put(key, value []byte) error {
	return l.Batch(1, func() ([]byte, []byte) { return key, value })
}

func (l *floorLog) Batch(n int, entry func() (key, value []byte)) error {
	l.mu.Lock()
	for range n {
		key, value := entry()
		l.value = len(value)
		l.pending = append(append(l.pending, key...), value...)
		l.size += int64(len(key) + len(value))
	}
	end := l.size
	if !l.sync {
		defer l.mu.Unlock()
		_, err := l.f.WriteAt(l.pending, end-int64(len(l.pending)))
		l.pending = l.pending[:0]
		return err
	}
	l.mu.Unlock()
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced >= end {
		return nil
	}
	l.mu.Lock()
	b := l.pending
	l.pending, l.spare = l.spare[:0], b
	at := l.size - int64(len(b))
	l.synced = l.size
	l.mu.Unlock()
	if _, err := l.f.WriteAt(b, at); err != nil {
		return err
	}
	return l.f.Sync()
}

func (*floorLog) Delete([]byte) error { return errors.New("the floor has no deletes") }
func (*floorLog) Close() error        { return nil }
