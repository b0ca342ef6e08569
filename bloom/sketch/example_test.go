package sketch_test

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// The number of keys is not known beforehand.
func ExampleScalable() {
	filter, err := sketch.NewScalable(100, 0.01, sketch.ScalableOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1000 {
		if _, err := filter.Add(fmt.Appendf(nil, "user%d", i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	passed := 0
	for i := range 10000 {
		if filter.HasString(fmt.Sprint("guest", i)) {
			passed++
		}
	}
	info := filter.Info()
	fmt.Println(info.Filters, "layers for", info.Capacity, "keys,", info.SizeBytes, "bytes")
	fmt.Println(passed, "of 10000 guests pass")
	added, err := filter.AddMany([]byte("user7"), []byte("new one"))
	fmt.Println(added, err)
	// Output:
	// 4 layers for 1500 keys, 2696 bytes
	// 71 of 10000 guests pass
	// [false true] <nil>
}

// A disk is asked once for an absent key, and not each time.
func ExampleExact() {
	disk := map[string]bool{"apple": true}
	reads := 0
	read := func(key []byte) (bool, error) {
		reads++
		return disk[string(key)], nil
	}
	filter := bloom.New(1, 0.5) // lets much pass
	for i := range 100 {
		filter.Add(fmt.Append(nil, i))
	}
	filter.AddString("apple")

	exact := sketch.NewExact(filter, 64<<10)
	for range 3 {
		for _, key := range []string{"apple", "pear"} {
			found, err := exact.Lookup([]byte(key), read)
			fmt.Println(key, found, err, reads)
		}
	}

	// A pear is added: first to the filter, then to the disk, and then Present is called.
	filter.AddString("pear")
	disk["pear"] = true
	exact.Present([]byte("pear"))
	fmt.Println(exact.Lookup([]byte("pear"), read))
	// Output:
	// apple true <nil> 1
	// pear false <nil> 2
	// apple true <nil> 3
	// pear false <nil> 3
	// apple true <nil> 4
	// pear false <nil> 4
	// true <nil>
}

// Values are keys by the fields that a funnel writes.
func ExampleOf() {
	type visit struct {
		host string
		user uint64
	}
	visits := sketch.NewOf(bloom.New(1e6, 0.01), func(v visit, s *sketch.Sink) {
		s.String(v.host)
		s.Uint64(v.user)
	})
	if err := visits.Add(visit{"example.org", 7}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(visits.MayContain(visit{"example.org", 7}), visits.MayContain(visit{"example.org", 8}))
	// Output: true false
}

// AskerFunc makes a static filter, which is asked for hashes, one that is asked for keys.
func ExampleAskerFunc() {
	stored, err := bloom.AppendStatic(nil, []uint64{bloom.Hash([]byte("apple"))}, bloom.StaticOptions{BitsPerKey: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	static, err := bloom.OpenStatic(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	exact := sketch.NewExact(sketch.AskerFunc(func(key []byte) bool {
		return static.MayContain(static.Hasher().Hash(key))
	}), 64<<10)
	fmt.Println(exact.MayContain([]byte("apple")), exact.MayContain([]byte("pear")))
	// Output: true false
}
