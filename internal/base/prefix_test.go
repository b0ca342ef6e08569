package base

import (
	"bytes"
	"cmp"
	"testing"
)

func TestPrefix_OrdersLikeTheKeys(t *testing.T) {
	keys := []string{
		"", "\x00", "\x00\x00", "\x00\x01", "a", "a\x00", "a\x00b", "abcdefgh", "abcdefgh\x00", "abcdefghi",
		"abcdefghijklmno", "abcdefghijklmnop", "abcdefghijklmnopq", "abcdefghijklmnoq", "b", "\xff",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	}
	for _, a := range keys {
		for _, b := range keys {
			ahi, alo := Prefix([]byte(a))
			bhi, blo := Prefix([]byte(b))
			got := cmp.Or(cmp.Compare(ahi, bhi), cmp.Compare(alo, blo))
			if got == 0 && min(len(a), len(b)) <= PrefixLen {
				got = cmp.Compare(len(a), len(b))
			}
			want := bytes.Compare([]byte(a), []byte(b))
			if got != want && (got != 0 || min(len(a), len(b)) <= PrefixLen) {
				t.Errorf("prefixes of %q and %q compare as %d, want %d", a, b, got, want)
			}
		}
	}
}
