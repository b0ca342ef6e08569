package main

import (
	"strings"
	"testing"
)

func TestColumns_Cut(t *testing.T) {
	for _, c := range []struct {
		text      string
		most      int
		cut, left string
		columns   int
	}{
		{"", 3, "", "", 0},
		{"abcdef", 6, "abcdef", "abcdef", 6},
		{"abcdef", 4, "abc…", "…def", 6},
		{"abcdef", 1, "…", "…", 6},
		{"日本語", 6, "日本語", "日本語", 6},
		{"日本語", 5, "日本…", "…本語", 6},
		{"日本語", 4, "日…", "… 語", 6}, // a character is not cut in two
		{"cafe\u0301s", 5, "cafe\u0301s", "cafe\u0301s", 5},
		{"cafe\u0301s", 4, "caf…", "…fe\u0301s", 5},
	} {
		if got := columns(c.text); got != c.columns {
			t.Errorf("%q has %d columns, want %d", c.text, got, c.columns)
		}
		if got := cut(c.text, c.most); got != c.cut {
			t.Errorf("%q cut to %d: %q, want %q", c.text, c.most, got, c.cut)
		}
		if got := cutLeft(c.text, c.most); got != c.left {
			t.Errorf("%q cut to the last %d: %q, want %q", c.text, c.most, got, c.left)
		}
	}
}

// TestColumns_Caret: the caret stands below what is to blame, whatever the
// characters before it take, and line and caret fit into the width.
func TestColumns_Caret(t *testing.T) {
	for _, c := range []struct {
		before, blamed, after string
		want                  string
	}{
		{"get ", "--al", " x", "> get --al x\n      ^^^^"},
		{"put 日本 ", "--al", " x", "> put 日本 --al x\n           ^^^^"},
		{"put ", "日本", "", "> put 日本\n      ^^^^"},
		{"put \u2028 ", "b", "", "> put \\u2028 b\n             ^"},
		{"put " + strings.Repeat("日", 20) + " ", "--al", strings.Repeat("本", 20), "> … 日日日日日日日日 --al本本本本本本本…\n                     ^^^^"},
		{"put ", strings.Repeat("日", 40), "z", "> put " + strings.Repeat("日", 17) + "…\n      " + strings.Repeat("^", 35)},
	} {
		from, to := len(c.before), len(c.before+c.blamed)
		got := pointAt("> ", c.before+c.blamed+c.after, from, to, 42)
		if got != c.want {
			t.Errorf("%q blamed in %q:\n%q\nwant\n%q", c.blamed, c.before+c.blamed+c.after, got, c.want)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if columns(line) > 42 {
				t.Errorf("%q has %d columns", line, columns(line))
			}
		}
	}
}
