// RocksDB as the benchmark calls it: one call from Go for an operation.
#include <stdint.h>
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

static rocksdb_options_t *peers_options(rocksdb_cache_t *cache, size_t memtable, int compactions, int apart) {
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(table, cache);
	rocksdb_block_based_options_set_block_size(table, 4 << 10);
	rocksdb_block_based_options_set_format_version(table, 5);
	rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_whole_key_filtering(table, 1);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 0);
	rocksdb_block_based_options_set_data_block_index_type(table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
	rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);

	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_block_based_table_factory(o, table);
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_set_write_buffer_size(o, memtable);
	rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, 0.02);
	rocksdb_options_set_memtable_whole_key_filtering(o, 1);
	rocksdb_options_set_compression(o, rocksdb_snappy_compression);
	rocksdb_options_set_max_open_files(o, -1);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
	rocksdb_options_set_disable_auto_compactions(o, !compactions);
	if (apart) { // values of a KiB and more are in files of their own, as BlobDB's wiki advises
		rocksdb_options_set_enable_blob_files(o, 1);
		rocksdb_options_set_min_blob_size(o, 1 << 10);
		rocksdb_options_set_blob_compression_type(o, rocksdb_snappy_compression);
		rocksdb_options_set_enable_blob_gc(o, 1);
	}
	if (!compactions) {
		rocksdb_options_set_level0_file_num_compaction_trigger(o, 1000);
		rocksdb_options_set_level0_slowdown_writes_trigger(o, 1000);
		rocksdb_options_set_level0_stop_writes_trigger(o, 1000);
	}
	return o;
}

static void peers_open(peers_store *s, const char *dir, size_t memtable, size_t cache, int compactions, int sync, int apart) {
	s->cache = rocksdb_cache_create_lru(cache);
	s->options = peers_options(s->cache, memtable, compactions, apart);
	s->read = rocksdb_readoptions_create();
	s->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(s->write, sync);
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

// Writers are concurrent: each call returns its error.

static char *peers_put(peers_store *s, const char *key, size_t key_size, const char *value, size_t value_size) {
	char *error = NULL;
	rocksdb_put(s->db, s->write, key, key_size, value, value_size, &error);
	return error;
}

static char *peers_delete(peers_store *s, const char *key, size_t key_size) {
	char *error = NULL;
	rocksdb_delete(s->db, s->write, key, key_size, &error);
	return error;
}

// peers_batch writes entries that follow each other as two sizes, key, value.
static char *peers_batch(peers_store *s, const char *p, size_t size) {
	char *error = NULL;
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (const char *end = p + size; p < end;) {
		uint32_t sizes[2];
		memcpy(sizes, p, sizeof sizes);
		p += sizeof sizes;
		rocksdb_writebatch_put(batch, p, sizes[0], p + sizes[0], sizes[1]);
		p += (size_t)sizes[0] + sizes[1];
	}
	rocksdb_write(s->db, s->write, batch, &error);
	rocksdb_writebatch_destroy(batch);
	return error;
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

typedef struct {
	rocksdb_iterator_t *it;
	const char *key, *value;
	size_t key_size, value_size;
} peers_iterator;

enum { PEERS_FIRST, PEERS_LAST, PEERS_SEEK, PEERS_NEXT, PEERS_PREV };

static void peers_iterate(peers_store *s, peers_iterator *i) { i->it = rocksdb_create_iterator(s->db, s->read); }

static int peers_move(peers_iterator *i, int how, const char *key, size_t key_size) {
	switch (how) {
	case PEERS_FIRST: rocksdb_iter_seek_to_first(i->it); break;
	case PEERS_LAST: rocksdb_iter_seek_to_last(i->it); break;
	case PEERS_SEEK: rocksdb_iter_seek(i->it, key, key_size); break;
	case PEERS_NEXT: rocksdb_iter_next(i->it); break;
	default: rocksdb_iter_prev(i->it);
	}
	if (!rocksdb_iter_valid(i->it)) return 0;
	i->key = rocksdb_iter_key(i->it, &i->key_size);
	i->value = rocksdb_iter_value(i->it, &i->value_size);
	return 1;
}

static void peers_stop(peers_iterator *i, char **error) {
	rocksdb_iter_get_error(i->it, error);
	rocksdb_iter_destroy(i->it);
}
