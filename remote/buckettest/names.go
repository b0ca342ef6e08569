package buckettest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/object"
)

// Names and lists. Steps, segments and pins are found by lists alone, so an order that differs by
// one byte, or an object that a page leaves out, would make a store go back in time.

// names uses each form of name that is allowed, all at the same time, and then some that are not.
func (s *suite) names() {
	good := []string{
		// The bytes '-', '.', '/' and '0' follow each other in ASCII, so these names come in
		// another order wherever folders are sorted before or behind files. con-1 is near a name
		// that some systems reserve, and 512 bytes is the longest name.
		"0", "a", "a-b", "a.b", "a0", "b/c", "b-c/d", "b.c/d", "b0/d", "-", "_", "x..y", "--/_/0",
		"con-1", strings.Repeat("n", 200), strings.Repeat("d/", 255) + "ee",
		object.TableName(0xabcdef), object.SegmentName(1, 4096), object.StepName(1),
	}
	for _, name := range good {
		s.must(remote.PutObject(s.ctx, s.b, name, []byte(name), true))
	}
	for _, name := range good {
		s.is(name, []byte(name))
	}
	for _, name := range []string{
		// A file system or a URL would take each of these for something else: a parent, another
		// case, a query. The last two are one byte too long.
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", ".a", "a.", "A", "é", "a b", "a\x00b", "a\\b", "a\nb", "%41", "a?b", "a#b",
		strings.Repeat("n", 201), strings.Repeat("d/", 256) + "e",
	} {
		s.refused(name)
	}
	if got := s.list("", ""); !slices.Equal(got, slices.Sorted(slices.Values(good))) {
		s.Errorf("List = %q, want %q", got, slices.Sorted(slices.Values(good)))
	}
}

// refused fails the test if a call accepts a name.
func (s *suite) refused(name string) {
	s.Helper()
	for _, absent := range []bool{true, false} {
		if err := remote.PutObject(s.ctx, s.b, name, []byte("data"), absent); err == nil {
			s.Errorf("Put(%q) succeeded", name)
		}
	}
	if info, err := s.b.Stat(s.ctx, name); err == nil {
		s.Errorf("Stat(%q) = %+v", name, info)
	}
	if n, err := s.b.ReadAt(s.ctx, name, make([]byte, 1), 0); n > 0 || err == nil {
		s.Errorf("ReadAt(%q) = %d, %v", name, n, err)
	}
	if err := s.b.Delete(s.ctx, name); err == nil {
		s.Errorf("Delete(%q) succeeded", name)
	}
}

// listOrder lists objects whose names test the order of bytes, by all prefixes and from all places.
func (s *suite) listOrder() {
	sizes := map[string]int{
		"a": 1, "a-b": 2, "a.b": 3, "a0": 4, "a_b": 5, "b-c": 6, "b/-": 7, "b/c/d": 8, "b/c/e": 9, "b/c-d": 0, "b/d": 11, "b0": 12, "c/a": 13, "c/b": 14,
	}
	for name, size := range sizes {
		s.put(name, make([]byte, size))
	}
	all := slices.Sorted(maps.Keys(sizes))
	// Prefixes and places to begin at need not be names, nor even be text.
	prefixes := []string{"", "a", "a-", "b", "b/", "b/c", "b/c/", "b/c/d", "b/c/d/", "b/x", "c/", "d", "/", ".", "A", "b//", "é", "\xff"}
	afters := append([]string{"", "a-", "b", "b/", "b/c", "b/c/", "b/c/dd", "b/cc", "c", "zz", "\xff", "A"}, all...)
	for _, prefix := range prefixes {
		for _, after := range afters {
			want := []string{}
			for _, name := range all {
				if strings.HasPrefix(name, prefix) && name > after {
					want = append(want, name)
				}
			}
			if got := s.list(prefix, after); !slices.Equal(got, want) {
				s.Errorf("List(%q, after %q) = %q, want %q", prefix, after, got, want)
			}
		}
	}
	for info, err := range s.b.List(s.ctx, "", "") {
		s.must(err)
		if info.Size != int64(sizes[info.Name]) {
			s.Errorf("List has %s with %d bytes, want %d", info.Name, info.Size, sizes[info.Name])
		}
	}
}

// listPages lists more objects than servers return at once, all of them and from a place on.
func (s *suite) listPages() {
	// A page of S3 has 1,000 objects. The places below lie on both sides of its border.
	const n = 1100
	for i := range n {
		s.put(object.StepName(uint64(i)), []byte("step"))
	}
	s.put("a", nil)
	s.put("z", nil)
	for _, from := range []int{0, 1, 99, 1000, 1001, n - 1} {
		after := ""
		if from > 0 {
			after = object.StepName(uint64(from - 1))
		}
		i := from
		for _, name := range s.list("m/", after) {
			if want := object.StepName(uint64(i)); name != want {
				s.Fatalf("after %q: %s, want %s", after, name, want)
			}
			i++
		}
		if i != n {
			s.Errorf("List(after %q) ends at %d of %d", after, i, n)
		}
	}
}

// listEnds stops in the middle of lists, begins them again, and changes objects within them.
// Searches stop at the first object that they look for, so a list that is left early must end all
// that it has begun.
func (s *suite) listEnds() {
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("d/%02d", i))
		s.put(want[i], []byte{1})
	}
	list := s.b.List(s.ctx, "d/", "")
	for range 2 { // a list can be gone through again
		var got []string
		for info, err := range list {
			s.must(err)
			got = append(got, info.Name)
			if len(got) == 7 {
				break
			}
		}
		if !slices.Equal(got, want[:7]) {
			s.Errorf("the first seven are %q, want %q", got, want[:7])
		}
	}
	// The list goes on while its objects are deleted behind it. Collections do that.
	for info, err := range list {
		s.must(err)
		s.must(s.b.Delete(s.ctx, info.Name))
	}
	if got := s.list("", ""); len(got) > 0 {
		s.Errorf("List = %q after a loop that has deleted all", got)
	}
}
