package sketch

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Additions, questions and removals allocate nothing, with any hash function, also when a
// cuckoo filter has to move fingerprints or refuses.
func TestKept_AllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	key := []byte("a key of more than thirty-two bytes, to be sure")
	for _, hasher := range everyHasher() {
		counting := mustCounting(CountingOptions{Keys: 100, Hasher: hasher})
		cuckoo := mustCuckoo(CuckooOptions{Keys: 100, Hasher: hasher})
		small := mustCuckoo(CuckooOptions{Keys: 1, Hasher: hasher})
		set := bitsetOf(0, 5, 5000)
		i := byte(0)
		for what, fn := range map[string]func(){
			"Counting": func() {
				counting.Add(key)
				benchSink = counting.MayContain(key)
				benchSink = counting.Remove(key)
				benchSink = counting.MayContain(key[1:])
			},
			"Cuckoo": func() {
				benchSink = cuckoo.Add(key) == nil
				benchSink = cuckoo.MayContain(key)
				benchSink = cuckoo.Remove(key)
				benchSink = cuckoo.MayContain(key[1:])
			},
			"full Cuckoo": func() {
				i++
				key[0] = i
				benchSink = small.Add(key) == nil
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
				t.Errorf("%v, %s: %v allocations", hasher.ID(), what, n)
			}
		}
		if small.waiting != cuckooStash {
			t.Errorf("%v: the small filter was never full", hasher.ID())
		}
	}
}
