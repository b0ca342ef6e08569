package command

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A csvReader reads records as RFC 4180 defines them.
type csvReader struct {
	in         *csvLines
	key, value int // columns
	optional   bool
	plain      bool
	buf        [2][]byte
}

func newCSVReader(in *bufio.Reader, form recordForm) (*csvReader, error) {
	r := &csvReader{in: newCSVLines(in), plain: form.plain, optional: form.value == ""}
	if form.key == "" {
		form.key = "1"
	}
	if form.value == "" {
		form.value = "2"
	}
	var names []string
	var errs [2]error
	r.key, errs[0] = column(form.key, nil)
	r.value, errs[1] = column(form.value, nil)
	if !form.header && errs == [2]error{} {
		return r, nil
	}
	if _, err := r.in.next(); err != nil && err != io.EOF {
		return nil, fmt.Errorf("the names of the columns: %w", err)
	}
	for _, name := range r.in.fields {
		names = append(names, strings.Clone(name))
	}
	var err error
	if r.key, err = column(form.key, names); err != nil {
		return nil, fmt.Errorf("--key %w", err)
	}
	if r.value, err = column(form.value, names); err != nil {
		return nil, fmt.Errorf("--value %w", err)
	}
	return r, nil
}

// column returns the index of a column that is given by number or name.
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

func (r *csvReader) next() (record, error) {
	line, err := r.in.next()
	if err != nil {
		return record{}, err
	}
	rec := record{line: line}
	rec.key, err = r.field(r.key, 0, false)
	if err == nil {
		rec.value, err = r.field(r.value, 1, r.optional)
	}
	if err != nil {
		return record{}, &badLine{line, err}
	}
	return rec, nil
}

// field returns the value of a column. It may use buffer i.
func (r *csvReader) field(at, i int, optional bool) ([]byte, error) {
	if at >= len(r.in.fields) {
		if optional {
			return nil, nil
		}
		return nil, fmt.Errorf("there is no column %d", at+1)
	}
	r.buf[i] = append(r.buf[i][:0], r.in.fields[at]...)
	value, rest, err := field(r.buf[i], r.plain)
	if err == nil && len(rest) > 0 {
		err = errBehindQuote
	}
	return value, err
}
