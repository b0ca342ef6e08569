package bloom_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/shaledb/shale/bloom"
)

// A filter is built at once from the hashes of all keys, stored as bytes, and
// asked in these bytes.
func Example() {
	var hashes []uint64
	for i := range 1000 {
		hashes = append(hashes, bloom.Hash(fmt.Appendf(nil, "user%d", i)))
	}
	stored := bloom.AppendBlocked(nil, hashes, 10)

	filter, err := bloom.OpenBlocked(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("user7:", filter.MayContainHash(bloom.Hash([]byte("user7"))))
	passed := 0
	for i := range 10000 {
		if filter.MayContainHash(bloom.Hash(fmt.Appendf(nil, "guest%d", i))) {
			passed++
		}
	}
	fmt.Println("guests that look like users:", passed, "of 10000")
	fmt.Println(len(stored), "bytes for", filter.Count(), "keys")
	// Output:
	// user7: true
	// guests that look like users: 91 of 10000
	// 1312 bytes for 1000 keys
}

// A filter that cannot be read means that any key may be there.
func ExampleOpenBlocked() {
	stored := bloom.AppendBlocked(nil, []uint64{bloom.Hash([]byte("apple"))}, 10)
	stored[0] ^= 1 // a bit flips on the disk

	filter, err := bloom.OpenBlocked(stored)
	fmt.Println(errors.Is(err, bloom.ErrDamaged))
	mayContain := func(key string) bool {
		return filter == nil || filter.MayContainHash(bloom.Hash([]byte(key)))
	}
	fmt.Println(mayContain("apple"), mayContain("pear"))
	// Output:
	// true
	// true true
}

// An atomic filter grows while it is asked.
func ExampleAtomicBlocked() {
	filter := bloom.Must(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 1000, BitsPerKey: 10}))
	apple, pear := bloom.Hash([]byte("apple")), bloom.Hash([]byte("pear"))
	filter.AddHash(apple) // from any goroutine
	fmt.Println(filter.MayContainHash(apple), filter.MayContainHash(pear))
	fmt.Println(filter.SizeBytes(), "bytes")
	// Output:
	// true false
	// 1280 bytes
}

// How large must a filter of a million keys be so that one absent key in a thousand passes?
func ExampleBitsForFPR() {
	bits := bloom.BitsForFPR(0.001)
	fmt.Printf("%.1f bits a key, %.2f MB\n", bits, float64(bloom.BlockedSize(1e6, bits))/1e6)
	fmt.Printf("%.2f %% at 10 bits, %.4f %% at 20\n", 100*bloom.PredictFPR(10), 100*bloom.PredictFPR(20))
	// Output:
	// 14.6 bits a key, 1.83 MB
	// 0.96 % at 10 bits, 0.0092 % at 20
}

// If memory is short, a filter of two units can give up one. The stored bytes can
// bring it back.
func ExampleBlocked_FirstUnit() {
	var hashes []uint64
	for i := range 10000 {
		hashes = append(hashes, bloom.Hash(fmt.Append(nil, i)))
	}
	filter, err := bloom.OpenBlocked(bloom.AppendBlocked(nil, hashes, 20))
	if err != nil {
		fmt.Println(err)
		return
	}
	small := filter.FirstUnit()
	fmt.Printf("%d bytes, %.4f %%\n", filter.SizeBytes(), 100*filter.FPR())
	fmt.Printf("%d bytes, %.4f %%\n", small.SizeBytes(), 100*small.FPR())
	// Output:
	// 25120 bytes, 0.0089 %
	// 12544 bytes, 0.9431 %
}

// A store whose keys come from strangers draws a secret seed. Its filters contain the seed,
// so that they are asked with the right function.
func ExampleHasher() {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		fmt.Println(err)
		return
	}
	hashes := []uint64{hasher.Hash([]byte("apple")), hasher.Hash([]byte("pear"))}
	stored, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{BitsPerKey: 10, Hasher: hasher})
	if err != nil {
		fmt.Println(err)
		return
	}

	filter, err := bloom.OpenStatic(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(filter.Kind(), filter.Hasher().ID(), filter.Hasher() == hasher)
	fmt.Println(filter.MayContainHash(filter.Hasher().Hash([]byte("apple"))))

	_, err = bloom.OpenBlocked(stored) // would be asked with bloom.Hash
	fmt.Println(errors.Is(err, bloom.ErrUnknown))
	// Output:
	// blocked siphash true
	// true
	// true
}

// A fuse filter has fewer false positives for the same memory, and takes longer to build.
// If it cannot be built, a blocked one can.
func ExampleFuse() {
	var hashes []uint64
	for i := range 100000 {
		hashes = append(hashes, bloom.Hash(fmt.Append(nil, i)))
	}
	stored, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10})
	if err != nil {
		stored = bloom.AppendBlocked(nil, hashes, 10)
	}

	fuse, err := bloom.OpenFuse(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("7:", fuse.MayContainHash(bloom.Hash([]byte("7"))))
	fmt.Printf("%.2f bits a key, of which a fingerprint has %d\n", fuse.BitsPerKey(), fuse.Bits())
	fmt.Printf("%.2f %% pass, of a blocked filter with 10 bits a key %.2f %%\n", 100*fuse.FPR(), 100*bloom.PredictFPR(10))
	// Output:
	// 7: true
	// 9.50 bits a key, of which a fingerprint has 8
	// 0.39 % pass, of a blocked filter with 10 bits a key 0.96 %
}

// FuseFor returns the widest fingerprints that fit into a number of bits a key.
func ExampleFuseFor() {
	for _, n := range []int{1e3, 1e6} {
		r := bloom.FuseFor(n, 12)
		fmt.Printf("%d keys: %d bits, %.2f a key, %.3f %%\n", n, r, bloom.FuseBits(n, r), 100*bloom.FuseFPR(r))
	}
	// Output:
	// 1000 keys: 8 bits, 11.33 a key, 0.391 %
	// 1000000 keys: 10 bits, 11.31 a key, 0.098 %
}

// A filter can be a field of a struct: JSON has its bytes in base64.
func ExampleFilter_MarshalText() {
	type crawl struct {
		Site string
		Seen *bloom.Filter
	}
	c := crawl{"example.org", bloom.New(1000, 0.01)}
	for i := range 1000 {
		c.Seen.AddString(fmt.Sprintf("/page/%d", i))
	}
	b, err := json.Marshal(c)
	if err != nil {
		fmt.Println(err)
		return
	}

	var again crawl
	if err := json.Unmarshal(b, &again); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Seen.MayContainString("/page/7"), again.Seen.MayContainString("/about"))
	fmt.Println(again.Seen)
	// Output:
	// true false
	// bloom.Filter:
	//   keys                   1000
	//   bits                   9600
	//   probes                    7
	//   bits set               5015
	//   fill ratio           52.2 %
	//   false maybes        0.997 %
}
