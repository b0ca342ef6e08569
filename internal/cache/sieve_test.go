package cache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// victims removes n blocks in the order of the sieve.
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
			blocks[i] = &Block{key: Key{Offset: uint64(i)}, slot: new(slot)}
			q.add(blocks[i])
		}
		for _, i := range c.visited {
			blocks[i].slot.visit(0)
		}
		if got := [6]uint64(victims(&q, 6)); got != c.want {
			t.Errorf("%s: %v leave, want %v", c.name, got, c.want)
		}
		if q.newest != nil || q.oldest != nil || q.hand != nil {
			t.Errorf("%s: an empty sieve still points to blocks", c.name)
		}
	}
}

// The sieve does the same as the algorithm in the words of the paper, on a slice with
// the oldest block first. Blocks are also removed from the middle, as EvictFile does.
func TestSieve_Model(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var q sieve
	var model []*Block
	hit := map[*Block]bool{}
	hand := 0 // index in model
	takeOut := func(i int) {
		q.remove(model[i])
		model = slices.Delete(model, i, i+1)
		if hand > i {
			hand--
		}
		if hand == len(model) {
			hand = 0 // past the newest there is only the oldest
		}
	}
	for step := range 20000 {
		switch op := rng.IntN(10); {
		case op < 4 || len(model) == 0:
			b := &Block{key: Key{Offset: uint64(step)}, slot: new(slot)}
			q.add(b)
			model = append(model, b)
		case op < 7:
			b := model[rng.IntN(len(model))]
			b.slot.visit(0)
			hit[b] = true
		case op < 8:
			takeOut(rng.IntN(len(model)))
		default:
			for hit[model[hand]] {
				hit[model[hand]] = false
				hand = (hand + 1) % len(model)
			}
			if got, want := q.victim(), model[hand]; got != want {
				t.Fatalf("step %d: block %d leaves, want %d", step, got.key.Offset, want.key.Offset)
			}
			takeOut(hand)
		}
	}
}

// A scan through more blocks than fit into the cache does not evict blocks that are in use.
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
