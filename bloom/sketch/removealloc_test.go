package sketch

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A Cuckoo that has to move fingerprints or refuses, and a Bitset, allocate nothing.
func TestKept_AllocateNothing(t *testing.T) {
	testenv.SkipRace(t)
	full, set := mustCuckoo(CuckooOptions{Keys: 1}), bitsetOf(0, 5, 5000)
	key := []byte("a key of more than thirty-two bytes, to be sure")
	for what, fn := range map[string]func(){
		"full Cuckoo": func() {
			key[0]++
			benchSink = full.Add(key) == nil
		},
		"Bitset": func() {
			benchSink, _ = set.CheckAndSet(77)
			benchSink = set.Set(78) == nil && set.Has(77) && set.Clear(77)
			for i := range set.All() {
				benchWord += i
			}
		},
	} {
		if n := testing.AllocsPerRun(300, fn); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	if full.waiting != cuckooStash {
		t.Error("the small filter was never full")
	}
}
