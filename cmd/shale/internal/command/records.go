package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
)

// A fileFormat is a format of files with entries.
type fileFormat string

// The formats of import and export. Modes of output are something else: they lay out answers for
// people and programs, and only some of them can be read again.
const (
	formatLines fileFormat = "lines"
	formatTSV   fileFormat = "tsv"
	formatCSV   fileFormat = "csv"
	formatJSONL fileFormat = "jsonl"
)

var (
	formatNames = []string{"lines", "tsv", "csv", "jsonl"}
	fileFormats = []fileFormat{formatLines, formatTSV, formatCSV, formatJSONL}
)

// formatOfFile returns the format that an option gives. If there is none, it returns the format
// for the end of the file's name, or "" if that says none.
//
// A file named hosts.TSV is one of tsv, and one named hosts.txt says nothing.
func formatOfFile(given fileFormat, name string) fileFormat {
	if given != "" {
		return given
	}
	switch f := fileFormat(strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))); f {
	case formatTSV, formatCSV, formatJSONL:
		return f
	case "ndjson", "json":
		return formatJSONL
	}
	return ""
}

// A record is an entry of a file. The key and the value are valid until the next record is read.
type record struct {
	key, value []byte
	expires    time.Time // when the value is over; zero: never
	line       int       // the line in which it begins
	notText    bool      // the value is JSON but not a string, or is missing
}

// A recordReader reads the records of a file. Its error is io.EOF, a *badLine, or an error of
// reading. After a *badLine that is not final it can go on.
type recordReader interface {
	next() (record, error)
	lines() int // number of lines read so far
}

// A badLine is the error for a line that is not a record.
type badLine struct {
	line  int
	err   error
	final bool // it is not known which line after this one is a record
}

// Error names the line, which is the number that --from-line takes.
func (b *badLine) Error() string { return fmt.Sprintf("line %d: %v", b.line, b.err) }

// Unwrap returns what is wrong with the line.
func (b *badLine) Unwrap() error { return b.err }

// A recordForm describes the records of a file.
//
// It is what the options of import say. Fields that a format does not use are empty.
type recordForm struct {
	format     fileFormat
	key, value string // columns of csv, or fields of jsonl
	constant   []byte // the value of all keys, for lines
	header     bool
	plain      bool // no field is a quoted word
}

// newRecordReader returns a reader of the records of in. It may skip those before fromLine.
//
// A byte order mark at the beginning is skipped: some programs of Windows write one.
func newRecordReader(in *bufio.Reader, form recordForm, fromLine int) (recordReader, error) {
	if bom, err := in.Peek(3); err == nil && string(bom) == "\ufeff" {
		_, _ = in.Discard(3) // they were read by Peek
	}
	lines := &lineReader{in: in}
	switch form.format {
	case formatTSV:
		return &tsvReader{lines, form.plain}, nil
	case formatCSV:
		return newCSVReader(in, form, fromLine)
	case formatJSONL:
		return newJSONReader(lines, form), nil
	}
	return &keyReader{lines, form}, nil
}

// maxLine is the length of the longest line, in bytes. Each byte of the largest entry may be an
// escape of six bytes.
const maxLine = 6 * (shale.MaxKeySize + shale.MaxValueSize)

// errLongRecord is the error of a line that is skipped as a whole, without being held in memory.
var errLongRecord = fmt.Errorf("the line has more than %d bytes, and no entry is so large", maxLine)

// A lineReader reads lines, without their ends, and counts them.
//
// Line ends may be those of Windows. Empty lines are counted and not returned.
type lineReader struct {
	in   *bufio.Reader
	long []byte // memory for lines that do not fit into the buffer of in
	line int    // number of the last line read
}

// next returns the next line that is not empty. It is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	for {
		text, err := l.read()
		if err != nil {
			return nil, err
		}
		if n := len(text); n > 0 && text[n-1] == '\r' {
			text = text[:n-1]
		}
		if len(text) > 0 {
			return text, nil
		}
	}
}

