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
	keys := append(sameHome(1, 30), sameHome(2, 10)...)
	for i := range uint64(20) {
		keys = append(keys, Key{3, i})
	}
	for range 20000 {
		k := keys[rng.IntN(len(keys))]
		switch b := model[k]; {
		case b == nil && !tab.crowded():
			b = &Block{key: k, shard: s}
			b.refs.Store(1)
			b.published.Store(true)
			tab.put(k.hash(), b)
			model[k] = b
		case b != nil && rng.IntN(2) == 0:
			tab.remove(k.hash(), b)
			delete(model, k)
		case rng.IntN(100) == 0:
			tab = tab.grown()
			if len(tab.slots) > 1024 {
				small := newTable(s, minSlots)
				for k, b := range model {
					small.put(k.hash(), b)
				}
				tab = small
			}
		}
		probe := keys[rng.IntN(len(keys))]
		got := tab.get(probe.hash(), probe)
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
