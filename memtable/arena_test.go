package memtable

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestArena_ItemsStayWhereTheyAre adds items of all sizes close to those of chunks. At the
// end it compares them all, by their addresses and by the slices that it got when it added
// them.
func TestArena_ItemsStayWhereTheyAre(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type item struct {
		addr            uint64
		key, value      []byte
		inKey, inValue  []byte
		chunksWhenAdded chunks
	}
	a := arena{mu: new(sync.Mutex)}
	var items []item
	used := int64(0)
	for range 300 {
		sizes := []int{r.IntN(40), r.IntN(40), 4000, firstChunk, ownChunk - 24, ownChunk - 23, ownChunk, chunkSize + 1}
		key := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(20))
		value := bytes.Repeat([]byte{byte(r.Uint32())}, sizes[r.IntN(len(sizes))])
		addr := a.add(key, value)
		k, v := a.chunks.item(addr, len(key), a.chunks.valueSize(addr, len(key)))
		items = append(items, item{addr, key, value, k, v, a.chunks})
		used += int64(len(key) + valueLen + len(value))
	}
	if a.used != used {
		t.Errorf("used = %d, want %d", a.used, used)
	}
	for i, it := range items {
		for _, c := range []chunks{a.chunks, it.chunksWhenAdded} {
			key, value := c.item(it.addr, len(it.key), c.valueSize(it.addr, len(it.key)))
			if !bytes.Equal(key, it.key) || !bytes.Equal(value, it.value) {
				t.Fatalf("item %d of %d+%d bytes changed", i, len(it.key), len(it.value))
			}
			if !bytes.Equal(c.key(it.addr, len(it.key)), it.key) {
				t.Fatalf("item %d: key of %d bytes changed", i, len(it.key))
			}
		}
		if !bytes.Equal(it.inKey, it.key) || !bytes.Equal(it.inValue, it.value) {
			t.Fatalf("item %d: slices handed out changed", i)
		}
		if cap(it.inKey) != len(it.inKey) || cap(it.inValue) != len(it.inValue) {
			t.Fatalf("item %d: an append to what was handed out would write into the arena", i)
		}
	}
}
