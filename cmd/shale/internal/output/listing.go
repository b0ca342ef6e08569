package output

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A Listing prints rows in the mode of the session, each at once. So a long scan begins at once, and
// needs little memory. A Grid aligns its columns and therefore holds all its rows.
//
// A writer that fails makes Row and End return its error, and a command then ends.
type Listing struct {
	p     *Printer
	show  Display  // that of the beginning
	names []string // of the fields, for programs
	Rows  int      // number of rows so far
	line  []byte   // the row that is being made
}

// List returns a listing of rows with these titles. A > at the beginning of a title, which means a
// column of numbers in a Grid, has no effect here. As text a listing has no line of titles.
//
// It is for data, whose rows a program counts or cuts: as text there is a tab between fields and
// nothing around them.
func (p *Printer) List(titles ...string) *Listing {
	l := &Listing{p: p, show: p.Display}
	for _, t := range titles {
		l.names = append(l.names, fieldName(strings.TrimPrefix(t, ">")))
	}
	return l
}

// Row prints a row. It keeps nothing of the cells.
//
// There are as many cells as titles. In JSON the first row opens the array, and End closes it: an
// array of any length needs the memory of one row.
func (l *Listing) Row(cells ...Cell) error {
	l.Rows++
	switch l.show {
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
		for i, c := range cells {
			if i > 0 {
				l.line = append(l.line, '\t')
			}
			l.line = c.appendWord(l.line, l.show.Format())
		}
		l.line = append(l.line, '\n')
	}
	return l.write()
}

// write prints the line, and begins a new one.
func (l *Listing) write() error {
	err := l.p.Write(l.line)
	l.line = l.line[:0]
	return err
}

// End prints the end of the listing.
func (l *Listing) End() error {
	switch {
	case l.show == ShowJSON && l.Rows == 0:
		l.line = append(l.line, "[]\n"...)
	case l.show == ShowJSON:
		l.line = append(l.line, "]\n"...)
	case l.Rows == 0 && l.show == ShowCSV:
		l.addTitles()
	}
	return l.write()
}

// addObject adds the row as a JSON object. A key or value that is not UTF-8 is in base64, and 64
// is added to the name of its field.
//
// For example, a row of a key and a value that is not text is {"key":"a","value64":"/wA="}.
func (l *Listing) addObject(cells []Cell) {
	for i, c := range cells {
		l.line = append(l.line, "{,"[min(i, 1)])
		name := l.names[i]
		if c.bytes != nil && !utf8.Valid(c.bytes) {
			l.line = append(appendString(l.line, name+"64"), ':', '"')
			l.line = base64.StdEncoding.AppendEncode(l.line, c.bytes)
			l.line = append(l.line, '"')
			continue
		}
		l.line = c.appendJSON(append(appendString(l.line, name), ':'))
	}
	l.line = append(l.line, '}')
}

// fieldName turns a title into a name for a field of an object.
//
// "bits/key" becomes bits_per_key.
func fieldName(title string) string {
	return strings.NewReplacer(" ", "_", "/", "_per_").Replace(strings.ToLower(title))
}

// addTitles adds the line of titles of a CSV file.
func (l *Listing) addTitles() {
	for i, name := range l.names {
		if i > 0 {
			l.line = append(l.line, ',')
		}
		l.line = appendCSV(l.line, []byte(name))
	}
	l.line = append(l.line, '\n')
}

// addCSV adds the row as a line of CSV. A cell without a value is an empty field, so that it
// differs from an empty text, which is "".
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
		field = c.appendField(field[:0])
		l.line = appendCSV(l.line, field)
	}
	l.line = append(l.line, '\n')
}

// appendCSV appends a field, in quotes where RFC 4180 requires them. A row that is a single empty
// field has quotes, too, because many programs skip empty lines.
//
// For example, a,b becomes "a,b" with its quotes, and a"b becomes "a""b".
func appendCSV(dst, field []byte) []byte {
	// A field that begins with a space has quotes, as some programs would take the space away.
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
