// Package output lays out what the command prints: tables, keys and values, in the mode
// that the user chose, and with units. It escapes control
// characters in keys and values, so that they can't control the terminal.
//
// A command makes cells, and does not know how they are shown. There are two ways to put them
// together: a Grid is a table for people, with titles and aligned columns, and a Listing is a
// stream of rows, as of a scan. In the modes for programs the two look alike.
package output

import "bufio"

// A Printer prints tables and entries in the mode that is set.
//
// The mode may change between two tables, as by .mode or --mode. Out is flushed by its user.
type Printer struct {
	Out     *bufio.Writer
	Display Display
	Columns func() int   // width of the terminal; 0 or nil: unknown
	Stopped func() error // returns an error when the command must end; nil: it need not
	Colours bool         // tables may have colours: the output is a terminal
}

// AsText reports whether data is printed as words and tabs.
func (p *Printer) AsText() bool {
	return p.Display == ShowText || p.Display == ShowHex || p.Display == ShowRaw
}

// Write writes b to Out in pieces, up to the one during which the command must end. So Ctrl-C ends a value of any size at
// once, although a terminal takes seconds for some megabytes.
func (p *Printer) Write(b []byte) error {
	const piece = 64 << 10
	for len(b) > 0 {
		if p.Stopped != nil && len(b) > piece {
			if err := p.Stopped(); err != nil {
				return err
			}
		}
		n := min(len(b), piece)
		if _, err := p.Out.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
