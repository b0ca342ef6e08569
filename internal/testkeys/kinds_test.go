package testkeys

import (
	"bytes"
	"slices"
	"testing"
)

// The keys of a kind are all different, the same for the same seed, and as many
// as were asked for.
func TestMake(t *testing.T) {
	longest := 0
	for _, k := range append(Listed(t), Made()...) {
		const n = 4000
		want := n
		if k.Few > 0 {
			want = k.Few
		}
		present, absent := k.Make(3, n, n)
		if len(present) != want || len(absent) != want {
			t.Errorf("%s: %d and %d keys, want %d", k.Name, len(present), len(absent), want)
		}
		seen := make(map[string]bool)
		for _, key := range slices.Concat(present, absent) {
			if seen[string(key)] {
				t.Fatalf("%s: %.60q is there twice", k.Name, key)
			}
			seen[string(key)] = true
			longest = max(longest, len(key))
		}
		again, _ := k.Make(3, n, 0)
		if !slices.EqualFunc(present, again, bytes.Equal) {
			t.Errorf("%s: other keys the second time", k.Name)
		}
	}
	if longest != maxLen {
		t.Errorf("the longest key has %d bytes, want %d", longest, maxLen)
	}
}
