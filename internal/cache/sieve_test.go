package cache

import "testing"

// victims takes n blocks out in the order of the sieve.
func victims(q *sieve, n int) (offsets []uint64) {
	for range n {
		b := q.victim()
		q.remove(b)
		offsets = append(offsets, b.key.Offset)
	}
	return offsets
}

func TestSieve_Order(t *testing.T) {
	for _, c := range []struct {
		name    string
		visited []int
		want    [6]uint64
	}{
		{"nothing was asked for: oldest first", nil, [6]uint64{0, 1, 2, 3, 4, 5}},
		{"a hit spares once", []int{0, 2}, [6]uint64{1, 3, 4, 5, 0, 2}},
		{"all were asked for", []int{0, 1, 2, 3, 4, 5}, [6]uint64{0, 1, 2, 3, 4, 5}},
	} {
		var q sieve
		blocks := make([]*Block, 6)
		for i := range blocks {
			blocks[i] = &Block{key: Key{Offset: uint64(i)}}
			q.add(blocks[i])
		}
		for _, i := range c.visited {
			blocks[i].visited.Store(1)
		}
		if got := [6]uint64(victims(&q, 6)); got != c.want {
			t.Errorf("%s: %v leave, want %v", c.name, got, c.want)
		}
		if q.newest != nil || q.oldest != nil || q.hand != nil {
			t.Errorf("%s: an empty sieve still points to blocks", c.name)
		}
	}
}

// A scan through more blocks than fit does not wash out what is in use.
func TestSieve_ResistsScans(t *testing.T) {
	c := New(1 << 20)
	for range 3 {
		for i := range uint64(100) {
			if !holds(c, Key{1, i}) {
				add(c, Key{1, i}, 4096)
			}
		}
	}
	for i := range uint64(5000) {
		add(c, Key{2, i}, 4096)
	}
	kept := 0
	for i := range uint64(100) {
		if holds(c, Key{1, i}) {
			kept++
		}
	}
	if kept < 99 {
		t.Errorf("%d of 100 blocks in use survived a scan", kept)
	}
}
