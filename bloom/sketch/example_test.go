package sketch_test

import (
	"bufio"
	"fmt"
	"strings"

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

// A black list is a filter, and a white list has the names that it would refuse by mistake, for a program that has
// nowhere to look names up. Absent must only be called for names that are not on the black list. Give the Exact room for all of them: it
// forgets the names that are asked for least.
func ExampleExact_Absent() {
	blacklist := bloom.New(1000, 0.1)
	for i := range 1000 {
		blacklist.Add(fmt.Appendf(nil, "spam%d.example", i))
	}
	names := strings.NewReader("a.example\nb.example\nc.example\nd.example\ne.example\nf.example\ng.example\n")

	exact := bloom.Must(sketch.NewExact(blacklist, sketch.ExactOptions{}))
	lines := bufio.NewScanner(names) // of a file of good names
	for lines.Scan() {
		if name := lines.Bytes(); exact.MayContain(name) {
			fmt.Printf("%s would be refused\n", name)
			exact.Absent(name, exact.Since(name))
		}
	}
	fmt.Println(exact.Len(), "on the white list:", exact.MayContain([]byte("b.example")), exact.MayContain([]byte("spam7.example")))
	// Output:
	// b.example would be refused
	// 1 on the white list: false true
}
