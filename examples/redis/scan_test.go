package main

import (
	"bytes"
	"fmt"
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
			if !matches([]byte(test.pattern), []byte(name)) || !bytes.HasPrefix([]byte(name), literalPrefix([]byte(test.pattern))) {
				t.Errorf("%q does not match %q", test.pattern, name)
			}
		}
		for _, name := range strings.Fields(test.no) {
			if matches([]byte(test.pattern), []byte(name)) {
				t.Errorf("%q matches %q", test.pattern, name)
			}
		}
	}
	if !matches(nil, nil) || matches([]byte("?"), nil) {
		t.Error("the empty name")
	}
	long := strings.Repeat("a", 10_000)
	if matches([]byte(strings.Repeat("a*", 1000)+"b"), []byte(long)) {
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
		got := matches(pattern, name)
		if want := slowMatches(pattern, name); got != want {
			t.Fatalf("matches(%q, %q) = %v", pattern, name, got)
		}
		if got && !bytes.HasPrefix(name, literalPrefix(pattern)) {
			t.Fatalf("%q matches %q, without its prefix %q", pattern, name, literalPrefix(pattern))
		}
	})
}

// A SCAN gives each name that is there all the time once, while others come and go.
func TestScan_Changes(t *testing.T) {
	c := direct(t, settings(t))
	for i := range 300 {
		c.say("SET", fmt.Sprintf("k%03d", i), "x")
	}
	seen := make(map[string]int)
	cursor := "0"
	for step := 0; ; step++ {
		words := strings.Fields(c.say("SCAN", cursor, "COUNT", "7", "MATCH", "k*"))
		for i := 4; i+1 < len(words); i += 2 {
			seen[words[i+1]]++
		}
		if cursor = words[2]; cursor == "0" {
			break
		}
		c.say("DEL", fmt.Sprintf("k%03d", 2*step), fmt.Sprintf("new%d", step-1))
		c.say("SET", fmt.Sprintf("new%d", step), "x")
	}
	for i := 1; i < 300; i += 2 {
		if n := seen[fmt.Sprintf("k%03d", i)]; n != 1 {
			t.Errorf("SCAN gave k%03d %d times", i, n)
		}
	}
}

// The server forgets cursors, the oldest first, by their number and by their bytes.
func TestScan_Cursors(t *testing.T) {
	var c cursors
	first := c.put([]byte("a"))
	var last uint64
	for range mostCursors {
		last = c.put([]byte("b"))
	}
	if _, ok := c.get(first); ok || len(c.names) != mostCursors {
		t.Errorf("%d cursors, the first among them: %v", len(c.names), ok)
	}
	for range 100 {
		last = c.put(make([]byte, cursorBytes/10))
	}
	if _, ok := c.get(last); !ok || c.bytes > cursorBytes || len(c.names) > 11 {
		t.Errorf("%d cursors of %d bytes, the last among them: %v", len(c.names), c.bytes, ok)
	}
	cl := direct(t, settings(t))
	if got := cl.say("SCAN", "17"); !strings.HasPrefix(got, "-ERR invalid cursor") {
		t.Errorf("SCAN of an unknown cursor = %q", got)
	}
}
