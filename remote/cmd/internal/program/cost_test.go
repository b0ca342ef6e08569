package program

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const operations = "../../../../docs/OPERATIONS.md"

// The example of docs/OPERATIONS.md is what the command prints.
func TestCost_Documented(t *testing.T) {
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```text\n\\$ shale-remote (cost[^\n]*)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(m) == 0 {
		t.Fatalf("%s has no example of shale-remote cost", operations)
	}
	for _, example := range m {
		if got := must(t, strings.Fields(example[1])...); got != example[2] {
			t.Errorf("shale-remote %s prints\n%s%s has\n%s", example[1], got, operations, example[2])
		}
	}
}

// More of what costs money costs more, and what is refused says why.
func TestCost(t *testing.T) {
	all := func(args ...string) string {
		m := regexp.MustCompile(`([\d,.]+)\s+in all`).FindStringSubmatch(must(t, append([]string{"cost"}, args...)...))
		if m == nil {
			t.Fatalf("%v: no sum", args)
		}
		return strings.Repeat(" ", 12-len(m[1])) + m[1]
	}
	usual := all()
	for _, args := range [][]string{
		{"--absent", "200000"}, {"--present", "10000"}, {"--writes", "10000"}, {"--store", "2TB"}, {"--publish", "10s"}, {"--every", "100ms"},
		{"--retain", "240h"}, {"--readers", "4"}, {"--put-price", "0.01"}, {"--get-price", "1"}, {"--stored-price", "1"}, {"--out-price", "0.09"}, {"--fpr", "0.1"},
	} {
		if got := all(args...); got <= usual {
			t.Errorf("%v: %s, and without it %s", args, got, usual)
		}
	}
	for _, args := range [][]string{{"--hits", "0.5"}, {"--local", "500GB"}, {"--local", "0"}, {"--writes", "0"}, {"--absent", "0"}} {
		if got := all(args...); got >= usual {
			t.Errorf("%v: %s, and without it %s", args, got, usual)
		}
	}
	for _, args := range [][]string{{"--store", "big"}, {"--writes", "-1"}, {"--hits", "2"}, {"--publish", "soon"}, {"--table", "0"}} {
		if _, notes, status := run(t, append([]string{"cost"}, args...)...); status != failed || !strings.Contains(notes, args[0]) {
			t.Errorf("%v: status %d, %s", args, status, notes)
		}
	}
}
