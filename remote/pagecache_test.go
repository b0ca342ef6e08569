package remote

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// testPages are the pages that testPage has made.
var testPages sync.Map

// testPage returns the content of a page of a table. Callers do not change it.
func testPage(id pageID) []byte {
	if b, there := testPages.Load(id); there {
		return b.([]byte)
	}
	random := rand.New(rand.NewPCG(id.num, uint64(id.page)))
	b := make([]byte, pageSize)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	testPages.Store(id, b)
	return b
}

func idOfPage(num uint64, page uint32) pageID {
	return pageID{fileID{KindTable, num, uint32(num) * 7}, page}
}

// eachCache runs a test with a cache in memory and with one in a file.
func eachCache(t *testing.T, pages int64, fn func(t *testing.T, c *pageCache)) {
	t.Run("memory", func(t *testing.T) { fn(t, newPageCache(pages*pageSize)) })
	t.Run("file", func(t *testing.T) {
		c, err := openPageCache(vfs.NewMem(), "pages", 1, pageOffset(pages, pages))
		mustNil(t, err)
		defer c.close()
		if len(c.slots) != int(pages) {
			t.Fatalf("%d pages, want %d", len(c.slots), pages)
		}
		fn(t, c)
	})
}

// TestPageCache_Model compares a small cache with what was written: every hit has the right bytes.
func TestPageCache_Model(t *testing.T) {
	eachCache(t, 7, func(t *testing.T, c *pageCache) {
		random := rand.New(rand.NewPCG(1, 2))
		hits := 0
		for range 3000 {
			id := idOfPage(1+random.Uint64N(3), random.Uint32N(4))
			want := testPage(id)
			from := random.IntN(pageSize)
			to := from + 1 + random.IntN(pageSize-from)
			b := make([]byte, to-from)
			switch random.IntN(8) {
			case 0:
				c.write(id, want, 0)
			case 1:
				c.write(id, want[from:to], uint32(from))
				if !c.read(id, b, uint32(from)) || !c.holds(id, uint32(from), uint32(to)) {
					t.Fatal("what was just written is not there")
				}
			case 2:
				if random.IntN(10) == 0 {
					c.forget(id.fileID)
					if c.read(id, b, uint32(from)) {
						t.Fatal("a page that was forgotten is there")
					}
				}
			default:
				if c.read(id, b, uint32(from)) {
					hits++
					if !bytes.Equal(b, want[from:to]) {
						t.Fatalf("a hit with other bytes")
					}
				}
			}
		}
		if hits < 100 {
			t.Errorf("%d hits", hits)
		}
	})
}

// TestPageCache_Clock keeps the page that is read again and again while others come and go.
func TestPageCache_Clock(t *testing.T) {
	eachCache(t, 4, func(t *testing.T, c *pageCache) {
		kept := idOfPage(1, 0)
		c.write(kept, testPage(kept), 0)
		b := make([]byte, 10)
		for i := range 100 {
			if !c.read(kept, b, 0) {
				t.Fatalf("the page is gone after %d others", i)
			}
			id := idOfPage(2, uint32(i))
			c.write(id, testPage(id), 0)
		}
	})
}

// TestPageCache_Reopen finds the pages of an earlier process, and none of another store.
func TestPageCache_Reopen(t *testing.T) {
	mem := vfs.NewMem()
	open := func(store uint64, pages int64) *pageCache {
		c, err := openPageCache(mem, "pages", store, pageOffset(pages, pages))
		mustNil(t, err)
		return c
	}
	found := func(c *pageCache) (n int) {
		for page := range uint32(5) {
			id, b := idOfPage(1, page), make([]byte, pageSize)
			if c.read(id, b, 0) {
				n++
				if !bytes.Equal(b, testPage(id)) {
					t.Error("a page with other bytes")
				}
			}
		}
		return n
	}
	c := open(1, 8)
	for page := range uint32(5) {
		c.write(idOfPage(1, page), testPage(idOfPage(1, page)), 0)
	}
	mustNil(t, c.close())
	c = open(1, 8)
	if n := found(c); n != 5 {
		t.Errorf("%d of 5 pages are there", n)
	}
	// The same number in a copy of the store is another table.
	other := idOfPage(1, 0)
	other.sum++
	if c.read(other, make([]byte, 10), 0) {
		t.Error("a page of another table of this number was found")
	}
	mustNil(t, c.close())
	for _, test := range []struct {
		store uint64
		pages int64
	}{{2, 8}, {2, 9}} {
		c = open(test.store, test.pages)
		if n := found(c); n != 0 {
			t.Errorf("store %d, %d pages: %d pages of another one", test.store, test.pages, n)
		}
		mustNil(t, c.close())
	}
}

