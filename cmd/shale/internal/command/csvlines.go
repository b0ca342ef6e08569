package command

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// csvLines reads the records of a file, which may span lines, with package encoding/csv. It
// gives csv a line at a time, and keeps the lines of the current record.
//
// A quote that is never closed makes the rest of the file look like one field. If a record is
// wrong, reading goes on at its second line. Of a long record csvLines finds the end before csv
// gets more of it, because csv would copy the record twice.
type csvLines struct {
	in         *bufio.Reader
	csv        *csv.Reader
	most, long int // sizes of the largest record, and of one whose end is found first, in bytes

	text   []byte // the current record, as far as it has been read
	given  int    // number of bytes of text that csv has
	quotes int    // number of quotes in text
	rest   []byte // lines of a wrong record, which are read before in
	back   []byte // what rest was at the beginning of text
	lines  int    // number of lines of the file before text

	fields []string // of the last record, until the next one is read
}

// mostCSV is the size of the largest record. Each byte of the largest entry may be a quote,
// and quotes are doubled. The other columns may have 1 MiB.
const mostCSV = 2*(shale.MaxKeySize+shale.MaxValueSize) + 1<<20

// longCSV is the size above which the end of a record is found before csv gets more of it.
const longCSV = 1 << 20

var (
	errLargeRecord = errors.New("the record is larger than any entry")
	errNotClosed   = errors.New("a quote is never closed")
)

func newCSVLines(in *bufio.Reader) *csvLines {
	c := &csvLines{in: in, most: mostCSV, long: longCSV}
	c.begin()
	return c
}

// begin starts a csv.Reader.
func (c *csvLines) begin() {
	c.csv = csv.NewReader(bufio.NewReaderSize(c, 64<<10))
	c.csv.FieldsPerRecord, c.csv.ReuseRecord = -1, true
}

// Read implements io.Reader for csv.
func (c *csvLines) Read(b []byte) (int, error) {
	if c.given == len(c.text) {
		if err := c.more(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.text[c.given:])
	c.given += n
	return n, nil
}

// more appends the next line to text, or a part of a line that does not fit into in. If the
// record is long, it appends the rest of the record. It skips empty lines before a record.
func (c *csvLines) more() error {
	for {
		if len(c.text) == 0 {
			c.back = c.rest
		}
		p, err := c.part()
		switch {
		case err == io.EOF && c.given < len(c.text) && c.quotes%2 != 0:
			return errNotClosed
		case err == io.EOF && c.given < len(c.text):
			return nil
		case err != nil:
			return err
		case len(c.text) == 0 && (string(p) == "\n" || string(p) == "\r\n"):
			c.lines++
			continue
		}
		c.text = append(c.text, p...)
		c.quotes += bytes.Count(p, []byte(`"`))
		switch {
		case len(c.text) > c.most:
			return errLargeRecord
		case len(c.text) <= c.long, c.quotes%2 == 0 && p[len(p)-1] == '\n':
			return nil
		}
	}
}

// part returns the next line, or a part of a line that does not fit into in.
func (c *csvLines) part() ([]byte, error) {
	if len(c.rest) > 0 {
		n := bytes.IndexByte(c.rest, '\n') + 1
		if n == 0 {
			n = len(c.rest)
		}
		p := c.rest[:n]
		c.rest = c.rest[n:]
		return p, nil
	}
	p, err := c.in.ReadSlice('\n')
	if len(p) > 0 && (err == io.EOF || err == bufio.ErrBufferFull) {
		err = nil
	}
	return p, err
}

// next reads a record into fields, and returns the line in which it begins. It skips empty
// lines. Its error is io.EOF, a *badLine, or an error of reading.
func (c *csvLines) next() (line int, err error) {
	c.lines += bytes.Count(c.text, []byte("\n"))
	c.text, c.given, c.quotes = c.text[:0], 0, 0
	c.fields, err = c.csv.Read()
	line = c.lines + 1
	end := bytes.IndexByte(c.text, '\n') + 1
	var wrong *csv.ParseError
	switch {
	case err == nil:
		return line, nil
	case errors.As(err, &wrong):
		err = c.mistake(line, wrong)
	case errors.Is(err, errNotClosed):
		err = notClosed(line, line+bytes.Count(c.text[:len(c.text)-1], []byte("\n")))
	case !errors.Is(err, errLargeRecord):
		return 0, err
	case end == 0:
		err = fmt.Errorf("the line has more than %s, and no entry is so large", base.FormatBytes(int64(c.most)))
	default:
		err = fmt.Errorf("the quote that opens in line %d is not closed within %s, and no entry is so large", line, base.FormatBytes(int64(c.most)))
	}
	switch {
	case end == 0:
		if err := c.skipLine(); err != nil {
			return 0, err
		}
	case len(c.text) <= len(c.back):
		c.rest = c.back[end:]
	default:
		c.rest, c.text = c.text[end:], nil
	}
	c.text = c.text[:0]
	c.lines++
	c.begin()
	return line, &badLine{line, err}
}

// skipLine skips a line. text has its beginning, but not its end.
func (c *csvLines) skipLine() error {
	for {
		p, err := c.part()
		if err == io.EOF {
			return nil // csv will find the same end
		}
		if err != nil || p[len(p)-1] == '\n' {
			return err
		}
	}
}

// mistake says what is wrong with the record that begins in line. text begins with it.
func (c *csvLines) mistake(line int, wrong *csv.ParseError) error {
	last := line + wrong.Line - wrong.StartLine
	text := c.text
	for range last - line {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	closed := wrong.Column <= len(text) && text[wrong.Column-1] == '"' // otherwise the file ends within the field
	switch {
	case errors.Is(wrong.Err, csv.ErrBareQuote):
		return errors.New("a field that does not begin with a quote has one inside")
	case closed && last == line:
		return errors.New("text follows a closing quote")
	case closed:
		return fmt.Errorf("a quote opens in line %d, and text follows where line %d closes it", line, last)
	}
	return notClosed(line, last)
}

// notClosed is the error of a quote that opens in line and is not closed up to the line last.
func notClosed(line, last int) error {
	if last == line {
		return fmt.Errorf("the quote that opens in line %d is never closed", line)
	}
	return fmt.Errorf("the quote that opens in line %d is never closed; the %s after it would be part of it",
		line, output.Plural(last-line, "line"))
}
