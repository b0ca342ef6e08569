package svg

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"
)

// Any bytes are text of a document, between tags and between quotes, and come back as
// they were where they can be seen.
func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "plain": "plain", `"'&<>`: `"'&<>`, "<script>alert(1)</script>": "<script>alert(1)</script>", "]]>": "]]>",
		"\x00\x01\x1b[31m": "\uFFFD\uFFFD\uFFFD[31m", "\xff\xfe": "\uFFFD\uFFFD", "\ufffe\uffff\u2028\u202e": "\uFFFD\uFFFD\uFFFD\uFFFD",
		"a\nb": "a\nb", "\t\r": "\uFFFD\uFFFD", "\u00a0é€": "\u00a0é€",
	} {
		escaped := escape(s)
		var e struct {
			A    string `xml:"a,attr"`
			Text string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte(`<e a="`+escaped+`">`+escaped+`</e>`), &e); err != nil || e.Text != want || e.A != want {
			t.Errorf("%q becomes %q between tags and %q between quotes, %v; want %q", s, e.Text, e.A, err, want)
		}
		if strings.ContainsAny(escaped, `<>"'`) {
			t.Errorf("%q becomes %q", s, escaped)
		}
	}
}

// What is text is escaped, what is markup is not, and numbers are short.
func TestDrawing(t *testing.T) {
	d := New(100, 20.25, `<a "b">`, `class="c"`)
	d.Add("<path d=\"M%v %vh%v\" %v/>\n", 1.04, -2.25, 30, Markup(`class="<"`))
	d.Text(1.5, 2, `class="e"`, "<b>\x00")
	want := `<svg xmlns="http://www.w3.org/2000/svg" class="c" viewBox="0 0 100 20.2" width="100" height="20.2" role="img" aria-label="&lt;a &#34;b&#34;&gt;">` +
		"<path d=\"M1 -2.2h30\" class=\"<\"/>\n<text x=\"1.5\" y=\"2\" class=\"e\">&lt;b&gt;\uFFFD</text>\n</svg>\n"
	if got := string(d.End()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", 4.897: "4.9", 10.04: "10", 0.01013: "0.0101", 1e-5: "0.00001",
		999.4: "999", 999.6: "1k", 7519.6: "7.52k", 45_700: "45.7k", 2_960_000: "2.96M", 3e9: "3G", -2500: "-2.5k",
	} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) = %q, want %q", v, got, want)
		}
	}
}
