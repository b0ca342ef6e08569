package command

import (
	"path"
	"strings"
	"testing"
)

func TestCompileGlob(t *testing.T) {
	for _, c := range []struct{ glob, prefix, yes, no string }{
		{"", "", "", "a"},
		{"user:*", "user:", "user: user:1 user:1/2", "use xuser:1"},
		{"*.example.*", "", ".example. www.example.org", "example. www.example"},
		{"a?c", "a", "abc aéc a\xffc a\nc", "ac abbc"},
		{"[a-c]x[!0-9]", "", "axa cxx", "dxa ax1 ax"},
		{"[^a]", "", "b", "a"},
		{"[]", "has a [ without its ]", "", ""},
		{"[a", "has a [ without its ]", "", ""},
		{"[z-a]", "is not a pattern: invalid character class range", "", ""},
		{`a\*\[b`, "a*[b", "a*[b", "aa[b"},
		{`a\`, `ends with a \`, "", ""},
		{"a.b(c)", "a.b(c)", "a.b(c)", "axb(c) a.bc"},
		{"[[]x", "", "[x", "x"},
		{"é*", "é", "é éa", "e"},
	} {
		re, prefix, err := compileGlob(c.glob)
		if err != nil {
			if !strings.HasPrefix(err.Error(), c.prefix) || c.yes != "" {
				t.Errorf("compileGlob(%q): %v, want %s", c.glob, err, c.prefix)
			}
			continue
		}
		if prefix != c.prefix {
			t.Errorf("compileGlob(%q) has the prefix %q, want %q", c.glob, prefix, c.prefix)
		}
		for _, text := range strings.Split(c.yes, " ") {
			if !re.MatchString(text) {
				t.Errorf("%q does not match %q", c.glob, text)
			}
		}
		for _, text := range strings.Split(c.no, " ") {
			if re.MatchString(text) {
				t.Errorf("%q matches %q", c.glob, text)
			}
		}
	}
}

// Where a key has no separator, a pattern means what it means in shells, and what fits has the prefix.
func FuzzCompileGlob(f *testing.F) {
	for _, s := range []string{"a*", "?b", `\*`, "[a-c]", "[^x]y", "é?"} {
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, glob, text string) {
		re, prefix, err := compileGlob(glob)
		if err != nil {
			return
		}
		got := re.MatchString(text)
		if got && !strings.HasPrefix(text, prefix) {
			t.Errorf("%q matches %q, which does not begin with %q", glob, text, prefix)
		}
		// Classes with a backslash or a bracket differ: those of regular expressions are richer.
		if strings.ContainsAny(glob, "[]") || strings.Contains(text, "/") || strings.ToValidUTF8(glob+text, "") != glob+text {
			return
		}
		if want, err := path.Match(glob, text); err == nil && got != want {
			t.Errorf("%q matches %q: %t, want %t", glob, text, got, want)
		}
	})
}
