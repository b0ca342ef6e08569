package sketch_test

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// The number of keys is not known beforehand.
func ExampleScalable() {
	filter, err := sketch.NewScalable(sketch.ScalableOptions{Capacity: 100, FPR: 0.01})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1000 {
		if err := filter.Add(fmt.Appendf(nil, "user%d", i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	passed := 0
	for i := range 10000 {
		if filter.MayContainString(fmt.Sprint("guest", i)) {
			passed++
		}
	}
	info := filter.Info()
	fmt.Println(info.Filters, "layers for", info.Capacity, "keys,", info.SizeBytes, "bytes")
	fmt.Println(passed, "of 10000 guests pass")
	fmt.Println(filter.CheckAndAdd([]byte("user7")))
	fmt.Println(filter.CheckAndAdd([]byte("new one")))
	// Output:
	// 4 layers for 1500 keys, 2696 bytes
	// 71 of 10000 guests pass
	// true <nil>
	// false <nil>
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

	exact := bloom.Must(sketch.NewExact(filter, sketch.ExactOptions{}))
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
