package quoting

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, want string
		literal  bool
	}{
		{"www.example.org", "www.example.org", false},
		{"two words", "two words", false},
		{`"two\nlines"`, "two\nlines", true},
		{`"\xff\u00e9"`, "\xffé", true},
		{"0x6b6579", "key", true},
		{"0X00", "\x00", true},
		{"0x", "", true},
		{`""`, "", true},
		{"", "", true},
	} {
		if got, literal, err := Parse(c.in); got != c.want || literal != c.literal || err != nil {
			t.Errorf("Parse(%s) = %q, %v, %v; want %q, %v", c.in, got, literal, err, c.want, c.literal)
		}
	}
	for in, want := range map[string]string{
		"0x6": "odd", "0xzz": "not hexadecimal", `"open`: "closing quote", `"a"b`: "goes on", `"\q"`: `unknown escape \q`,
	} {
		if _, _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s): %v; want %s", in, err, want)
		}
	}
}

// hostile are keys that a page or a terminal could take for something else.
var hostile = []string{
	"", "-", "--", "#", `"`, "0x", " ", "\x00", "\x1b[31m", "\xff\xfe", "a\nb", "<script>alert(1)</script>", `'"><img>`,
	"\u202eabc", "\ufeff", strings.Repeat("\xff", 65535), strings.Repeat("é", 300),
}

func TestQuote_IsReadBack(t *testing.T) {
	for _, key := range hostile {
		word := Quote(key)
		if got, _, err := Parse(word); got != key || err != nil {
			t.Errorf("Quote(%.40q) = %.40s, read back as %.40q, %v", key, word, got, err)
		}
		checkPlain(t, word)
	}
}

// checkPlain fails if word is not printable UTF-8.
func checkPlain(t *testing.T, word string) {
	t.Helper()
	for _, r := range word {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			t.Errorf("%.40q has %q", word, r)
			return
		}
	}
}

// A key of East Asia has as many characters as another one, and is cut between them.
func TestShort_Characters(t *testing.T) {
	for n, want := range map[int]string{32: strings.Repeat("鍵", 32), 33: strings.Repeat("鍵", 31) + "…", 100: strings.Repeat("鍵", 31) + "…"} {
		if got := Short(strings.Repeat("鍵", n), 32); got != want {
			t.Errorf("Short of %d characters = %s, want %s", n, got, want)
		}
	}
}
