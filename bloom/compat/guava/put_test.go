package guava

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// Goroutines that put at the same time lose no bit: the filter has the bytes of one that got the same keys
// one by one. Few bits and many rounds let them meet at one word often.
func TestPut_LosesNoBit(t *testing.T) {
	const goroutines, keys = 2, 4000
	rounds := 400
	if testenv.Race {
		rounds = 10
	}
	for round := range rounds {
		o := Options{Keys: keys, FPR: 0.5, MITZ32: round%2 == 1}
		f, one := mustNew(t, o), mustNew(t, o)
		puts := []func(key []byte) bool{f.Put, func(key []byte) bool { return newOf(f, inUTF8).Put(string(key)) }}
		var started atomic.Int32
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for started.Add(1); started.Load() < goroutines; {
					runtime.Gosched()
				}
				for i := g; i < keys; i += goroutines {
					puts[g](filtertest.Numbered(i))
				}
			})
		}
		group.Wait()
		for i := range keys {
			if err := one.Add(filtertest.Numbered(i)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(filtertest.Marshal(t, f), filtertest.Marshal(t, one)) {
			t.Fatalf("round %d: bits are lost", round)
		}
	}
}

// If several goroutines put the same new key, Put tells exactly one of them that it is new. Afterwards the filter
// knows the key, and so does a copy.
func TestPut_SameKeys(t *testing.T) {
	const goroutines, keys = 4, 2000
	f, told := mustNew(t, Options{Keys: keys, FPR: 0.001}), make([]atomic.Int32, keys)
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for i := range keys {
				key := filtertest.Numbered(i)
				if f.Put(key) {
					told[i].Add(1)
				}
				if !f.MayContain(key) {
					t.Errorf("%s is denied after Put", key)
				}
				if i%500 == 499 {
					filtertest.CheckHas(t, f.Clone(), 0, i+1)
					_ = f.FPR() // the race detector looks at it
				}
			}
		})
	}
	group.Wait()
	silent := 0
	for i := range told {
		if told[i].Load() == 0 {
			silent++
		}
	}
	if silent > 10 { // 2 or so look as if they had been there
		t.Errorf("%d new keys were told to nobody", silent)
	}
	if f.Put(filtertest.Numbered(0)) || new(Filter).Put(nil) || new(Of[string]).Put("") {
		t.Error("Put reports a change where there is none")
	}
}
