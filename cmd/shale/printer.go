package main

import "bufio"

// A printer prints tables and entries in the mode that is set.
type printer struct {
	out     *bufio.Writer
	display display
	format  format
	columns func() int // of the terminal; 0, or nil: not known
}

// width returns the width that a table is cut to; 0: it is not.
func (p *printer) width() int {
	if p.columns == nil {
		return 0
	}
	return p.columns()
}

// asText tells whether data is printed as words and tabs.
func (p *printer) asText() bool { return p.display == showText || p.display == showHex }
