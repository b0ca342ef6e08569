package testenv

import (
	"reflect"
	"strings"
	"testing"
)

// cacheLine is the size in bytes of a cache line of most processors.
const cacheLine = 64

// CheckApart checks the layout of the struct that v points to: a field of written never shares a
// cache line with a field of read, wherever the struct begins. A processor that writes to a line
// takes it away from all others, which then wait for what they read in it. A field of a field is
// named with a dot; an embedded one has the name of its type. A whole struct may be named too.
func CheckApart(t *testing.T, v any, read, written []string) {
	t.Helper()
	root := reflect.TypeOf(v).Elem()
	for _, r := range read {
		for _, w := range written {
			rBegin, rEnd := place(t, root, r)
			wBegin, wEnd := place(t, root, w)
			if gap := max(wBegin-rEnd, rBegin-wEnd); gap < cacheLine-1 {
				t.Errorf("%v: %d bytes between %s, at offset %d, and %s, at %d; want at least %d", root, gap, r, rBegin, w, wBegin, cacheLine-1)
			}
		}
	}
}

// place returns the offsets at which a field begins, inclusive, and ends, exclusive.
func place(t *testing.T, s reflect.Type, path string) (begin, end int) {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		f, ok := s.FieldByName(name)
		if !ok {
			t.Fatalf("%v has no field %s", s, name)
		}
		if len(f.Index) > 1 {
			t.Fatalf("%v has %s in an embedded field: name that too", s, name)
		}
		begin, s = begin+int(f.Offset), f.Type
	}
	return begin, begin + int(s.Size())
}
