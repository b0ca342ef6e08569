package cache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

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
