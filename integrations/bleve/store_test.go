package shalebleve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	store "github.com/blevesearch/upsidedown_store_api"
	"github.com/blevesearch/upsidedown_store_api/test"
	"github.com/shaledb/shale"
)

func open(t testing.TB, config map[string]interface{}) *Store {
	t.Helper()
	if config["path"] == nil {
		config["path"] = filepath.Join(t.TempDir(), "store")
	}
	kv, err := New(&test.TestMergeCounter{}, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kv.Close(); err != nil && !errors.Is(err, shale.ErrClosed) {
			t.Error(err)
		}
	})
	return kv.(*Store)
}

// The tests that bleve's own stores pass.
func TestStore_Suite(t *testing.T) {
	for name, common := range map[string]func(*testing.T, store.KVStore){
		"KVCrud":             test.CommonTestKVCrud,
		"ReaderIsolation":    test.CommonTestReaderIsolation,
		"ReaderOwnsGetBytes": test.CommonTestReaderOwnsGetBytes,
		"WriterOwnsBytes":    test.CommonTestWriterOwnsBytes,
		"PrefixIterator":     test.CommonTestPrefixIterator,
		"PrefixIteratorSeek": test.CommonTestPrefixIteratorSeek,
		"RangeIterator":      test.CommonTestRangeIterator,
		"RangeIteratorSeek":  test.CommonTestRangeIteratorSeek,
		"Merge":              test.CommonTestMerge,
	} {
		t.Run(name, func(t *testing.T) { common(t, open(t, map[string]interface{}{})) })
	}
}

func execute(t *testing.T, s *Store, fill func(b store.KVBatch)) error {
	t.Helper()
	w, err := s.Writer()
	if err != nil {
		t.Fatal(err)
	}
	buffer, b, err := w.NewBatchEx(store.KVBatchOptions{TotalBytes: 100})
	if err != nil || len(buffer) != 100 {
		t.Fatalf("NewBatchEx: %d bytes, %v", len(buffer), err)
	}
	fill(b)
	return errors.Join(w.ExecuteBatch(b), b.Close(), w.Close())
}

