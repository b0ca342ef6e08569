package cache

import (
	"math/rand/v2"
	"testing"
)

// A table against a map, with hashes that collide.
func TestTable_Model(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := new(shard)
	tab := newTable(s, minSlots)
	model := map[Key]*Block{}
	hash := func(k Key) uint64 { return (k.Offset%17)<<57 | (k.Offset%3)<<1 | 1 }
	for range 20000 {
		k := Key{1, rng.Uint64N(60)}
		switch b := model[k]; {
		case b == nil && !tab.crowded():
			b = &Block{key: k, shard: s}
			b.refs.Store(1)
			b.published.Store(true)
			tab.put(hash(k), b)
			model[k] = b
		case b != nil && rng.IntN(2) == 0:
			tab.remove(hash(k), b)
			delete(model, k)
		case rng.IntN(100) == 0:
			tab = tab.grown()
			if len(tab.slots) > 1024 {
				small := newTable(s, minSlots)
				for k, b := range model {
					small.put(hash(k), b)
				}
				tab = small
			}
		}
		probe := Key{1, rng.Uint64N(60)}
		got := tab.get(hash(probe), probe)
		if got != model[probe] {
			t.Fatalf("get(%v) = %p, want %p", probe, got, model[probe])
		}
		if got != nil {
			got.Release()
		}
		if tab.used != len(model) {
			t.Fatalf("used = %d, want %d", tab.used, len(model))
		}
	}
}
