// Package output lays out what the command prints: tables, keys and values, in the mode
// that the user chose, with units, and cut to the width of the terminal. It escapes control
// characters in keys and values, so that they can't control the terminal.
package output

import "bufio"

// A Printer prints tables and entries in the mode that is set.
type Printer struct {
	Out     *bufio.Writer
	Display Display
	Format  Format
	Columns func() int // width of the terminal; 0 or nil: unknown
}

// Width returns the width to which a table is cut. 0: it is not cut.
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

// In returns the format for keys and values that are to be printed in format f: that of the
// mode, unless f is a choice.
func (p *Printer) In(f Format) Format {
	switch {
	case f == AsWords && p.Display == ShowHex:
		return AsHex
	case f == AsWords && p.Display == ShowRaw:
		return AsBytes
	}
	return f
}
