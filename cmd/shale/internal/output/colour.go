package output

// A Colour is how a text stands out on a terminal. There are few of them, for what a person looks for first: what is
// wrong, and what was found. The zero value is no colour.
type Colour string

// The colours, as SGR sequences of ECMA-48.
const (
	Good Colour = "\x1b[32m" // green
	Bad  Colour = "\x1b[31m" // red
)

// Of returns text in colour c.
func (c Colour) Of(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// In returns a cell with a text in colour c.
func In(c Colour, text string) Cell { return Cell{Text: text, colour: c} }
