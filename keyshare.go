package shale

import (
	"bytes"
	"sort"
)

// keyRanks tell where keys lie among those of a run, by counting its tables: the
// key ranges of other runs then show which part of all lookups asks them, if keys
// are asked for that are spread like those of the store.
type keyRanks struct {
	run    *run
	before []float64 // keys in the tables before each, and in all
}

// ranksOf returns the ranks in the largest of the runs; nil if there is none.
func ranksOf(runs []*run) *keyRanks {
	var best *keyRanks
	for _, r := range runs {
		k := &keyRanks{run: r, before: make([]float64, 1, len(r.tables)+1)}
		for _, t := range r.tables {
			k.before = append(k.before, k.all()+float64(max(t.meta.Keys, 1)))
		}
		if best == nil || k.all() > best.all() {
			best = k
		}
	}
	return best
}

func (k *keyRanks) all() float64 { return k.before[len(k.before)-1] }

// rank returns about how many keys come before key, or are key.
func (k *keyRanks) rank(key []byte) float64 {
	tables := k.run.tables
	i := sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].meta.Largest, key) > 0 })
	if i == len(tables) || bytes.Compare(tables[i].meta.Smallest, key) >= 0 {
		return k.before[i]
	}
	return k.before[i] + tables[i].reader.Rank(key)*(k.before[i+1]-k.before[i])
}

// share returns about which part of the keys lies in the key ranges of r's tables.
func (k *keyRanks) share(r *run) float64 {
	if r == k.run {
		return 1
	}
	sum := 0.0
	for _, t := range r.tables {
		sum += k.rank(t.meta.Largest) - k.rank(t.meta.Smallest)
	}
	return min(1, sum/k.all())
}
