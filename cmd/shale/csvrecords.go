package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// A csvReader reads the records of RFC 4180.
type csvReader struct {
	in         *csv.Reader
	key, value int // columns
	optional   bool
	plain      bool
	buf        [2][]byte
}

func newCSVReader(in *bufio.Reader, form recordForm) (*csvReader, error) {
	r := &csvReader{in: csv.NewReader(in), plain: form.plain, optional: form.value == ""}
	r.in.FieldsPerRecord, r.in.ReuseRecord = -1, true
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
	names, err := r.in.Read()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("the first line: %w", err)
	}
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
		return 0, fmt.Errorf("%s is no column: the first line has %q", quote(text), names)
	}
	return n - 1, nil
}

func (r *csvReader) next() (record, error) {
	fields, err := r.in.Read()
	var wrong *csv.ParseError
	switch {
	case errors.As(err, &wrong):
		return record{}, &badLine{wrong.StartLine, wrong.Err}
	case err != nil:
		return record{}, err
	}
	line, _ := r.in.FieldPos(0)
	rec := record{line: line}
	rec.key, err = r.field(fields, r.key, 0, false)
	if err == nil {
		rec.value, err = r.field(fields, r.value, 1, r.optional)
	}
	if err != nil {
		return record{}, &badLine{line, err}
	}
	return rec, nil
}

// field returns a column, in buffer i.
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
