package output

import (
	"strings"
	"testing"
)

// The caret is below the wrong word, however many columns the characters before it take. The line and
// the caret fit into the width.
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
		got := PointAt("> ", c.before+c.blamed+c.after, from, to, 42)
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
