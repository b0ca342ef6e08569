package bloom_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/hashes"
)

// The number of keys and the rate of false positives are enough to make a filter.
func ExampleFilter() {
	filter := bloom.New(1000, 0.01)
	for i := range 1000 {
		filter.Add(fmt.Appendf(nil, "user%d", i))
	}
	fmt.Println("user7:", filter.MayContain([]byte("user7")))
	fmt.Println("guest7:", filter.MayContainString("guest7"))

	passed := 0
	for i := range 10000 {
		if filter.MayContainString(fmt.Sprint("guest", i)) {
			passed++
		}
	}
	fmt.Println("guests that look like users:", passed, "of 10000")
	fmt.Printf("%d bytes, %d probes, %.0f %% full\n", filter.SizeBytes(), filter.K(), 100*filter.FillRatio())
	fmt.Printf("%d keys added, about %.0f different ones\n", filter.Count(), filter.EstimatedCount())
	// Output:
	// user7: true
	// guest7: false
	// guests that look like users: 84 of 10000
	// 1200 bytes, 7 probes, 52 % full
	// 1000 keys added, about 995 different ones
}

// Has this key been here before? CheckAndAdd asks and adds in one call.
func ExampleFilter_CheckAndAdd() {
	seen := bloom.New(1e6, 0.001)
	for _, word := range []string{"to", "be", "or", "not", "to", "be"} {
		if !seen.CheckAndAdd([]byte(word)) {
			fmt.Println(word)
		}
	}
	// Output:
	// to
	// be
	// or
	// not
}

// A filter is written to a file and read from it. The filters of several machines
// are merged into one.
func ExampleFilter_Union() {
	monday, tuesday := bloom.New(1000, 0.01), bloom.New(1000, 0.01)
	monday.AddString("ann")
	tuesday.AddString("bob")

	var file bytes.Buffer
	if _, err := tuesday.WriteTo(&file); err != nil {
		fmt.Println(err)
		return
	}
	var read bloom.Filter
	if _, err := read.ReadFrom(&file); err != nil {
		fmt.Println(err) // damaged, or of a later version: any key may be there
		return
	}
	if err := monday.Union(&read); err != nil {
		fmt.Println(err) // of another size or hash function
		return
	}
	fmt.Println(monday.MayContainString("ann"), monday.MayContainString("bob"), monday.MayContainString("eve"))
	fmt.Println(errors.Is(monday.Union(bloom.New(5, 0.01)), bloom.ErrMismatch))
	// Output:
	// true true false
	// true
}

// A filter can use any hash function of 128 bits. With an id it can be written.
func ExampleNewFilter() {
	filter, err := bloom.NewFilter(bloom.FilterOptions{Keys: 1000, FPR: 1e-4, Hash: hashes.Of(fnv.New128a), HashID: bloom.FirstOwnHashID})
	if err != nil {
		fmt.Println(err)
		return
	}
	filter.AddString("apple")
	fmt.Println(filter.MayContainString("apple"), filter.MayContainString("pear"))
	// Output: true false
}

// What do a hundred million keys take, and how many absent keys pass? A filter with one bit a key and one probe
// is a bit map by hash.
func ExampleSizeFPR() {
	const n, table = 100_000_000, 2 * 8 * 100_000_000
	for _, way := range []struct {
		name  string
		bytes uint64
	}{
		{"URLs of 100 bytes", 100 * n}, {"their MD5", 16 * n}, {"8 bytes each in a hash table, half full", table},
		{"IPv4 addresses, of 15 characters", 15 * n}, {"as numbers", 4 * n}, {"as a bit for each that there can be", (1 << 32) / 8},
	} {
		fmt.Printf("%-40s %8.1f MB\n", way.name, float64(way.bytes)/1e6)
	}
	for _, bits := range []uint64{1, 8, 10, 16, 32} {
		m := bits * n
		k := bloom.SizeProbes(m, n)
		fmt.Printf("filter, %2d bits a key and %2d probes     %8.1f MB, 1/%-3.0f of the table: %.4g %% pass\n",
			bits, k, float64(m)/8e6, float64(table*8)/float64(m), 100*bloom.SizeFPR(m, k, n))
	}
	fmt.Printf("with 16 bits and 8 probes %.2f of 10,000 pass\n", 1e4*bloom.SizeFPR(16*n, 8, n))
	// Output:
	// URLs of 100 bytes                         10000.0 MB
	// their MD5                                  1600.0 MB
	// 8 bytes each in a hash table, half full    1600.0 MB
	// IPv4 addresses, of 15 characters           1500.0 MB
	// as numbers                                  400.0 MB
	// as a bit for each that there can be         536.9 MB
	// filter,  1 bits a key and  1 probes         12.5 MB, 1/128 of the table: 63.21 % pass
	// filter,  8 bits a key and  6 probes        100.0 MB, 1/16  of the table: 2.158 % pass
	// filter, 10 bits a key and  7 probes        125.0 MB, 1/13  of the table: 0.8194 % pass
	// filter, 16 bits a key and 11 probes        200.0 MB, 1/8   of the table: 0.04587 % pass
	// filter, 32 bits a key and 22 probes        400.0 MB, 1/4   of the table: 2.104e-05 % pass
	// with 16 bits and 8 probes 5.74 of 10,000 pass
}

// The Size functions compute bits, probes, keys and false positives from each other.
func ExampleSizeBits() {
	m := bloom.SizeBits(1e6, 0.01)
	k := bloom.SizeProbes(m, 1e6)
	fmt.Printf("%.2f MB, %d probes\n", float64(m)/8e6, k)
	fmt.Printf("%.2f %% with two million keys\n", 100*bloom.SizeFPR(m, k, 2e6))
	fmt.Printf("%d keys until 5 %% pass\n", bloom.SizeKeys(m, k, 0.05))
	// Output:
	// 1.20 MB, 7 probes
	// 15.75 % with two million keys
	// 1444718 keys until 5 % pass
}
