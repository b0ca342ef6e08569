package base

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

func TestPrefixRule_Of(t *testing.T) {
	two, colon, second := PrefixRule{Length: 2}, PrefixRule{Count: 1, Delimiter: ':'}, PrefixRule{Count: 2, Delimiter: '/'}
	for _, c := range []struct {
		rule PrefixRule
		key  string
		want string // "-": none
	}{
		{PrefixRule{}, "abc", "-"},
		{two, "abc", "ab"}, {two, "ab", "ab"}, {two, "a", "-"}, {two, "", "-"},
		{colon, "user:7", "user:"}, {colon, "user:", "user:"}, {colon, ":", ":"}, {colon, "user", "-"}, {colon, "a:b:c", "a:"},
		{second, "a/b/c", "a/b/"}, {second, "//", "//"}, {second, "a/b", "-"}, {second, "/a/b", "/a/"},
	} {
		got, ok := c.rule.Of([]byte(c.key))
		if !ok {
			got = []byte("-")
		}
		if string(got) != c.want {
			t.Errorf("%+v.Of(%q) = %q, want %q", c.rule, c.key, got, c.want)
		}
	}
}

// OfRange is compared with its definition, for all short keys over a few bytes. The prefix
// of a range must be that of all keys in it. If all keys of a range have one, OfRange must
// find it, unless that depends on the fact that no key lies between two others.
func TestPrefixRule_OfRange(t *testing.T) {
	testenv.SkipRace(t)
	keys := [][]byte{{}}
	for n := 0; len(keys[n]) < 4; n++ {
		for _, c := range []byte{0, 'a', ':', 0xfe, 0xff} {
			keys = append(keys, append(bytes.Clone(keys[n]), c))
		}
	}
	bounds := keys[:1+5+25+125]
	found := 0
	for _, rule := range []PrefixRule{{Length: 1}, {Length: 2}, {Count: 1, Delimiter: ':'}, {Count: 2, Delimiter: 0xff}, {Count: 1, Delimiter: 0xff}} {
		for _, lower := range bounds {
			for i, upper := range append([][]byte{nil}, bounds...) {
				unbounded := i == 0
				p, ok := rule.OfRange(lower, upper)
				if !ok {
					continue
				}
				found++
				for _, k := range keys {
					if bytes.Compare(k, lower) < 0 || !unbounded && bytes.Compare(k, upper) >= 0 {
						continue
					}
					if q, has := rule.Of(k); !has || !bytes.Equal(p, q) {
						t.Fatalf("%+v.OfRange(%q, %q) = %q, but %q has %q, %v", rule, lower, upper, p, k, q, has)
					}
				}
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d ranges had a prefix", found)
	}
	two, colon := PrefixRule{Length: 2}, PrefixRule{Count: 1, Delimiter: ':'}
	for _, c := range []struct {
		rule         PrefixRule
		lower, upper string // upper "-": nil
		want         string
	}{
		{two, "ab", "ac", "ab"}, {two, "abc", "abd", "ab"}, {two, "ab", "ac\x00", ""}, {two, "ab", "ad", ""},
		{two, "a\xff", "b", "a\xff"}, {two, "a\xff", "b\x00", ""}, {two, "a\xff", "a\xff\xff", "a\xff"},
		{two, "\xff\xff", "-", "\xff\xff"}, {two, "\xff\xfe", "-", ""}, {two, "a", "b", ""},
		{colon, "user:", "user;", "user:"}, {colon, "user:1", "user:2", "user:"}, {colon, "user:1", "user;1", ""}, {colon, "user", "user:", ""},
	} {
		upper := []byte(c.upper)
		if c.upper == "-" {
			upper = nil
		}
		if got, ok := c.rule.OfRange([]byte(c.lower), upper); string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%+v.OfRange(%q, %q) = %q, %v, want %q", c.rule, c.lower, c.upper, got, ok, c.want)
		}
	}
}

// A prefix and a key of the same bytes have different
// hashes, and different hashes stay different.
func TestPrefixHash(t *testing.T) {
	seen := make(map[uint64]string)
	for i := range uint64(10000) {
		for what, h := range map[string]uint64{"key": i * 0x9e3779b97f4a7c15, "prefix": PrefixHash(i * 0x9e3779b97f4a7c15)} {
			if before, there := seen[h]; there && h != 0 {
				t.Fatalf("%s %d has the hash of %s", what, i, before)
			}
			seen[h] = fmt.Sprint(what, i)
		}
	}
}
