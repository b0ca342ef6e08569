package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// csvLines splits a file into records of RFC 4180, which may span lines.
//
// A quote that is never closed makes the rest of the file look like one field. So
// the text of a record is kept until the record has proven to be one. If it is
// wrong, reading goes on at its second line.
type csvLines struct {
	in    *bufio.Reader
	text  []byte // text[:at] is of the record that is being read, or older; the rest was read, and comes again
	begin int    // of the record in text
	at    int
	line  int // the number of the line that ends at at
	most  int // bytes of a record

	fields []csvField // of the last record
}

// A csvField is a field as the file has it, without the quotes around it.
type csvField struct {
	from, to int // in text
	quoted   bool
}

// mostCSV is the size of the largest record: of the largest entry each byte may be
// a quote, which is doubled. Other columns have a megabyte.
const mostCSV = 2*(shale.MaxKeySize+shale.MaxValueSize) + 1<<20

// A csvMistake says why a record is none.
type csvMistake string

func (m csvMistake) Error() string { return string(m) }

const errBareQuote = csvMistake("a quote stands in a field that does not begin with one")

func newCSVLines(in *bufio.Reader) *csvLines { return &csvLines{in: in, most: mostCSV} }

// next reads a record into fields, and returns the line that it begins in. Empty
// lines are passed over. Errors are io.EOF, a *badLine and those of reading.
func (c *csvLines) next() (line int, err error) {
	for {
		c.begin = c.at
		from, to, err := c.readLine()
		if err != nil {
			return 0, err
		}
		if c.endOf(from, to) > from {
			return c.record(from, to)
		}
	}
}

// readLine returns where the next line is in text, with its end.
func (c *csvLines) readLine() (from, to int, err error) {
	if c.at == len(c.text) {
		if err := c.fill(); err != nil {
			return 0, 0, err
		}
	}
	from, to = c.at, len(c.text)
	if i := bytes.IndexByte(c.text[from:], '\n'); i >= 0 {
		to = from + i + 1
	}
	c.at = to
	c.line++
	return from, to, nil
}

// fill appends a line of the file to text.
func (c *csvLines) fill() error {
	if c.begin == c.at {
		c.text, c.begin, c.at = c.text[:0], 0, 0
	}
	size := 0
	for {
		part, err := c.in.ReadSlice('\n')
		if size += len(part); size <= c.most {
			c.text = append(c.text, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || size == 0):
			return err
		case size > c.most:
			c.text = c.text[:c.at]
			if c.begin < c.at {
				return fmt.Errorf("line %d has more than %s", c.line+1, base.FormatBytes(int64(c.most)))
			}
			c.line++
			return &badLine{c.line, fmt.Errorf("the line has more than %s, and no entry is so large", base.FormatBytes(int64(c.most)))}
		}
		return nil
	}
}

// endOf returns where the text of a line ends, before \n or \r\n. A \r ends the
// last line of a file, too.
func (c *csvLines) endOf(from, to int) int {
	if to > from && c.text[to-1] == '\n' {
		to--
	}
	if to > from && c.text[to-1] == '\r' {
		to--
	}
	return to
}

// record reads the record whose first line is text[from:to]. If it is wrong, its
// second line comes next.
func (c *csvLines) record(from, to int) (line int, err error) {
	line = c.line
	c.fields = c.fields[:0]
	for at, end := from, c.endOf(from, to); ; at++ {
		if at < end && c.text[at] == '"' {
			at, end, err = c.quoted(at+1, end)
		} else {
			at, err = c.bare(at, end)
		}
		switch wrong := csvMistake(""); {
		case errors.As(err, &wrong):
			c.at, c.line = to, line
			return line, &badLine{line, wrong}
		case err != nil || at == end:
			return line, err
		}
	}
}

// bare adds the field that begins at text[at], without quotes, and returns where it
// ends: at a comma, or at end, where the line ends.
func (c *csvLines) bare(at, end int) (int, error) {
	f := csvField{from: at, to: end}
	if i := bytes.IndexByte(c.text[at:end], ','); i >= 0 {
		f.to = at + i
	}
	if bytes.IndexByte(c.text[f.from:f.to], '"') >= 0 {
		return 0, errBareQuote
	}
	c.fields = append(c.fields, f)
	return f.to, nil
}

// quoted adds the field that begins at text[at], behind its quote, and returns where
// it ends with its quote, and where that line ends.
func (c *csvLines) quoted(at, end int) (int, int, error) {
	f, line := csvField{from: at, quoted: true}, c.line
	for {
		i := bytes.IndexByte(c.text[at:end], '"')
		if i >= 0 {
			f.to, at = at+i, at+i+1
			switch {
			case at == end || c.text[at] == ',':
				c.fields = append(c.fields, f)
				return at, end, nil
			case c.text[at] == '"':
				at++
				continue
			case c.line == line:
				return 0, 0, csvMistake("text follows a closing quote")
			}
			return 0, 0, csvMistake(fmt.Sprintf("a quote opens in line %d, and text follows where line %d closes it", line, c.line))
		}
		from, to, err := c.readLine()
		switch {
		case err == io.EOF:
			return 0, 0, c.neverClosed(line)
		case err != nil:
			return 0, 0, err
		case to-c.begin > c.most:
			return 0, 0, csvMistake(fmt.Sprintf("the quote that opens in line %d is not closed within %s, and no entry is so large",
				line, base.FormatBytes(int64(c.most))))
		}
		at, end = from, c.endOf(from, to)
	}
}

func (c *csvLines) neverClosed(line int) error {
	if c.line == line {
		return csvMistake(fmt.Sprintf("the quote that opens in line %d is never closed", line))
	}
	return csvMistake(fmt.Sprintf("the quote that opens in line %d is never closed; the %s after it would be part of it",
		line, output.Plural(c.line-line, "line")))
}

// appendField appends field i of the last record to dst: what its quotes mean.
func (c *csvLines) appendField(dst []byte, i int) []byte {
	f := c.fields[i]
	text := c.text[f.from:f.to]
	if !f.quoted {
		return append(dst, text...)
	}
	for len(text) > 0 {
		i := bytes.IndexAny(text, "\"\n")
		if i < 0 {
			return append(dst, text...)
		}
		if text[i] == '"' { // the second of two
			dst = append(dst, text[:i+1]...)
			text = text[i+2:]
			continue
		}
		dst = append(append(dst, bytes.TrimSuffix(text[:i], []byte("\r"))...), '\n')
		text = text[i+1:]
	}
	return dst
}
