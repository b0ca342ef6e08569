package cache

import "testing"

// full returns a cache of one shard that has no room, and the keys of its blocks. All of them are of file 1.
func full() (c *Cache, kept []Key) {
	c = New(minShardBytes + minShardBytes/2)
	const many = 4000 // the last loose block is gone by then
	for i := range uint64(many) {
		add(c, Key{1, i}, 4000)
		add(c, Key{1, i}, 4000) // the second time it gets in
	}
	for i := range uint64(many) {
		if k := (Key{1, i}); c.Holds(k) {
			kept = append(kept, k)
		}
	}
	c.shards[0].door.forget(func(*Block) bool { return true })
	return c, kept
}

// What is read once, as by a scan, takes the place of no block.
func TestDoor_ScanEvictsNothing(t *testing.T) {
	c, kept := full()
	if len(kept) < 250 {
		t.Fatalf("a full cache has %d blocks", len(kept))
	}
	for i := range uint64(4 * len(kept)) {
		add(c, Key{2, i}, 4000)
	}
	for _, k := range kept {
		if !holds(c, k) {
			t.Fatalf("block %v of %d blocks is evicted by a scan", k, len(kept))
		}
	}
}

// A block that is missed twice gets in, and stays while others are refused.
func TestDoor_SecondMissGetsIn(t *testing.T) {
	c, kept := full()
	wanted := Key{2, 0}
	for turn := range uint64(2) {
		if holds(c, wanted) {
			t.Fatal("a block is there after one miss")
		}
		add(c, wanted, 4000)
		for i := range uint64(len(kept) / 16) {
			add(c, Key{3, i + 1000*turn}, 4000)
		}
	}
	b := c.Get(wanted)
	if b == nil {
		t.Fatal("a block that was missed twice is not there")
	}
	checkFor(t, b, wanted)
	b.Release()
}

// The last refused block is found again, until its file or the cache is gone, or others have come.
func TestDoor_LastRefused(t *testing.T) {
	c, _ := full()
	held := c.Stats()
	for i, end := range []func(){
		func() { c.EvictFile(2) },
		func() {
			for i := range uint64(len(door{}.passing)) {
				add(c, Key{3, i}, 4000)
			}
			c.EvictFile(3)
		},
		c.Close,
	} {
		k := Key{2, uint64(i)}
		add(c, k, 4000)
		b := c.Get(k)
		if b == nil {
			t.Fatalf("%d: the last refused block is not found", i)
		}
		if s := c.Stats(); s.Blocks != held.Blocks+1 || s.Bytes <= held.Bytes {
			t.Errorf("%d: %+v with a refused block, %+v without it", i, s, held)
		}
		if holds(c, Key{2, 99}) || holds(c, Key{4, uint64(i)}) {
			t.Errorf("%d: the block is found at another key", i)
		}
		end()
		if holds(c, k) {
			t.Errorf("%d: the block is still found", i)
		}
		checkFor(t, b, k) // the pin keeps it
		b.Release()
		if s := c.Stats(); i < 2 && s != held {
			t.Errorf("%d: %+v at the end, want %+v", i, s, held)
		}
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("%+v after Close", s)
	}
}

// A block that is too large to be kept among the refused is not kept.
func TestDoor_LargeIsNotKept(t *testing.T) {
	c, _ := full()
	held := c.Stats()
	add(c, Key{2, 0}, maxPassing+1)
	if s := c.Stats(); s != held || holds(c, Key{2, 0}) {
		t.Errorf("a large block that was refused is there: %+v, want %+v", s, held)
	}
}
