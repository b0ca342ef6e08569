package tablefs

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// testPages are the pages that testPage has made.
var testPages sync.Map

// testPage returns the content of a page of a table. Callers do not change it.
func testPage(id pageID) []byte {
	if b, there := testPages.Load(id); there {
		return b.([]byte)
	}
	random := rand.New(rand.NewPCG(id.Num, uint64(id.page)))
	b := make([]byte, pageSize)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	testPages.Store(id, b)
	return b
}

func idOfPage(num uint64, page uint32) pageID {
	return pageID{fileID{object.KindTable, num, uint32(num) * 7}, page}
}

// eachCache runs a test with a cache in memory and with one in a file.
func eachCache(t *testing.T, pages int64, fn func(t *testing.T, c *pageCache)) {
	t.Run("memory", func(t *testing.T) { fn(t, NewPageCache(pages*pageSize)) })
	t.Run("file", func(t *testing.T) {
		c, err := OpenPageCache(vfs.NewMem(), "pages", pages*pageSize)
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

// TestPageCache_EveryByte flips each byte of a short page in its file: the damage is a miss, and what is fetched then is
// there again.
func TestPageCache_EveryByte(t *testing.T) {
	c, err := OpenPageCache(vfs.NewMem(), "pages", pageSize)
	mustNil(t, err)
	defer c.close()
	id := idOfPage(1, 3)
	part := testPage(id)[500:900]
	for i := range part {
		c.write(id, part, 500)
		_, err := c.file.WriteAt([]byte{part[i] ^ 1<<(i%8)}, 500+int64(i))
		mustNil(t, err)
		b := make([]byte, len(part))
		if c.read(id, b, 500) {
			t.Fatalf("byte %d: the damage was not noticed", i)
		}
		c.write(id, part, 500)
		if !c.read(id, b, 500) || !bytes.Equal(b, part) {
			t.Fatalf("byte %d: what was fetched again is not there", i)
		}
	}
	// The same number in a copy of the store is another table.
	id.sum++
	if c.read(id, make([]byte, 10), 500) {
		t.Error("a page of another table of this number was found")
	}
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
	for _, bytes := range []int64{-1, 0, 1, pageSize - 1} {
		c := NewPageCache(bytes)
		id := idOfPage(1, 0)
		c.write(id, testPage(id), 0)
		if c.read(id, make([]byte, 1), 0) {
			t.Error("a page without room")
		}
	}
}
