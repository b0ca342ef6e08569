package program

import (
	"regexp"
	"strings"
	"testing"
)

// TestWhere says where the tables of a store are that was shipped, and of one that was written since.
func TestWhere(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "db", "a", "b")
	must(t, "ship", "--once", "db", "bucket")
	out := must(t, "where", "db", "bucket")
	if !regexp.MustCompile(`(?m)^level +█ only here +▓ here and in the bucket +░ only in the bucket$`).MatchString(out) ||
		!regexp.MustCompile(`(?m)^L\d +▓+ +- +1 table, \S+ \S+ +-$`).MatchString(out) {
		t.Error(out)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"where", "nothing", "bucket"}, "nothing"},
		{[]string{"where", "db", "no-bucket"}, "there is no bucket no-bucket"},
	} {
		if _, notes, status := run(t, c.args...); status != failed || !strings.Contains(notes, c.says) {
			t.Errorf("%v: status %d, %s", c.args, status, notes)
		}
	}
}
