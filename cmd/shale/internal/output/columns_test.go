package output

import (
	"testing"
)

func TestColumns_Cut(t *testing.T) {
	for _, c := range []struct {
		text    string
		most    int
		cut     string
		columns int
	}{
		{"", 3, "", 0},
		{"abcdef", 6, "abcdef", 6},
		{"abcdef", 4, "abc…", 6},
		{"abcdef", 1, "…", 6},
		{"日本語", 6, "日本語", 6},
		{"日本語", 5, "日本…", 6},
		{"日本語", 4, "日…", 6}, // a character is not cut in two
		{"cafe\u0301s", 5, "cafe\u0301s", 5},
		{"cafe\u0301s", 4, "caf…", 5},
	} {
		if got := columns(c.text); got != c.columns {
			t.Errorf("%q has %d columns, want %d", c.text, got, c.columns)
		}
		if got := cut(c.text, c.most); got != c.cut {
			t.Errorf("%q cut to %d: %q, want %q", c.text, c.most, got, c.cut)
		}
	}
}
