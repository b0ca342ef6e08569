package resp

import (
	"fmt"
	"strings"
	"testing"
)

func testScans() *Scans { return &Scans{First: 100, Forgotten: "begin again"} }

// walk does a SCAN of keys, which are sorted, and returns its reply.
func walk(scans *Scans, keys []string, line string) string {
	s := newSession()
	return ask(s, func(args [][]byte) {
		scan := scans.Begin(s, args)
		if scan == nil {
			return
		}
		for _, key := range keys {
			if key < string(scan.From) || !strings.HasPrefix(key, string(scan.Prefix)) {
				continue
			}
			if !scan.Add([]byte(key), "string") {
				break
			}
		}
		scan.Reply(s)
	}, line)
}

// What the options of SCAN do, and what those are answered with that it does not have.
func TestScan_Options(t *testing.T) {
	keys := []string{"a", "ab", "b", "c"}
	for _, test := range []struct{ line, reply string }{
		{"0", "*2|$1|0|*4|$1|a|$2|ab|$1|b|$1|c|"},
		{"0 COUNT 4", "*2|$1|0|*4|$1|a|$2|ab|$1|b|$1|c|"},
		{"0 count 3", "*2|$3|100|*3|$1|a|$2|ab|$1|b|"},
		{"0 COUNT 3 MATCH *b", "*2|$3|100|*2|$2|ab|$1|b|"},
		{"0 MATCH a* COUNT 1", "*2|$3|100|*1|$1|a|"},
		{"0 MATCH a? COUNT 1", "*2|$3|100|*0|"},
		{"0 TYPE STRING MATCH b", "*2|$1|0|*1|$1|b|"},
		{"0 TYPE list", "*2|$1|0|*0|"},
		{"x", "-ERR invalid cursor|"},
		{"-1", "-ERR invalid cursor|"},
		{"17", "-ERR invalid cursor: begin again|"},
		{"17 COUNT", "-ERR syntax error|"},
		{"0 COUNT 0", "-ERR syntax error|"},
		{"0 COUNT x", "-ERR value is not an integer or out of range|"},
		{"0 WHAT x", "-ERR syntax error|"},
	} {
		if got := walk(testScans(), keys, test.line); got != test.reply {
			t.Errorf("SCAN %s: %q, want %q", test.line, got, test.reply)
		}
	}
	s := newSession()
	scan := testScans().Begin(s, [][]byte{[]byte("0"), []byte("MATCH"), {}})
	if scan == nil || !scan.Add(nil, "") || !scan.Add([]byte("\\"), "") || len(scan.found) != 1 {
		t.Errorf("SCAN with the empty pattern finds %q", scan.found)
	}
}

// Calls that follow each other return each key once, also where the one before has ended with the empty key.
func TestScan_Pages(t *testing.T) {
	scans := testScans()
	keys := []string{"", "\x00", "a", "aa", "b"}
	var got []string
	cursor := "0"
	for calls := 1; ; calls++ {
		words := strings.Split(walk(scans, keys, cursor+" COUNT 1"), "|")
		if words[3] != "*1" || calls > len(keys) {
			t.Fatalf("call %d: %q", calls, words)
		}
		got = append(got, words[5])
		if cursor = words[2]; cursor == "0" {
			break
		}
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", keys) {
		t.Errorf("SCAN gave %q, want %q", got, keys)
	}
}

// A server forgets cursors, the oldest first, by their number and by their bytes.
func TestScans_Forget(t *testing.T) {
	s := testScans()
	first := s.put([]byte("a"))
	last := first
	for range mostCursors {
		last = s.put([]byte("b"))
	}
	if _, ok := s.get(first); ok || len(s.keys) != mostCursors || last != first+mostCursors {
		t.Errorf("%d cursors, the first among them: %v, the last is %d", len(s.keys), ok, last)
	}
	for range 100 {
		last = s.put(make([]byte, cursorBytes/10))
	}
	if _, ok := s.get(last); !ok || s.bytes > cursorBytes || len(s.keys) > 11 {
		t.Errorf("%d cursors of %d bytes, the last among them: %v", len(s.keys), s.bytes, ok)
	}
}
