package resp

import (
	"bytes"
	"strings"
	"testing"
)

// The patterns of Redis.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, yes, no string // names, separated by spaces
	}{
		{"", "", "a"},
		{"*", "a abc *", ""},
		{"a*", "a ab a*", "ba b"},
		{"*a", "a ba aba", "ab b"},
		{"a*b*c", "abc axbxc abbcc", "ab acb abcd"},
		{"?", "a ?", "ab"},
		{"h?llo", "hello hallo", "hllo heello"},
		{"h[ae]llo", "hello hallo", "hillo hllo"},
		{"h[^e]llo", "hallo hbllo", "hello"},
		{"h[a-c]llo", "hallo hcllo", "hdllo"},
		{"h[c-a]llo", "hallo hcllo", "hdllo"},
		{"[a-", "a -", "b"},
		{"[\\]]", "]", "a \\"},
		{"[]", "", "a ]"},
		{"\\*", "*", "a \\*"},
		{"a\\", "a\\", "a"},
		{"**a**", "a ba", "b"},
	} {
		for _, name := range strings.Fields(test.yes) {
			if !Matches([]byte(test.pattern), []byte(name)) || !bytes.HasPrefix([]byte(name), LiteralPrefix([]byte(test.pattern))) {
				t.Errorf("%q does not match %q", test.pattern, name)
			}
		}
		for _, name := range strings.Fields(test.no) {
			if Matches([]byte(test.pattern), []byte(name)) {
				t.Errorf("%q matches %q", test.pattern, name)
			}
		}
	}
	if !Matches(nil, nil) || Matches([]byte("?"), nil) {
		t.Error("the empty name")
	}
	long := strings.Repeat("a", 10_000)
	if Matches([]byte(strings.Repeat("a*", 1000)+"b"), []byte(long)) {
		t.Error("a pattern with many stars matches")
	}
}

// slowMatches is matches by trying all that a star can take.
func slowMatches(pattern, name []byte) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == '*' {
		return slowMatches(pattern[1:], name) || len(name) > 0 && slowMatches(pattern, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	ok, n := matchByte(pattern, name[0])
	return ok && slowMatches(pattern[n:], name[1:])
}

// matches answers as trying everything does, and every match has the literal prefix.
func FuzzMatches(f *testing.F) {
	f.Add([]byte("a*b?[c-e]*"), []byte("axxbycz"))
	f.Add([]byte("[^\\"), []byte("a"))
	f.Fuzz(func(t *testing.T, pattern, name []byte) {
		if len(pattern) > 16 || len(name) > 16 {
			return
		}
		got := Matches(pattern, name)
		if want := slowMatches(pattern, name); got != want {
			t.Fatalf("Matches(%q, %q) = %v", pattern, name, got)
		}
		if got && !bytes.HasPrefix(name, LiteralPrefix(pattern)) {
			t.Fatalf("%q matches %q, without its prefix %q", pattern, name, LiteralPrefix(pattern))
		}
	})
}