// read returns the next line, which may be empty. Most lines are a part of the buffer of in and are
// not copied; a longer one is put together in long, which grows to the longest line of the file.
func (l *lineReader) read() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], text...)
		for err == bufio.ErrBufferFull {
			text, err = l.in.ReadSlice('\n')
			if len(l.long) <= maxLine {
				l.long = append(l.long, text...)
			}
		}
		text = l.long
	}
	if len(text) == 0 && err != nil {
		return nil, err
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	l.line++
	if len(text) > maxLine {
		return nil, &badLine{line: l.line, err: errLongRecord}
	}
	return bytes.TrimSuffix(text, []byte("\n")), nil
}

// lines returns the number of lines read so far.
func (l *lineReader) lines() int { return l.line }

// bad returns err as an error of the last line.
func (l *lineReader) bad(err error) error { return &badLine{line: l.line, err: err} }

// A keyReader reads lines that are keys.
//
// A list of hosts or of words is such a file. With --value all of them get a value.
type keyReader struct {
	*lineReader
	form recordForm
}

// next reads a line that is a key. All keys have the value of the option --value, or an empty one.
func (r *keyReader) next() (record, error) {
	text, err := r.lineReader.next()
	if err != nil {
		return record{}, err
	}
	key, rest, err := field(text, r.form.plain)
	if err == nil && len(rest) > 0 {
		err = errBehindQuote
	}
	if err != nil {
		return record{}, r.bad(err)
	}
	return record{key: key, value: r.form.constant, line: r.line}, nil
}

// errBehindQuote is for files of other programs, in which a quote is an ordinary character.
var errBehindQuote = errors.New(`text follows the closing quote; --plain takes quotes as they are`)

// field returns the field with which text begins, and the rest. If text begins with a quote, the
// field is a quoted word, unless plain is set. Otherwise it is all of text.
//
// A quoted word can have any bytes, in the escapes of Go. Text that does not begin with a quote is
// taken as it is, with quotes and spaces inside.
func field(text []byte, plain bool) (value, rest []byte, err error) {
	if plain || len(text) == 0 || text[0] != '"' {
		return text, nil, nil
	}
	word, n, err := quoting.Unquote(string(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%w; --plain takes quotes as they are", err)
	}
	return []byte(word), text[n:], nil
}

// A tsvReader reads lines of a key, a tab and a value.
//
// For example, each of these lines is an entry, with \t for a tab:
//
//	apple\tred
//	"black currant"\t"a value\nof two lines"
type tsvReader struct {
	*lineReader
	plain bool
}

var (
	errNoTab   = errors.New("there is no tab between a key and a value; --format lines takes whole lines as keys")
	errMoreTab = errors.New("there is a second tab; a line of tsv is a key, a tab and a value, and a tab within a word needs quotes: \"a\\tb\"")
)

// next reads a key, a tab and a value.
func (r *tsvReader) next() (record, error) {
	text, err := r.lineReader.next()
	if err != nil {
		return record{}, err
	}
	rec := record{line: r.line}
	rec.key, rec.value, err = splitTab(text, r.plain)
	if err != nil {
		return record{}, r.bad(err)
	}
	return rec, nil
}

// splitTab splits a line at its tab. A key that is a quoted word may have tabs inside, written as
// \t, so the tab is looked for behind the closing quote. A second tab is an error: taking it for a
// part of the value would hide that a file has three columns.
func splitTab(text []byte, plain bool) (key, value []byte, err error) {
	var rest []byte
	if plain || text[0] != '"' {
		tab := bytes.IndexByte(text, '\t')
		if tab < 0 {
			return nil, nil, errNoTab
		}
		key, rest = text[:tab], text[tab+1:]
	} else {
		key, rest, err = field(text, false)
		switch {
		case err != nil:
			return nil, nil, err
		case len(rest) == 0:
			return nil, nil, errNoTab
		case rest[0] != '\t':
			return nil, nil, errBehindQuote
		}
		rest = rest[1:]
	}
	quoted := !plain && len(rest) > 0 && rest[0] == '"'
	value, rest, err = field(rest, plain)
	switch {
	case err != nil:
		return nil, nil, err
	case len(rest) > 0:
		return nil, nil, errBehindQuote
	case !quoted && bytes.IndexByte(value, '\t') >= 0:
		return nil, nil, errMoreTab
	}
	return key, value, nil
}
