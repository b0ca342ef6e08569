package command

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/fuzzing"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{``, `[]`},
		{`  # a comment`, `[]`},
		{`get k`, `["get" "k"]`},
		{"put  k\t\"a b\\n\\x00\\xff\"\r", `["put" "k" "a b\n\x00\xff"]`},
		{`put 0x6b6579 0X00`, `["put" "key" "\x00"]`},
		{`put "" "é\u00e9"`, `["put" "" "éé"]`},
		{`put k#1 #2`, `["put" "k#1" "#2"]`},
		{`put k v # a comment, of "any kind`, `["put" "k" "v"]`},
		{`put "#" "k" # `, `["put" "#" "k"]`},
		{"\ufeffget k", `["get" "k"]`},
		{`put -- 0x41 0xz`, `["put" "--" "0x41" "0xz"]`},
		{`put -- "a b" --`, `["put" "--" "a b" "--"]`},
		{`put "--" 0x41`, `["put" "--" "A"]`},
		{`put k 0x`, `["put" "k" ""]`},
		{`put k 0x1`, `column 7: 0x1 has an odd number of hexadecimal digits; write "0x1" if it is no hexadecimal`},
		{`put k 0xzz`, `column 7: 0xzz is not hexadecimal; write "0xzz" if it is not meant to be`},
		{`put "k`, `column 5: the closing quote is missing`},
		{`put "k"x`, `column 5: no space after the closing quote; write \" for a quote in quotes`},
		{`put "\q"`, `column 5: unknown escape \q; a backslash in quotes is written \\`},
	} {
		words, err := ParseLine(c.line)
		texts := []string{}
		for _, w := range words {
			texts = append(texts, w.Text)
		}
		got := fmt.Sprintf("%q", texts)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("parseLine(%q) = %s, want %s", c.line, got, c.want)
		}
	}
}

// A line of single letters has a word for every second byte. A word in quotes grows to four times
// its size at most.
var lineLimit = fuzzing.Limit{Bytes: 2 << 10, PerByte: 96}

// What is printed means the same bytes when it is input again, in a line or as an argument of a
// shell. This holds for every format that promises it.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "-", "--from", "0x00", "#", "a b", "\"", "\x00\xff", "é", "\u2028", "a\\n", "\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []output.Format{output.AsWords, output.AsHex} {
			var printed string
			var words []Word
			var err error
			lineLimit.Check(t, len(text), func() {
				printed = string(output.AppendWord(nil, text, format))
				words, err = ParseLine("put " + printed + " end")
			})
			if err != nil || len(words) != 3 || words[1].Text != text {
				t.Fatalf("%q is printed as %s, which is read as %+v, %v", text, printed, words, err)
			}
			if w, err := parseArg(printed); err != nil || w.Text != text {
				t.Fatalf("%q is printed as %s, as an argument %q, %v", text, printed, w.Text, err)
			}
			if list, err := hasCommand().parse(words[1:2]); err != nil || len(list) != 1 || list[0].Text != text {
				t.Fatalf("%s is taken for an option: %v", printed, err)
			}
		}
	})
}

// If the words of an accepted line are printed and parsed again, the words are the same.
func FuzzParseLine(f *testing.F) {
	for _, line := range []string{`put "a\x00" 0x12 --from=x`, ` # "`, "get\tk\r", `"put" "\u00e9" 0X00 0x`, `scan --from - "-"`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var words []Word
		var err error
		lineLimit.Check(t, len(line), func() { words, err = ParseLine(line) })
		if err != nil || len(words) == 0 {
			return
		}
		var printed []byte
		for _, w := range words {
			printed = append(output.AppendWord(printed, w.Text, output.AsWords), ' ')
		}
		again, err := ParseLine(string(printed))
		same := func(a, b Word) bool { return a.Text == b.Text }
		if err != nil || !slices.EqualFunc(again, words, same) {
			t.Fatalf("%q is %+v, printed as %s, which is %+v, %v", line, words, printed, again, err)
		}
		if c, rest := (&Session{}).commandOf(words); c != nil {
			_, _ = c.parse(rest) // must not panic
		}
	})
}

// A bare word is a key whatever it begins with, except for two dashes and -h.
func TestTokens(t *testing.T) {
	for _, text := range []string{"-key", "-", "-5", "\x00qa", "\x00b", "\x00", "-hh", "-o", "=", "-=x"} {
		words, err := ParseLine("get " + text + " --mode hex")
		if err != nil {
			t.Fatal(err)
		}
		list, err := getCommand().parse(words[1:])
		if err != nil || len(list) != 1 || list[0] != words[1] {
			t.Errorf("%q is read as %+v, %v; want %+v", text, list, err, words[1])
		}
	}
	words, err := ParseLine("scan --from=\x00qa=\x00 --to \x00bb")
	if err != nil {
		t.Fatal(err)
	}
	var b bounds
	c := newCommand("scan", Reads, "", "")
	b.options(c)
	if _, err := c.parse(words[1:]); err != nil || string(b.from) != "\x00qa=\x00" || string(b.to) != "\x00bb" {
		t.Errorf("from %q to %q, %v", b.from, b.to, err)
	}
}
