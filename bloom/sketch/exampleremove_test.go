package sketch_test

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// Who is logged in? Sessions are added and removed.
func ExampleCounting() {
	sessions := bloom.Must(sketch.NewCounting(sketch.CountingOptions{Keys: 10_000, FPR: 0.01}))
	if err := sessions.AddKeys([][]byte{[]byte("alice"), []byte("bob")}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("alice:", sessions.MayContain([]byte("alice")))

	fmt.Println("removed:", sessions.Remove([]byte("alice")))
	fmt.Println("alice:", sessions.MayContain([]byte("alice")))
	fmt.Println("removed again:", sessions.Remove([]byte("alice"))) // certainly absent
	fmt.Println(sessions.Count(), "there, in", sessions.SizeBytes(), "bytes")
	// Output:
	// alice: true
	// removed: true
	// alice: false
	// removed again: false
	// 1 there, in 54592 bytes
}

// The options can set the memory in place of a rate, and a secret hash function.
func ExampleNewCounting() {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, 0x5bd1e995) // draw your own
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := sketch.NewCounting(sketch.CountingOptions{Keys: 1_000_000, BitsPerKey: 32, Hasher: hasher})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bytes, %.1f %% will pass\n", f.SizeBytes(), 100*sketch.CountingFPR(32))
	// Output:
	// 4000000 bytes, 3.1 % will pass
}

// A cache tells its neighbours which pages it has, in 13 bits a page.
func ExampleCuckoo() {
	held := bloom.Must(sketch.NewCuckoo(sketch.CuckooOptions{Keys: 1000}))
	for i := range 1000 {
		if err := held.Add(fmt.Appendf(nil, "page-%d", i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for i := range 500 {
		held.Remove(fmt.Appendf(nil, "page-%d", i)) // evicted
	}
	sent, err := held.MarshalBinary()
	if err != nil {
		fmt.Println(err)
		return
	}

	var remote sketch.Cuckoo
	if err := remote.UnmarshalBinary(sent); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("page-7:", remote.MayContain([]byte("page-7")))
	fmt.Println("page-700:", remote.MayContain([]byte("page-700")))
	fmt.Printf("%d pages in %d bytes, %.2f %% of others pass\n", remote.Count(), len(sent), 100*remote.FPR())
	// Output:
	// page-7: false
	// page-700: true
	// 500 pages in 1616 bytes, 0.09 % of others pass
}

// A cuckoo filter has a fixed number of places. When they are all taken, nothing
// that was added is lost.
func ExampleCuckoo_Add() {
	f := bloom.Must(sketch.NewCuckoo(sketch.CuckooOptions{Keys: 100}))
	added := 0
	for f.Add(fmt.Append(nil, added)) == nil {
		added++
	}
	fmt.Println(added >= 100, errors.Is(f.Add([]byte("one more")), sketch.ErrFull))
	for i := range added {
		if !f.MayContain(fmt.Append(nil, i)) {
			fmt.Println(i, "is lost")
		}
	}
	// Output:
	// true true
}

// Which rows have changed? A Bitset has their numbers exactly, and lists them in order.
func ExampleBitset() {
	var changed sketch.Bitset
	for _, row := range []uint64{70, 3, 100_000, 3} {
		was, err := changed.CheckAndSet(row)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row, "was changed before:", was)
	}
	for row := range changed.All() {
		fmt.Println(row)
	}
	fmt.Println(changed.Count(), "rows,", changed.Set(1<<50))
	// Output:
	// 70 was changed before: false
	// 3 was changed before: false
	// 100000 was changed before: false
	// 3 was changed before: true
	// 3
	// 70
	// 100000
	// 3 rows, bloom: number is beyond the limit: 1125899906842624, limit 4294967296
}
