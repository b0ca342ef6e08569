package main

import (
	"fmt"
	"strings"
	"testing"
)

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