func TestReader_MultiGet(t *testing.T) {
	s := open(t, map[string]interface{}{})
	if err := execute(t, s, func(b store.KVBatch) {
		b.Set([]byte("a"), []byte("1"))
		b.Set([]byte("empty"), nil)
	}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.MultiGet([][]byte{[]byte("absent"), []byte("empty"), []byte("a")})
	if err != nil || len(got) != 3 || got[0] != nil || got[1] == nil || len(got[1]) != 0 || string(got[2]) != "1" {
		t.Errorf("MultiGet = %q, %v", got, err)
	}
	it := r.RangeIterator([]byte("a"), []byte{})
	if key, value, valid := it.Current(); valid || key != nil || value != nil || it.Key() != nil || it.Value() != nil {
		t.Errorf("a range up to the empty key has %q=%q", key, value)
	}
	if err := errors.Join(it.Close(), it.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// A batch that has met an error is not applied, in no part, and can be used again after Reset.
func TestBatch_Errors(t *testing.T) {
	s := open(t, map[string]interface{}{})
	w := writer{s}
	b := w.NewBatch()
	b.Set([]byte("a"), []byte("1"))
	b.Set(make([]byte, shale.MaxKeySize+1), nil)
	b.Merge([]byte("n"), make([]byte, 8))
	b.Delete([]byte("b"))
	if err := w.ExecuteBatch(b); !errors.Is(err, shale.ErrKeyTooLarge) {
		t.Errorf("ExecuteBatch = %v, want ErrKeyTooLarge", err)
	}
	if err := w.ExecuteBatch(store.NewEmulatedBatch(nil)); err == nil {
		t.Error("a batch of another store was executed")
	}
	if n := s.DB.Metrics().Writes; n != 0 {
		t.Errorf("%d operations were written", n)
	}
	b.Reset()
	b.Set([]byte("b"), []byte("2"))
	if err := w.ExecuteBatch(b); err != nil {
		t.Error(err)
	}
	if n := s.DB.Metrics().Writes; n != 1 {
		t.Errorf("%d operations were written, want 1", n)
	}
}

// Merges of several goroutines add up, whatever else they write, and a merge keeps no slice of the caller's.
func TestBatch_MergesAddUp(t *testing.T) {
	s := open(t, map[string]interface{}{"nosync": true})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			operand := make([]byte, 8)
			for range 50 {
				if err := execute(t, s, func(b store.KVBatch) {
					for _, key := range []string{"x", "y"} {
						binary.LittleEndian.PutUint64(operand, 1)
						b.Merge([]byte(key), operand)
						binary.LittleEndian.PutUint64(operand, 1000)
					}
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, key := range []string{"x", "y"} {
		value, err := s.DB.Get([]byte(key))
		if err != nil || binary.LittleEndian.Uint64(value) != 200 {
			t.Errorf("%s is %v, %v, want 200", key, value, err)
		}
	}
}

type refuses struct{ test.TestMergeCounter }

func (*refuses) FullMerge(_, _ []byte, _ [][]byte) ([]byte, bool) { return nil, false }

func TestBatch_MergeFails(t *testing.T) {
	s := open(t, map[string]interface{}{})
	s.merging = &refuses{}
	if err := execute(t, s, func(b store.KVBatch) {
		b.Set([]byte("a"), nil)
		b.Merge([]byte("k"), make([]byte, 8))
	}); err == nil || s.DB.Metrics().Writes != 0 {
		t.Errorf("ExecuteBatch = %v, %d operations written, want an error and none", err, s.DB.Metrics().Writes)
	}
}

func TestNew_Config(t *testing.T) {
	for _, config := range []map[string]interface{}{{}, {"path": ""}, {"path": 1}} {
		if _, err := New(nil, config); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("New(%v) = %v", config, err)
		}
	}
	path := filepath.Join(t.TempDir(), "store")
	if _, err := New(nil, map[string]interface{}{"path": path, "create_if_missing": false}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New of a store that is not there = %v", err)
	}
	// As bleve makes an index, and opens it again.
	s := open(t, map[string]interface{}{"path": path, "create_if_missing": true, "error_if_exists": true})
	if err := execute(t, s, func(b store.KVBatch) { b.Set([]byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(nil, map[string]interface{}{"path": path, "create_if_missing": true, "error_if_exists": true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("New of a store that is there = %v", err)
	}
	reads := open(t, map[string]interface{}{"path": path, "create_if_missing": false, "error_if_exists": false, "read_only": true})
	r, err := reads.Reader()
	if err != nil {
		t.Fatal(err)
	}
	if value, err := r.Get([]byte("k")); err != nil || string(value) != "v" {
		t.Errorf("Get = %q, %v", value, err)
	}
	if err := execute(t, reads, func(b store.KVBatch) { b.Set([]byte("k"), nil) }); !errors.Is(err, shale.ErrReadOnly) {
		t.Errorf("a write to a store that only reads = %v", err)
	}
	if err := errors.Join(r.Close(), reads.Close()); err != nil {
		t.Error(err)
	}
	var config map[string]interface{}
	if err := json.Unmarshal([]byte(`{"write_buffer_size": 1048576, "lru_cache_capacity": 2097152, "bloom_filter_bits_per_key": 12, "nosync": true}`), &config); err != nil {
		t.Fatal(err)
	}
	if o := options(config); o.MemtableSize != 1<<20 || o.CacheSize != 2<<20 || o.FilterBits != 12 || o.Durability != shale.SyncPeriodic {
		t.Errorf("options %+v", o)
	}
}

func TestStore_Closed(t *testing.T) {
	s := open(t, map[string]interface{}{})
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	it := r.PrefixIterator(nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if it.Next(); it.Valid() || !errors.Is(it.Close(), shale.ErrClosed) {
		t.Error("the iterator of a closed store has an entry, or ends without an error")
	}
	if _, err := s.Reader(); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("Reader = %v", err)
	}
	if err := execute(t, &Store{DB: s.DB}, func(b store.KVBatch) { b.Set([]byte("k"), nil) }); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("ExecuteBatch = %v", err)
	}
	if m := s.StatsMap(); len(m) != 0 {
		t.Errorf("a closed store has statistics: %v", m)
	}
}

func TestStore_Stats(t *testing.T) {
	s := open(t, map[string]interface{}{})
	if err := execute(t, s, func(b store.KVBatch) { b.Set([]byte("k"), nil) }); err != nil {
		t.Fatal(err)
	}
	text, err := s.Stats().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]float64
	if err := json.Unmarshal(text, &all); err != nil || all["shale_writes_total"] != 1 {
		t.Errorf("%v, %v: want one write", all, err)
	}
	for _, name := range []string{"shale_level_tables_6", "shale_memory_bytes_filters"} {
		if _, ok := all[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}
