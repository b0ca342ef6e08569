package output

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A Listing prints rows in the mode of the session, as they come.
type Listing struct {
	w      *bufio.Writer
	show   Display
	format Format
	titles []string
	names  []string // the titles, for programs
	right  []bool   // of each column: flush right, as numbers are
	width  int      // of the terminal; 0: not limited

	Rows  int
	held  [][]Cell // of a box: until the widths are known
	boxed []int    // the widths, then
	line  []byte
}

// maxHeld is how many rows of a box are looked at for the widths of its
// columns: all are not, so that a long scan begins at once and needs no memory.
const maxHeld = 1000

// List returns a listing of data, with keys and values in format f. A title
// that begins with > is of a column that is flush right. As text it has no line
// of titles.
func (p *Printer) List(f Format, titles ...string) *Listing {
	l := &Listing{w: p.Out, show: p.Display, format: f, right: make([]bool, len(titles)), width: p.Width()}
	for _, t := range titles {
		name, right := strings.CutPrefix(t, ">")
		l.right[len(l.titles)] = right
		l.titles = append(l.titles, name)
		l.names = append(l.names, fieldName(name))
	}
	if l.show == ShowHex && f == AsWords {
		l.format = AsHex
	}
	return l
}

// Row prints a row, or keeps it until the next ones are there. It does not keep
// the bytes of cells.
func (l *Listing) Row(cells ...Cell) error {
	l.Rows++
	l.line = l.line[:0]
	switch l.show {
	case ShowBox:
		return l.boxRow(cells)
	case ShowLines:
		l.addLines(cells)
	case ShowJSON:
		if l.Rows == 1 {
			l.line = append(l.line, '[')
		} else {
			l.line = append(l.line, ",\n "...)
		}
		l.addObject(cells)
	case ShowJSONLines:
		l.addObject(cells)
		l.line = append(l.line, '\n')
	case ShowCSV:
		l.addCSV(cells)
	default:
		if l.show == ShowTSV && l.Rows == 1 {
			l.line = append(append(l.line, strings.Join(l.titles, "\t")...), '\n')
		}
		for i, c := range cells {
			if i > 0 {
				l.line = append(l.line, '\t')
			}
			l.line = c.appendWord(l.line, l.format)
		}
		l.line = append(l.line, '\n')
	}
	_, err := l.w.Write(l.line)
	return err
}

// End prints what is left to print.
func (l *Listing) End() error {
	var err error
	switch {
	case l.show == ShowBox:
		err = l.endBox()
	case l.show == ShowJSON && l.Rows == 0:
		_, err = l.w.WriteString("[]\n")
	case l.show == ShowJSON:
		_, err = l.w.WriteString("]\n")
	case l.show == ShowCSV && l.Rows == 0:
		l.line = l.line[:0]
		l.addTitles()
		_, err = l.w.Write(l.line)
	case l.show == ShowTSV && l.Rows == 0:
		_, err = l.w.WriteString(strings.Join(l.titles, "\t") + "\n")
	}
	return err
}

func (l *Listing) addLines(cells []Cell) {
	widest := 0
	for _, t := range l.titles {
		widest = max(widest, columns(t))
	}
	if l.Rows > 1 {
		l.line = append(l.line, '\n')
	}
	for i, c := range cells {
		pad := widest - columns(l.titles[i])
		l.line = append(l.line, strings.Repeat(" ", pad)+l.titles[i]+" ="...)
		if c.bytes != nil {
			l.line = AppendWord(append(l.line, ' '), c.bytes, l.format)
		} else if c.Text != "" {
			l.line = append(append(l.line, ' '), Seen(c.Text)...)
		}
		l.line = append(l.line, '\n')
	}
}

// addObject adds the row as an object of JSON. A key or value that is no UTF-8
// is given in base64, under its name with 64 after it.
func (l *Listing) addObject(cells []Cell) {
	for i, c := range cells {
		l.line = append(l.line, "{,"[min(i, 1)])
		name := l.names[i]
		if c.bytes != nil && l.format != AsHex && !utf8.Valid(c.bytes) {
			l.line = append(appendString(l.line, name+"64"), ':', '"')
			l.line = base64.StdEncoding.AppendEncode(l.line, c.bytes)
			l.line = append(l.line, '"')
			continue
		}
		l.line = c.appendJSON(append(appendString(l.line, name), ':'), l.format)
	}
	l.line = append(l.line, '}')
}

// fieldName makes a name of a title that programs can do with.
func fieldName(title string) string {
	return strings.NewReplacer(" ", "_", "/", "_per_").Replace(strings.ToLower(title))
}

func (l *Listing) addTitles() {
	for i, name := range l.names {
		if i > 0 {
			l.line = append(l.line, ',')
		}
		l.line = appendCSV(l.line, []byte(name))
	}
	l.line = append(l.line, '\n')
}

func (l *Listing) addCSV(cells []Cell) {
	if l.Rows == 1 {
		l.addTitles()
	}
	var field []byte
	for i, c := range cells {
		if i > 0 {
			l.line = append(l.line, ',')
		}
		if c.isNull() && len(cells) > 1 {
			continue
		}
		field = c.appendField(field[:0], l.format)
		l.line = appendCSV(l.line, field)
	}
	l.line = append(l.line, '\n')
}

// appendCSV appends a field, in quotes where RFC 4180 wants them. A single empty
// field has them too, since an empty line is often taken for none.
func appendCSV(dst, field []byte) []byte {
	if len(field) > 0 && !bytes.ContainsAny(field, "\",\r\n") && field[0] != ' ' {
		return append(dst, field...)
	}
	dst = append(dst, '"')
	for _, b := range field {
		if b == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}
