//go:build rocksdb

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"
)

/*
#cgo LDFLAGS: -lrocksdb
#cgo noescape peers_put
#cgo nocallback peers_put
#cgo noescape peers_get
#cgo nocallback peers_get

#include <stdlib.h>
#include <string.h>
#include <rocksdb/c.h>

typedef struct {
	rocksdb_t *db;
	rocksdb_cache_t *cache;
	rocksdb_options_t *options;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	rocksdb_flushoptions_t *flush;
	char *error; // of the last call that failed
} peers_store;

static void peers_open(peers_store *s, const char *dir, size_t memtable, size_t cache, int compactions) {
	s->cache = rocksdb_cache_create_lru(cache);
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(table, s->cache);
	rocksdb_block_based_options_set_block_size(table, 4 << 10);
	rocksdb_block_based_options_set_format_version(table, 5);
	rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_whole_key_filtering(table, 1);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 0);
	rocksdb_block_based_options_set_data_block_index_type(table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
	rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);

	s->options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(s->options, 1);
	rocksdb_options_set_block_based_table_factory(s->options, table);
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_set_write_buffer_size(s->options, memtable);
	rocksdb_options_set_memtable_prefix_bloom_size_ratio(s->options, 0.02);
	rocksdb_options_set_memtable_whole_key_filtering(s->options, 1);
	rocksdb_options_set_compression(s->options, rocksdb_snappy_compression);
	rocksdb_options_set_max_open_files(s->options, -1);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(s->options, 1);
	rocksdb_options_set_disable_auto_compactions(s->options, !compactions);
	if (!compactions) {
		rocksdb_options_set_level0_file_num_compaction_trigger(s->options, 1000);
		rocksdb_options_set_level0_slowdown_writes_trigger(s->options, 1000);
		rocksdb_options_set_level0_stop_writes_trigger(s->options, 1000);
	}
	s->read = rocksdb_readoptions_create();
	s->write = rocksdb_writeoptions_create(); // not synced
	s->flush = rocksdb_flushoptions_create(); // waits
	s->db = rocksdb_open(s->options, dir, &s->error);
}

static void peers_close(peers_store *s) {
	if (s->db) rocksdb_close(s->db);
	rocksdb_flushoptions_destroy(s->flush);
	rocksdb_writeoptions_destroy(s->write);
	rocksdb_readoptions_destroy(s->read);
	rocksdb_options_destroy(s->options);
	rocksdb_cache_destroy(s->cache);
	rocksdb_free(s->error);
	free(s);
}

static int peers_put(peers_store *s, const char *key, size_t key_size, const char *value, size_t value_size) {
	rocksdb_put(s->db, s->write, key, key_size, value, value_size, &s->error);
	return s->error != NULL;
}

// peers_get copies the value to buf and returns its size, -1 if there is none,
// -2 if it does not fit, -3 after a failure: one call from Go for a lookup.
// The error is copied to buf, because readers are concurrent.
static long peers_get(peers_store *s, const char *key, size_t key_size, char *buf, size_t capacity) {
	char *error = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(s->db, s->read, key, key_size, &error);
	if (error) {
		strncpy(buf, error, capacity - 1);
		buf[capacity - 1] = 0;
		rocksdb_free(error);
		return -3;
	}
	if (!slice) return -1;
	size_t size = 0;
	const char *value = rocksdb_pinnableslice_value(slice, &size);
	long result = -2;
	if (size <= capacity) {
		memcpy(buf, value, size);
		result = (long)size;
	}
	rocksdb_pinnableslice_destroy(slice);
	return result;
}
*/
import "C"

func optionalStores() []store { return []store{&rocksdbStore{}} }

// rocksdbStore is RocksDB through its C interface.
type rocksdbStore struct{ c *C.peers_store }

func (s *rocksdbStore) name() string { return "rocksdb" }

func (s *rocksdbStore) open(dir string, m mode) error {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	compactions := C.int(0)
	if m.compactions {
		compactions = 1
	}
	s.c = (*C.peers_store)(C.calloc(1, C.sizeof_peers_store))
	C.peers_open(s.c, path, C.size_t(m.memtable), C.size_t(m.cache), compactions)
	if err := s.failure(); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// failure is the error of the call before, if it left one.
func (s *rocksdbStore) failure() error {
	if s.c.error == nil {
		return nil
	}
	err := errors.New(C.GoString(s.c.error))
	C.rocksdb_free(unsafe.Pointer(s.c.error))
	s.c.error = nil
	return err
}

func (s *rocksdbStore) put(key, value []byte) error {
	if C.peers_put(s.c, chars(key), C.size_t(len(key)), chars(value), C.size_t(len(value))) != 0 {
		return s.failure()
	}
	return nil
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

func (s *rocksdbStore) flush() error {
	C.rocksdb_flush(s.c.db, s.c.flush, &s.c.error)
	return s.failure()
}

func (s *rocksdbStore) settle() error {
	if err := s.flush(); err != nil {
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
		time.Sleep(20 * time.Millisecond)
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

func (s *rocksdbStore) ways() []way {
	return []way{{"rocksdb", func() (reader, error) { return &rocksdbReader{c: s.c}, nil }}}
}

func (s *rocksdbStore) counts() counts { return counts{unknown, unknown, unknown} }

func (s *rocksdbStore) levels() ([]level, error) {
	var levels []level
	stats := s.property("rocksdb.levelstats")
	for line := range strings.Lines(stats) {
		var l level
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
	if levels == nil {
		return nil, fmt.Errorf("no level in %q", stats)
	}
	return levels, nil
}

func (s *rocksdbStore) close() error {
	C.peers_close(s.c)
	s.c = nil
	return nil
}

type rocksdbReader struct {
	c   *C.peers_store
	buf [256]byte
}

func (r *rocksdbReader) get(key []byte) (int, error) {
	switch n := C.peers_get(r.c, chars(key), C.size_t(len(key)), chars(r.buf[:]), C.size_t(len(r.buf))); n {
	case -1:
		return absent, nil
	case -2:
		return 0, errors.New("a value that does not fit")
	case -3:
		return 0, errors.New(C.GoString(chars(r.buf[:])))
	default:
		return int(n), nil
	}
}

func (r *rocksdbReader) close() error { return nil }
