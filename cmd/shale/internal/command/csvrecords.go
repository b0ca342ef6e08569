package command

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// A csvReader reads records as RFC 4180 defines them, with package encoding/csv.
//
// A quote that is never closed makes the rest of the file look like one field. So a mistake that
// spans lines ends the import, even with --on-error skip: nobody can say which of the lines were
// meant to be records. --from-line goes on behind it.
type csvReader struct {
	csv        *csv.Reader
	in         *limitedReader
	before     int // lines of the file before those that csv reads
	key, value int // columns
	optional   bool
	plain      bool
	buf        [2][]byte // of the key and of the value, until the next record
}

// mostCSV is the size of the largest record. Each byte of the largest entry may be a quote,
// and quotes are doubled. The other columns may have 1 MiB.
const mostCSV = 2*(shale.MaxKeySize+shale.MaxValueSize) + 1<<20

// errLargeRecord ends an import: where the next record would begin is not known.
var errLargeRecord = fmt.Errorf("a record is larger than %s, and no entry is so large; is a quote never closed?", base.FormatBytes(mostCSV))

// A limitedReader fails after it has read left bytes. A csv.Reader itself knows no limit, and would
// read a file with one quote too many into memory as a whole.
type limitedReader struct {
	in   io.Reader
	left int
}

// Read implements io.Reader.
func (l *limitedReader) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLargeRecord
	}
	n, err := l.in.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// newCSVReader reads the names of the columns, if there are any, and skips the lines before
// fromLine. The names come from the first line in any case.
func newCSVReader(in *bufio.Reader, form recordForm, fromLine int) (*csvReader, error) {
	r := &csvReader{in: &limitedReader{in: in}, plain: form.plain, optional: form.value == ""}
	if form.key == "" {
		form.key = "1"
	}
	if form.value == "" {
		form.value = "2"
	}
	var errs [2]error
	r.key, errs[0] = column(form.key, nil)
	r.value, errs[1] = column(form.value, nil)
	if form.header || errs != [2]error{} {
		names, err := r.names(in)
		if err != nil {
			return nil, fmt.Errorf("the names of the columns: %w", err)
		}
		if r.key, err = column(form.key, names); err != nil {
			return nil, fmt.Errorf("--key %w", err)
		}
		if r.value, err = column(form.value, names); err != nil {
			return nil, fmt.Errorf("--value %w", err)
		}
	}
	for ; r.before < fromLine-1; r.before++ {
		n, err := 0, bufio.ErrBufferFull
		for err == bufio.ErrBufferFull { // a line may be longer than the buffer
			var text []byte
			text, err = in.ReadSlice('\n')
			n += len(text)
		}
		if err != nil {
			r.before += min(n, 1) // a last line without an end
			break                 // the first record reports it
		}
	}
	r.csv = newCSV(r.in)
	return r, nil
}

// lines returns the number of lines that were skipped. Those of records do not matter to its caller.
func (r *csvReader) lines() int { return r.before }

// newCSV returns a reader of records that may have any number of fields. Fields are valid until the
// next record.
func newCSV(in io.Reader) *csv.Reader {
	c := csv.NewReader(in)
	c.FieldsPerRecord, c.ReuseRecord = -1, true // records may differ in length
	return c
}

// names reads the first line, and returns its fields.
//
// It reads the line itself, and not through csv, which reads ahead: the lines after it may have to
// be skipped.
func (r *csvReader) names(in *bufio.Reader) ([]string, error) {
	line := &lineReader{in: in}
	text, err := line.next()
	r.before = line.line
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newCSV(bytes.NewReader(text)).Read()
}

// column returns the index of a column that is given by number or name.
//
// A name that is a number, such as "2024", is looked for as a name first.
func column(text string, names []string) (int, error) {
	if i := slices.Index(names, text); i >= 0 {
		return i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is not a column; the first line names %q", output.Quote(text), names)
	}
	return n - 1, nil
}

// next reads one record. The limit counts from here, and includes what csv reads ahead.
func (r *csvReader) next() (record, error) {
	r.in.left = mostCSV
	fields, err := r.csv.Read()
	if err != nil {
		return record{}, r.mistake(err)
	}
	line, _ := r.csv.FieldPos(0)
	rec := record{line: r.before + line}
	rec.key, err = r.field(fields, r.key, 0, false)
	if err == nil {
		rec.value, err = r.field(fields, r.value, 1, r.optional)
	}
	if err != nil {
		return record{}, &badLine{line: rec.line, err: err}
	}
	return rec, nil
}

// mistake returns an error of csv in plain words.
//
// The texts of encoding/csv name columns in bytes and speak of bare quotes. These say what is wrong
// with the file.
func (r *csvReader) mistake(err error) error {
	var wrong *csv.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	line := r.before + wrong.StartLine
	switch {
	case wrong.Line > wrong.StartLine:
		err = fmt.Errorf("a quote of the record that begins here is never closed, or text follows where line %d closes it", r.before+wrong.Line)
		return &badLine{line, err, true}
	case errors.Is(wrong.Err, csv.ErrBareQuote):
		return &badLine{line: line, err: errors.New("a field that does not begin with a quote has one inside")}
	}
	return &badLine{line: line, err: errors.New("a quote is never closed, or text follows a closing quote")}
}

// field returns the value of a column. It may use buffer i.
//
// Within the quotes of CSV, which are gone here, a field may be a quoted word, as export writes it.
func (r *csvReader) field(fields []string, at, i int, optional bool) ([]byte, error) {
	if at >= len(fields) {
		if optional {
			return nil, nil
		}
		return nil, fmt.Errorf("there is no column %d", at+1)
	}
	r.buf[i] = append(r.buf[i][:0], fields[at]...)
	value, rest, err := field(r.buf[i], r.plain)
	if err == nil && len(rest) > 0 {
		err = errBehindQuote
	}
	return value, err
}
