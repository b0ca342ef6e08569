package shale

import (
	"fmt"
	"strings"
	"testing"
)

// Once the store is closed, each movement of an iterator fails, wherever the iterator is, and Err
// is ErrClosed.
func TestIterator_EveryMoveAfterClose(t *testing.T) {
	k := []byte("c")
	places := map[string]func(it *Iterator){
		"fresh":            func(*Iterator) {},
		"on an entry":      func(it *Iterator) { it.SeekGE(k) },
		"backward":         func(it *Iterator) { it.SeekLT(k) },
		"after the last":   func(it *Iterator) { it.Last(); it.Next() },
		"before the first": func(it *Iterator) { it.First(); it.Prev() },
		"sought too far":   func(it *Iterator) { it.SeekGE([]byte("z")) },
	}
	for place, goThere := range places {
		for _, r := range []Range{{}, {Lower: []byte("b"), Upper: []byte("e")}, {Upper: []byte{}}} {
			for _, m := range moves {
				db := layered(t)
				s := mustSnapshot(t, db)
				iters := []*Iterator{db.NewIterator(r), s.NewIterator(r)}
				for _, it := range iters {
					goThere(it)
					if it.Err() != nil {
						t.Fatal(it.Err())
					}
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				for _, it := range iters {
					for range 2 {
						if m.on(it) || it.Valid() || it.Err() != ErrClosed {
							t.Errorf("%s, [%s, %s), %s: Err is %v, want ErrClosed", place, r.Lower, r.Upper, m.name, it.Err())
						}
					}
					if err := it.Close(); err != nil {
						t.Error(err)
					}
					if m.on(it) || it.Err() != ErrClosed {
						t.Errorf("%s after the iterator's Close: Err is %v, want ErrClosed", m.name, it.Err())
					}
				}
			}
		}
	}
}

// A movement may begin while the store is open, and find its files closed when it reads. Then the
// error is ErrClosed itself.
func TestIterator_CloseBeforeARead(t *testing.T) {
	for _, m := range moves {
		opts := small()
		opts.CompactionWorkers, opts.CacheSize = -1, -1
		db := openTest(t, opts)
		for i := range 500 {
			mustPut(t, db, fmt.Sprintf("%c%d", 'a'+i%8, i), strings.Repeat("v", 50))
		}
		mustFlush(t, db)
		it := db.NewIterator(Range{})
		it.SeekGE([]byte("c"))
		db.files.Close() // as Close of the store does
		for range 500 {  // until Next and Prev reach the end of a block
			if !m.on(it) {
				break
			}
		}
		if it.Err() != ErrClosed || it.Valid() {
			t.Errorf("%s: %v, want ErrClosed itself", m.name, it.Err())
		}
		if err := it.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// If the files are closed before an iterator reads ahead, it fails with ErrClosed, and no event
// carries an error.
func TestIterator_CloseBeforeAReadAhead(t *testing.T) {
	opts := small()
	opts.CompactionWorkers, opts.CacheSize = -1, -1
	opts.MemtableSize, opts.TableSize = 1<<20, 1<<20
	opts.OnEvent = func(e Event) {
		if e.Err != nil {
			t.Errorf("event %v (%s): %v", e.Kind, e.Reason, e.Err)
		}
	}
	db := openTest(t, opts)
	fill(t, db, 5000, 0)
	mustFlush(t, db)
	opts.ReadOnly = true
	for n := range 100 { // each stops at another entry; one of them reads ahead next
		db := openTest(t, opts)
		awaitLoaded(t, db)
		it := db.NewIterator(Range{})
		for ok, i := it.First(), 0; ok && i < 20*n; i++ {
			ok = it.Next()
		}
		db.files.Close()
		for it.Next() {
		}
		if it.Err() != ErrClosed {
			t.Errorf("%v, want ErrClosed", it.Err())
		}
		it.Close()
	}
}
