// Package svg writes drawings as SVG, and the numbers in them.
//
// A Drawing escapes every text that it is given. So the result is well-formed XML,
// whatever bytes a text holds, and no text can become markup.
package svg

import (
	"fmt"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Drawing is a document that grows from its beginning to its end.
type Drawing struct{ b strings.Builder }

// Markup is a piece of a document. It is written as it is, so it must not hold text
// from outside the program.
type Markup string

// New begins a drawing. Width and height are in pixels. Name says what the drawing
// shows, for readers who hear the page. The root element gets the attributes too.
func New(width, height float64, name string, attributes Markup) *Drawing {
	d := &Drawing{}
	d.Add(`<svg xmlns="http://www.w3.org/2000/svg" %v viewBox="0 0 %v %v" width="%[2]v" height="%[3]v" role="img" aria-label="%[4]v">`,
		attributes, width, height, name)
	return d
}

// Add writes markup in which the verb %v stands for the values. A float64 becomes a
// coordinate, a string is escaped, and Markup stays as it is.
func (d *Drawing) Add(format string, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case float64: // a tenth of a pixel is exact enough
			values[i] = strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
		case string:
			values[i] = escape(v)
		}
	}
	fmt.Fprintf(&d.b, format, values...)
}

// Text writes text, which begins at (x, y) unless the attributes say otherwise.
func (d *Drawing) Text(x, y float64, attributes Markup, text string) {
	d.Add("<text x=\"%v\" y=\"%v\" %v>%v</text>\n", x, y, attributes, text)
}

// End ends the drawing and returns all of it.
func (d *Drawing) End() []byte {
	d.Add("</svg>\n")
	return []byte(d.b.String())
}

// escape makes s, which may hold any bytes, text of an SVG or HTML document, also
// between quotes. A character that XML does not allow, or that is not visible, becomes
// U+FFFD.
func escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return r
		}
		return utf8.RuneError
	}, s))
}
