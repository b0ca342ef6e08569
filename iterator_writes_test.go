package shale

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// An image is a copy of a struct that goroutines share.
type image struct {
	name  string
	at    *uintptr
	words []uintptr
}

// imageOf copies the struct that p, a pointer, points to.
func imageOf(name string, p reflect.Value) image {
	n := p.Type().Elem().Size() / unsafe.Sizeof(uintptr(0))
	i := image{name: name, at: (*uintptr)(p.UnsafePointer()), words: make([]uintptr, n)}
	copy(i.words, i.now())
	return i
}

// now returns the words that the struct has now.
func (i image) now() []uintptr { return unsafe.Slice(i.at, len(i.words)) }

// changed returns the words that differ from the images.
func changed(images []image) (words []string) {
	for _, i := range images {
		for n, w := range i.now() {
			if w != i.words[n] {
				words = append(words, fmt.Sprintf("word %d of %s: %#x, was %#x", n, i.name, w, i.words[n]))
			}
		}
	}
	return words
}

// A new iterator changes one word that goroutines share, the pins of the view, and Close changes
// it back. Each processor that opens iterators takes the line of such a word from the others. So
// with two memtables and several levels, there is not one more.
func TestIterator_WritesOneSharedWord(t *testing.T) {
	testenv.SkipRace(t) // the images read what background goroutines may write
	opts := small()
	opts.FS, opts.CompactionWorkers = vfs.NewMem(), -1
	db := openTest(t, opts)
	fill(t, db, 2000, 0)
	settle(t, db)
	fill(t, db, 100, 1)
	mustFlush(t, db)
	mustPut(t, db, "key000000", "in the memtable")
	db.mems.Freeze() // nobody wakes the flusher
	mustPut(t, db, "key000001", "in the next one")

	open := func() *Iterator {
		it := db.NewIterator(Range{})
		if !it.SeekGE([]byte("key000001")) || string(it.Value()) != "in the next one" || !it.Next() {
			t.Fatalf("at %q = %q: %v", it.Key(), it.Value(), it.Err())
		}
		return it
	}
	if err := open().Close(); err != nil { // makes the stripes of the counters
		t.Fatal(err)
	}
	v := db.mems.View()
	if len(v.Imms) != 1 || len(v.Runs) < 2 {
		t.Fatalf("%d immutable memtables and %d runs", len(v.Imms), len(v.Runs))
	}
	var images []image
	shared := func(name string, p any) { images = append(images, imageOf(name, reflect.ValueOf(p))) }
	shared("the DB", db)
	shared("the lifetime", db.life)
	shared("the changes", db.changes)
	shared("the tree", db.tree)
	shared("the scheduler", db.scheduler)
	shared("the resident filters", db.filters)
	shared("the view", v)
	images = append(images, imageOf("the pins of the view", reflect.ValueOf(v).Elem().FieldByName("pins")))
	shared("the version", v.Version)
	for i, mem := range []any{v.Mem, v.Imms[0].Mem} {
		shared(fmt.Sprintf("memtable %d", i), mem)
		memory := reflect.ValueOf(mem).Elem().FieldByName("memory")
		images = append(images, imageOf(fmt.Sprintf("the pins of memtable %d", i), memory))
	}
	for _, r := range v.Runs {
		shared("a run", r)
		for _, table := range r.Tables {
			shared("a table", table)
			shared("a reader", table.Reader)
		}
	}

	// On a busy machine background work may have paused for any time, and come in between. It ends.
	var opened, closed []string
	for range 10 {
		testenv.WaitFor(t, "background work to end", func() bool {
			for i := range images {
				copy(images[i].words, images[i].now())
			}
			time.Sleep(5 * time.Millisecond)
			return len(changed(images)) == 0
		})
		it := db.NewIterator(Range{})
		if opened = changed(images); !v.Pinned() {
			t.Error("NewIterator does not pin the view")
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if closed = changed(images); len(opened) == 1 && len(closed) == 0 {
			return
		}
	}
	t.Errorf("NewIterator changes %d shared words, want one, the pins of the view: %q", len(opened), opened)
	t.Errorf("after Close %d shared words have changed: %q", len(closed), closed)
}
