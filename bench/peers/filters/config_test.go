package main

import (
	"io"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	c, err := parse([]string{"-n", "2000,3000", "-lengths", "32", "-groups", "static,unknown", "-only", "shale B,Xor8"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.sizes, []int{2000, 3000}) || !slices.Equal(c.lengths, []int{32}) {
		t.Errorf("parsed %+v", c)
	}
	var names []string
	for _, x := range contestants() {
		if c.takes(x) {
			names = append(names, x.name)
		}
		if x.name == "shale Fuse, xxh3" && c.takes(x) {
			t.Errorf("%s is taken", x.name)
		}
		if x.group != static && x.group != unsized && c.takes(x) {
			t.Errorf("%s of group %s is taken", x.name, x.group)
		}
	}
	if !slices.Contains(names, "shale Blocked") || !slices.Contains(names, "xorfilter Xor8") || slices.Contains(names, "xorfilter BinaryFuse8") {
		t.Errorf("filters taken: %v", names)
	}
}

func TestParse_Refused(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "10"}, {"-n", "x"}, {"-n", ""}, {"-lengths", "8"}, {"-rounds", "0"}, {"-asks", "0"}, {"-fills", "0"},
		{"-keys", "odd"}, {"-groups", "none"}, {"more"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("parse(%q): no error", args)
		}
	}
}

// Sizes that memory does not suffice for are lowered, the others are not.
func TestFit(t *testing.T) {
	c := config{sizes: []int{2000, 1_000_000, 50_000_000}, memory: 10_000 * perKey, memoryPerKey: perKey}
	c.fit()
	if !slices.Equal(c.sizes, []int{2000, 10_000}) || !slices.Equal(c.lowered, []int{1_000_000, 50_000_000}) {
		t.Errorf("sizes %v, lowered %v", c.sizes, c.lowered)
	}
	c = config{sizes: []int{50_000_000}, memoryPerKey: perKey}
	if c.fit(); c.sizes[0] != 50_000_000 {
		t.Errorf("sizes %v where memory is not known", c.sizes)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 62_500: "62 500", 50_000_000: "50 000 000"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}
