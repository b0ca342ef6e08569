package output

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A Listing prints rows in the mode of the session, each as soon as possible.
type Listing struct {
	w      *bufio.Writer
	show   Display
	format Format
	titles []string
	names  []string // the titles, for programs
	right  []bool   // for each column: it is aligned to the right, like numbers
	width  int      // of the terminal; 0: not limited

	Rows int
	held [][]string // for a box: the rows until the widths are known
	box  *layout    // for a box: the columns, once the widths are known
	line []byte
}

// maxHeld is the number of rows that decide the widths of the columns of a box. It is limited so
// that a long scan begins at once and needs little memory.
const maxHeld = 1000

// List returns a listing of data, with keys and values in format f. If a title begins with >, its
// column is aligned to the right. As text the listing has no line of titles.
func (p *Printer) List(f Format, titles ...string) *Listing {
	l := &Listing{w: p.Out, show: p.Display, format: p.In(f), right: make([]bool, len(titles)), width: p.Width()}
	for _, t := range titles {
		name, right := strings.CutPrefix(t, ">")
		l.right[len(l.titles)] = right
		l.titles = append(l.titles, name)
		l.names = append(l.names, fieldName(name))
	}
	return l
}

// Row prints a row, or holds it until more rows are there. It copies the bytes of cells that it
// holds.
func (l *Listing) Row(cells ...Cell) error {
	l.Rows++
	switch l.show {
	case ShowBox:
		l.addBox(cells)
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
			l.addTitles()
		}
		for i, c := range cells {
			if i > 0 {
				l.line = append(l.line, '\t')
			}
			l.line = c.appendWord(l.line, l.format)
		}
		l.line = append(l.line, '\n')
	}
	return l.write()
}

// write prints the line, and begins a new one.
func (l *Listing) write() error {
	_, err := l.w.Write(l.line)
	l.line = l.line[:0]
	return err
}

// End prints the rows that are held, and the end of the listing.
func (l *Listing) End() error {
	switch {
	case l.show == ShowBox:
		l.endBox()
	case l.show == ShowJSON && l.Rows == 0:
		l.line = append(l.line, "[]\n"...)
	case l.show == ShowJSON:
		l.line = append(l.line, "]\n"...)
	case l.Rows == 0 && (l.show == ShowCSV || l.show == ShowTSV):
		l.addTitles()
	}
	return l.write()
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

// addObject adds the row as a JSON object. A key or value that is not UTF-8 is in base64, and 64
// is added to the name of its field.
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

// fieldName turns a title into a name for a field of an object.
func fieldName(title string) string {
	return strings.NewReplacer(" ", "_", "/", "_per_").Replace(strings.ToLower(title))
}

func (l *Listing) addTitles() {
	if l.show == ShowTSV {
		l.line = append(append(l.line, strings.Join(l.titles, "\t")...), '\n')
		return
	}
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

// appendCSV appends a field, in quotes where RFC 4180 requires them. A row that is a single empty
// field has quotes, too, because many programs skip empty lines.
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