// TestPageCache_EveryByte flips each byte of a cache with one short page: the damage is a miss, and what
// is fetched then is there again.
func TestPageCache_EveryByte(t *testing.T) {
	mem := vfs.NewMem()
	size := pageOffset(1, 1)
	id := idOfPage(1, 3)
	part := testPage(id)[500:900]
	c, err := openPageCache(mem, "pages", 1, size)
	mustNil(t, err)
	c.write(id, part, 500)
	mustNil(t, c.close())
	good := readAll(t, mem, "pages")
	misses := 0
	at := int(pageOffset(1, 0)) + 500
	for i := range good {
		if i >= headSize+8+sumSize && i < pageHeader || i >= pageHeader+pageEntry && i < at || i >= at+len(part) {
			continue // these bytes mean nothing
		}
		changeFile(t, mem, "pages", func([]byte) []byte { return remotetest.Flipped(good, 8*i+i%8) })
		c, err := openPageCache(mem, "pages", 1, size)
		mustNil(t, err)
		b := make([]byte, len(part))
		if c.read(id, b, 500) {
			t.Fatalf("byte %d: the damage was not noticed", i)
		}
		misses++
		c.write(id, part, 500)
		if !c.read(id, b, 500) || !bytes.Equal(b, part) {
			t.Fatalf("byte %d: what was fetched again is not there", i)
		}
		mustNil(t, c.close())
	}
	if misses < 400 {
		t.Errorf("%d misses", misses)
	}
}

// TestPageCache_Crash opens what a power cut leaves of a cache, which is never synced: every hit has the right bytes.
func TestPageCache_Crash(t *testing.T) {
	mem := vfs.NewMem()
	size := pageOffset(3, 3)
	c, err := openPageCache(mem, "pages", 1, size)
	mustNil(t, err)
	for i := range uint32(40) {
		id := idOfPage(1, i%5)
		c.write(id, testPage(id), 0)
		for seed := range uint64(4) {
			after := mem.Crash(vfs.CrashConfig{Policy: vfs.Sectors, Names: vfs.NamesKeep, Seed: seed})
			crashed, err := openPageCache(after, "pages", 1, size)
			mustNil(t, err)
			for page := range uint32(5) {
				id, b := idOfPage(1, page), make([]byte, pageSize)
				if crashed.read(id, b, 0) && !bytes.Equal(b, testPage(id)) {
					t.Fatal("a hit with other bytes")
				}
			}
			mustNil(t, crashed.close())
		}
	}
	mustNil(t, c.close())
}

// TestPageCache_Concurrent reads and writes from several goroutines.
func TestPageCache_Concurrent(t *testing.T) {
	contents := make(map[pageID][]byte)
	for page := range uint32(12) {
		contents[idOfPage(1, page)] = testPage(idOfPage(1, page))
	}
	eachCache(t, 5, func(t *testing.T, c *pageCache) {
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(3, uint64(g)))
				b := make([]byte, 1000)
				for range 2000 {
					id := idOfPage(1, random.Uint32N(12))
					from := random.IntN(pageSize - len(b))
					switch random.IntN(5) {
					case 0:
						c.write(id, contents[id][from/2:], uint32(from/2))
					case 1:
						if random.IntN(50) == 0 {
							c.forget(id.fileID)
						}
					default:
						if c.read(id, b, uint32(from)) && !bytes.Equal(b, contents[id][from:from+len(b)]) {
							t.Error("a hit with other bytes")
							return
						}
					}
				}
			})
		}
		wg.Wait()
		for i := range c.slots {
			if c.slots[i].pins != 0 || c.slots[i].gone {
				t.Errorf("slot %d has %d pins", i, c.slots[i].pins)
			}
		}
	})
}

// TestPageCache_NoRoom has room for no page at all.
func TestPageCache_NoRoom(t *testing.T) {
	for _, bytes := range []int64{-1, 0, 1, 5000, pageSize} {
		c := newPageCache(bytes - pageSize)
		id := idOfPage(1, 0)
		c.write(id, testPage(id), 0)
		if c.read(id, make([]byte, 1), 0) {
			t.Error("a page without room")
		}
		if n := pagesIn(bytes); n != 0 {
			t.Errorf("pagesIn(%d) = %d", bytes, n)
		}
	}
	for n := range int64(3000) {
		if got := pagesIn(pageOffset(n, n)); got != n {
			t.Fatal(fmt.Sprint("pagesIn(pageOffset(", n, ")) = ", got))
		}
	}
}
