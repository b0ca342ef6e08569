// Package output lays out what the command prints: tables, keys and values, in the mode
// that the user chose, with units, and cut to the width of the terminal. Whatever bytes a
// key has, a terminal gets nothing to obey.
package output

import "bufio"

// A Printer prints tables and entries in the mode that is set.
type Printer struct {
	Out     *bufio.Writer
	Display Display
	Format  Format
	Columns func() int // of the terminal; 0, or nil: not known
}

// Width returns the width that a table is cut to; 0: it is not.
func (p *Printer) Width() int {
	if p.Columns == nil {
		return 0
	}
	return p.Columns()
}

// AsText reports whether data is printed as words and tabs.
func (p *Printer) AsText() bool { return p.Display == ShowText || p.Display == ShowHex }
