package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A listing prints rows in the mode of the session, as they come.
type listing struct {
	w      *bufio.Writer
	show   display
	format format
	titles []string
	names  []string // the titles, for programs
	right  []bool   // of each column: flush right, as numbers are
	width  int      // of the terminal; 0: not limited

	rows  int
	held  [][]cell // of a box: until the widths are known
	boxed []int    // the widths, then
	line  []byte
}

// maxHeld is how many rows of a box are looked at for the widths of its
// columns: all are not, so that a long scan begins at once and needs no memory.
const maxHeld = 1000

// list returns a listing of data, with keys and values in format f. A title
// that begins with > is of a column that is flush right. As text it has no line
// of titles.
func (p *printer) list(f format, titles ...string) *listing {
	l := &listing{w: p.out, show: p.display, format: f, right: make([]bool, len(titles)), width: p.width()}
	for _, t := range titles {
		name, right := strings.CutPrefix(t, ">")
		l.right[len(l.titles)] = right
		l.titles = append(l.titles, name)
		l.names = append(l.names, fieldName(name))
	}
	if l.show == showHex && f == asWords {
		l.format = asHex
	}
	return l
}

// row prints a row, or keeps it until the next ones are there. It does not keep
// the bytes of cells.
func (l *listing) row(cells ...cell) error {
	l.rows++
	l.line = l.line[:0]
	switch l.show {
	case showBox:
		return l.boxRow(cells)
	case showLines:
		l.addLines(cells)
	case showJSON:
		if l.rows == 1 {
			l.line = append(l.line, '[')
		} else {
			l.line = append(l.line, ",\n "...)
		}
		l.addObject(cells)
	case showJSONLines:
		l.addObject(cells)
		l.line = append(l.line, '\n')
	case showCSV:
		l.addCSV(cells)
	default:
		if l.show == showTSV && l.rows == 1 {
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

// end prints what is left to print.
func (l *listing) end() error {
	var err error
	switch {
	case l.show == showBox:
		err = l.endBox()
	case l.show == showJSON && l.rows == 0:
		_, err = l.w.WriteString("[]\n")
	case l.show == showJSON:
		_, err = l.w.WriteString("]\n")
	case l.show == showCSV && l.rows == 0:
		l.line = l.line[:0]
		l.addTitles()
		_, err = l.w.Write(l.line)
	case l.show == showTSV && l.rows == 0:
		_, err = l.w.WriteString(strings.Join(l.titles, "\t") + "\n")
	}
	return err
}

func (l *listing) addLines(cells []cell) {
	widest := 0
	for _, t := range l.titles {
		widest = max(widest, columns(t))
	}
	if l.rows > 1 {
		l.line = append(l.line, '\n')
	}
	for i, c := range cells {
		pad := widest - columns(l.titles[i])
		l.line = append(l.line, strings.Repeat(" ", pad)+l.titles[i]+" ="...)
		if c.bytes != nil {
			l.line = appendWord(append(l.line, ' '), c.bytes, l.format)
		} else if c.text != "" {
			l.line = append(append(l.line, ' '), seen(c.text)...)
		}
		l.line = append(l.line, '\n')
	}
}

// addObject adds the row as an object of JSON. A key or value that is no UTF-8
// is given in base64, under its name with 64 behind it.
func (l *listing) addObject(cells []cell) {
	for i, c := range cells {
		l.line = append(l.line, "{,"[min(i, 1)])
		name := l.names[i]
		if c.bytes != nil && l.format != asHex && !utf8.Valid(c.bytes) {
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

func (l *listing) addTitles() {
	for i, name := range l.names {
		if i > 0 {
			l.line = append(l.line, ',')
		}
		l.line = appendCSV(l.line, []byte(name))
	}
	l.line = append(l.line, '\n')
}

func (l *listing) addCSV(cells []cell) {
	if l.rows == 1 {
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
