// Package output lays out what the command prints: tables, keys and values, in the mode
// that the user chose, with units, and cut to the width of the terminal. It escapes control
// characters in keys and values, so that they can't control the terminal.
package output

import "bufio"

// A Printer prints tables and entries in the mode that is set.
type Printer struct {
	Out     *bufio.Writer
	Display Display
	Columns func() int // width of the terminal; 0 or nil: unknown
}

// Width returns the width of the terminal, or 0 if it is not known.
func (p *Printer) Width() int {
	if p.Columns == nil {
		return 0
	}
	return p.Columns()
}

// AsText reports whether data is printed as words and tabs.
func (p *Printer) AsText() bool {
	return p.Display == ShowText || p.Display == ShowHex || p.Display == ShowRaw
}
