//go:build rocksdb

package stores

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

/*
#cgo LDFLAGS: -lrocksdb
#cgo noescape peers_put
#cgo nocallback peers_put
#cgo noescape peers_delete
#cgo nocallback peers_delete
#cgo noescape peers_batch
#cgo nocallback peers_batch
#cgo noescape peers_get
#cgo nocallback peers_get
#cgo noescape peers_move
#cgo nocallback peers_move

#include "rocksdb.h"
*/
import "C"

var optionalKinds = []Kind{
	{Name: "rocksdb", Can: Updates, New: func() Store { return new(rocksdbStore) }},
	{Name: "rocksdb-apart", Asked: true, Can: Updates, New: func() Store { return &rocksdbStore{apart: true} }},
}

// rocksdbStore is RocksDB through its C interface.
type rocksdbStore struct {
	c     *C.peers_store
	apart bool // large values are in files of their own
}

func (s *rocksdbStore) Open(dir string, o Options) error {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	s.c = (*C.peers_store)(C.calloc(1, C.sizeof_peers_store))
	C.peers_open(s.c, path, C.size_t(o.Memtable), C.size_t(o.Cache), flag(o.Compactions), flag(o.Sync), flag(s.apart))
	if err := s.failure(); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// failure is the error of the call before, if it left one.
func (s *rocksdbStore) failure() error { return takeError(&s.c.error) }

func takeError(at **C.char) error {
	if *at == nil {
		return nil
	}
	err := errors.New(C.GoString(*at))
	C.rocksdb_free(unsafe.Pointer(*at))
	*at = nil
	return err
}

func (s *rocksdbStore) Writer() (Writer, error) { return &rocksdbWriter{c: s.c}, nil }
func (s *rocksdbStore) Reader(Way) (Reader, error) {
	return &rocksdbReader{c: s.c, buf: data.BytesApart(readBuffer)}, nil
}

func (s *rocksdbStore) Iterator() (Iterator, error) {
	c := (*C.peers_iterator)(C.calloc(1, C.sizeof_peers_iterator))
	C.peers_iterate(s.c, c)
	return &rocksdbIterator{c}, nil
}

func (s *rocksdbStore) Flush() error {
	C.rocksdb_flush(s.c.db, s.c.flush, &s.c.error)
	return s.failure()
}

func (s *rocksdbStore) Settle() error {
	if err := s.Flush(); err != nil {
		return err
	}
	busy := []string{
		"rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending",
		"rocksdb.num-running-compactions", "rocksdb.compaction-pending",
	}
	for quiet := 0; quiet < 5; quiet++ {
		for _, name := range busy {
			if s.property(name) != "0" {
				quiet = -1
			}
		}
		time.Sleep(settleInterval)
	}
	return nil
}

func (s *rocksdbStore) property(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	value := C.rocksdb_property_value(s.c.db, n)
	defer C.rocksdb_free(unsafe.Pointer(value))
	return C.GoString(value)
}

func (s *rocksdbStore) Counts() Counts { return unknownCounts }

func (s *rocksdbStore) Levels() ([]results.Level, error) {
	var levels []results.Level
	stats := s.property("rocksdb.levelstats")
	for line := range strings.Lines(stats) {
		var l results.Level
		var mib int64
		if n, _ := fmt.Sscan(line, &l.Level, &l.Tables, &mib); n < 3 || l.Tables == 0 {
			continue
		}
		l.Bytes, l.Runs = mib<<20, 1
		if l.Level == 0 {
			l.Runs = l.Tables
		}
		levels = append(levels, l)
	}
	return levels, nil
}

func (s *rocksdbStore) Close() error {
	C.peers_close(s.c)
	s.c = nil
	return nil
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

type rocksdbWriter struct {
	c     *C.peers_store
	batch []byte // sizes, keys and values, so that one call writes all
}

// finish turns the error of a call into one of Go.
func (w *rocksdbWriter) finish(err *C.char) error {
	if err == nil {
		return nil
	}
	return takeError(&err)
}

func (w *rocksdbWriter) Put(key, value []byte) error {
	return w.finish(C.peers_put(w.c, chars(key), C.size_t(len(key)), chars(value), C.size_t(len(value))))
}

func (w *rocksdbWriter) Delete(key []byte) error {
	return w.finish(C.peers_delete(w.c, chars(key), C.size_t(len(key))))
}

func (w *rocksdbWriter) Batch(n int, entry func() (key, value []byte)) error {
	w.batch = w.batch[:0]
	for range n {
		key, value := entry()
		w.batch = binary.NativeEndian.AppendUint32(w.batch, uint32(len(key)))
		w.batch = binary.NativeEndian.AppendUint32(w.batch, uint32(len(value)))
		w.batch = append(append(w.batch, key...), value...)
	}
	return w.finish(C.peers_batch(w.c, chars(w.batch), C.size_t(len(w.batch))))
}

func (w *rocksdbWriter) Close() error { return nil }

type rocksdbReader struct {
	c   *C.peers_store
	buf []byte
}

func (r *rocksdbReader) Get(key []byte) (int, uint64, error) {
	switch n := C.peers_get(r.c, chars(key), C.size_t(len(key)), chars(r.buf), C.size_t(len(r.buf))); n {
	case -1:
		return Absent, 0, nil
	case -2:
		r.buf = make([]byte, 2*len(r.buf)) // the value does not fit
		return r.Get(key)
	case -3:
		return 0, 0, errors.New(C.GoString(chars(r.buf)))
	default:
		return found(r.buf[:n])
	}
}

func (r *rocksdbReader) Refresh() error { return nil }
func (r *rocksdbReader) Close() error   { return nil }

// rocksdbIterator crosses to C once for each movement, which returns key and
// value.
type rocksdbIterator struct{ c *C.peers_iterator }

func (it *rocksdbIterator) move(how C.int, key []byte) bool {
	return C.peers_move(it.c, how, chars(key), C.size_t(len(key))) != 0
}

func (it *rocksdbIterator) First() bool            { return it.move(C.PEERS_FIRST, nil) }
func (it *rocksdbIterator) Last() bool             { return it.move(C.PEERS_LAST, nil) }
func (it *rocksdbIterator) SeekGE(key []byte) bool { return it.move(C.PEERS_SEEK, key) }
func (it *rocksdbIterator) Next() bool             { return it.move(C.PEERS_NEXT, nil) }
func (it *rocksdbIterator) Prev() bool             { return it.move(C.PEERS_PREV, nil) }

func (it *rocksdbIterator) Key() []byte { return bytesAt(it.c.key, it.c.key_size) }

func (it *rocksdbIterator) Value() ([]byte, error) { return bytesAt(it.c.value, it.c.value_size), nil }

func bytesAt(p *C.char, size C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(size))
}

func (it *rocksdbIterator) Close() error {
	var err *C.char
	C.peers_stop(it.c, &err)
	C.free(unsafe.Pointer(it.c))
	return takeError(&err)
}
