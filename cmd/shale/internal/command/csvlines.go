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

// csvLines reads the records of a file, which may span lines, with package encoding/csv.
//
// A quote that is never closed makes the rest of the file look like one field. So the text
// of a record is kept until the record is known to be correct. If it is wrong, reading goes
// on at its second line.
type csvLines struct {
	in   *bufio.Reader
	csv  *csv.Reader
	most int // largest size of a record, in bytes

	text   []byte // what csv has read from the beginning of the current record
	from   int64  // offset of text in the input of csv
	at     int64  // offset of the current record
	lines  int    // number of lines of the file before text
	before int    // number of lines of the file before the input of csv
	again  int    // number of bytes at the end of text that csv must still read

	fields []string // of the last record, until the next one is read
}

// mostCSV is the size of the largest record. Each byte of the largest entry may be a quote,
// and quotes are doubled. The other columns may have 1 MiB.
const mostCSV = 2*(shale.MaxKeySize+shale.MaxValueSize) + 1<<20

// csvAhead is the number of bytes that are read ahead of a record.
const csvAhead = 64 << 10

var errLargeRecord = errors.New("the record is larger than any entry")

func newCSVLines(in *bufio.Reader) *csvLines {
	c := &csvLines{in: in, most: mostCSV}
	c.begin()
	return c
}

// begin starts a csv.Reader that reads text first, and then the rest of the file.
func (c *csvLines) begin() {
	c.from, c.at, c.again = 0, 0, len(c.text)
	c.csv = csv.NewReader(bufio.NewReaderSize(c, csvAhead))
	c.csv.FieldsPerRecord, c.csv.ReuseRecord = -1, true
}

// Read implements io.Reader for csv. It appends what csv reads to text.
func (c *csvLines) Read(b []byte) (int, error) {
	if c.again > 0 {
		n := copy(b, c.text[len(c.text)-c.again:])
		c.again -= n
		return n, nil
	}
	if done := int(c.at - c.from); done > len(c.text)/2 {
		c.drop(done)
	}
	if len(c.text) > c.most+csvAhead {
		return 0, errLargeRecord
	}
	n, err := c.in.Read(b)
	c.text = append(c.text, b[:n]...)
	return n, err
}

// drop forgets the first n bytes of text.
func (c *csvLines) drop(n int) {
	c.lines += bytes.Count(c.text[:n], []byte("\n"))
	c.from += int64(n)
	c.text = append(c.text[:0], c.text[n:]...)
}

// next reads a record into fields, and returns the line in which it begins. It skips empty
// lines. Its error is io.EOF, a *badLine, or an error of reading.
func (c *csvLines) next() (line int, err error) {
	c.at = c.csv.InputOffset()
	c.fields, err = c.csv.Read()
	var wrong *csv.ParseError
	switch {
	case err == nil:
		line, _ = c.csv.FieldPos(0)
		return c.before + line, nil
	case !errors.As(err, &wrong) && !errors.Is(err, errLargeRecord):
		return 0, err
	}
	c.drop(int(c.at - c.from))
	for len(c.text) > 0 && (c.text[0] == '\n' || bytes.HasPrefix(c.text, []byte("\r\n"))) {
		c.drop(bytes.IndexByte(c.text, '\n') + 1)
	}
	line = c.lines + 1
	end := bytes.IndexByte(c.text, '\n') + 1
	switch {
	case wrong != nil:
		err = c.mistake(line, wrong)
	case end == 0:
		err = fmt.Errorf("the line has more than %s, and no entry is so large", base.FormatBytes(int64(c.most)))
	default:
		err = fmt.Errorf("the quote that opens in line %d is not closed within %s, and no entry is so large", line, base.FormatBytes(int64(c.most)))
	}
	if end > 0 {
		c.drop(end)
	} else if err := c.skipLine(); err != nil {
		return 0, err
	}
	c.before = c.lines
	c.begin()
	return line, &badLine{line, err}
}

// skipLine skips a line. text has its beginning, but not its end.
func (c *csvLines) skipLine() error {
	c.drop(len(c.text))
	c.lines++
	for {
		if _, err := c.in.ReadSlice('\n'); err != bufio.ErrBufferFull {
			if err == io.EOF {
				err = nil // csv will find the same end
			}
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
	case last == line:
		return fmt.Errorf("the quote that opens in line %d is never closed", line)
	}
	return fmt.Errorf("the quote that opens in line %d is never closed; the %s after it would be part of it",
		line, output.Plural(last-line, "line"))
}
