package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// What is imported is written in batches of so many entries, or so many bytes.
const (
	importBatch = 1000
	importBytes = 1 << 20
)

// An importing is one import.
type importing struct {
	s        *Session
	name     string // of the file, for messages
	form     recordForm
	sorted   bool
	skip     bool // lines that are wrong
	fromLine int
	limit    int // 0: none

	in       recordReader
	progress *progress
	begin    time.Time

	batch   shale.Batch
	read    int // entries
	line    int // of the last record read
	written int // entries
	upto    int // line of the last one written
	skipped int
	notText int  // values
	enough  bool // limit is reached
}

// importFile puts the entries of a file.
func importFile(ctx context.Context, s *Session, a Arguments) (Status, error) {
	i, err := s.newImport(a)
	if err != nil {
		return Failed, err
	}
	in, size, err := s.openInput(ctx, a.Words[0])
	if err != nil {
		return Failed, err
	}
	defer in.Close() // only read
	i.progress = s.newProgress(in, size)
	if err := i.open(bufio.NewReaderSize(i.progress, 256<<10), a); err != nil {
		return Failed, fmt.Errorf("%s: %w", i.name, err)
	}
	if err := s.openLate("import"); err != nil {
		return Failed, err
	}
	i.begin = time.Now()
	if i.sorted {
		err = i.runSorted(ctx)
	} else {
		err = i.run(ctx)
	}
	i.progress.clear()
	if err != nil {
		return Failed, err
	}
	i.report()
	return foundIf(i.skipped == 0), nil
}

// newImport makes an import of what a asks for.
func (s *Session) newImport(a Arguments) (*importing, error) {
	i := &importing{s: s, name: inputName(a.Words[0]), sorted: a.has("sorted")}
	format, err := formatOfFile(a, a.Words[0].Text, formatLines)
	if err != nil {
		return nil, err
	}
	i.form = recordForm{format: format, key: a.values["key"], header: a.has("header"), plain: a.has("plain")}
	columns := format == formatCSV || format == formatJSONL
	switch {
	case columns:
		i.form.value = a.values["value"]
	case format == formatTSV && a.has("value"):
		return nil, errors.New("--value is of no use here: tsv has values")
	default:
		i.form.constant = a.bytes("value")
	}
	if a.has("key") && !columns {
		return nil, fmt.Errorf("--key is for csv and jsonl, not for %s", format)
	}
	if i.form.header && format != formatCSV {
		return nil, fmt.Errorf("--header is for csv, not for %s", format)
	}
	switch text, given := a.values["on-error"]; {
	case text == "skip":
		i.skip = true
	case given && text != "stop":
		return nil, fmt.Errorf("--on-error %s is neither stop nor skip", output.Quote(text))
	}
	if i.fromLine, err = a.optionNumber("from-line", 0); err == nil {
		i.limit, err = a.optionNumber("limit", 0)
	}
	return i, err
}

// inputName is what to call the file that w names.
func inputName(w Word) string {
	if w.Text == "-" && !w.Literal {
		return "standard input"
	}
	return output.Quote(w.Text)
}

// openInput opens the file that w names, or standard input, and tells its size if
// it has one.
func (s *Session) openInput(ctx context.Context, w Word) (io.ReadCloser, int64, error) {
	in, err := s.input(ctx, w)
	if in != nil || err != nil {
		return io.NopCloser(in), 0, err
	}
	f, err := os.Open(w.Text)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a folder", output.Quote(w.Text))
	case err == nil && info.Mode().IsRegular():
		return f, info.Size(), nil
	case err == nil:
		return struct {
			io.Reader
			io.Closer
		}{untilDone(ctx, f), f}, 0, nil // a pipe may keep us waiting
	}
	_ = f.Close() // only opened
	return nil, 0, err
}

// open begins to read, so that a file that can't be read leaves no store behind.
func (i *importing) open(in *bufio.Reader, a Arguments) error {
	first, err := in.Peek(4096)
	if err != nil && err != io.EOF {
		return err
	}
	text, _, _ := bytes.Cut(first, []byte("\n"))
	if i.form.format == formatLines && !a.has("format") && bytes.IndexByte(text, '\t') >= 0 {
		return errors.New("the first line has a tab: --format tsv splits lines there, --format lines takes them as keys")
	}
	i.in, err = newRecordReader(in, i.form)
	return err
}

// next returns the next record that is asked for; io.EOF: there is none. What is
// wrong it reports and skips, if that was asked for.
func (i *importing) next() (record, error) {
	for {
		if i.limit > 0 && i.read == i.limit {
			i.enough = true
			return record{}, io.EOF
		}
		rec, err := i.in.next()
		if err == nil && rec.line < i.fromLine {
			continue
		}
		if err == nil {
			err = checkSizes(rec)
		}
		var wrong *badLine
		switch {
		case err == nil:
			i.read++
			i.line = rec.line
			if rec.notText {
				i.notText++
			}
			return rec, nil
		case !errors.As(err, &wrong):
			return record{}, err
		case wrong.line < i.fromLine:
		case !i.skip:
			return record{}, err
		default:
			i.noteSkipped(wrong)
		}
	}
}

// checkSizes returns a *badLine if the store would refuse the record.
func checkSizes(rec record) error {
	switch {
	case len(rec.key) > shale.MaxKeySize:
		return &badLine{rec.line, fmt.Errorf("the key has %s, and %d are the most", output.Plural(len(rec.key), "byte"), shale.MaxKeySize)}
	case len(rec.value) > shale.MaxValueSize:
		return &badLine{rec.line, fmt.Errorf("the value has %s, and %d are the most", output.Plural(len(rec.value), "byte"), shale.MaxValueSize)}
	}
	return nil
}

// maxNoted is how many lines that are skipped are reported one by one.
const maxNoted = 10

func (i *importing) noteSkipped(wrong *badLine) {
	if i.skipped++; i.skipped > maxNoted {
		return
	}
	i.progress.clear()
	_ = i.s.Out.Flush() // the end tells
	fmt.Fprintf(i.s.Notes, "shale: %s, %v: skipped\n", i.name, wrong)
	if i.skipped == maxNoted {
		fmt.Fprintf(i.s.Notes, "shale: more of them are only counted\n")
	}
}

// run writes batches.
func (i *importing) run(ctx context.Context) error {
	i.batch.SetDurability(shale.SyncManual) // the end syncs
	err := i.fill(ctx)
	if err == nil {
		err = ctx.Err()
	}
	var wrong *badLine
	if err == nil || errors.As(err, &wrong) {
		err = errors.Join(err, i.flush(ctx))
	}
	if syncErr := i.s.DB.Sync(); syncErr != nil {
		return errors.Join(err, fmt.Errorf("import: %s may not all be durable: %w", output.Entries(i.written), plainly(syncErr)))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("import: interrupted; %s", i.where())
	case wrong != nil:
		return fmt.Errorf("%s, %w; %s", i.name, err, i.where())
	}
	return fmt.Errorf("%s: %w; %s", i.name, plainly(err), i.where())
}

// fill reads all and writes all but the last batch.
func (i *importing) fill(ctx context.Context) error {
	for {
		rec, err := i.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.batch.Put(rec.key, rec.value); err != nil {
			return &badLine{rec.line, err}
		}
		if i.batch.Len() >= importBatch || i.batch.Size() >= importBytes {
			if err := i.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// flush writes the batch.
func (i *importing) flush(ctx context.Context) error {
	n := i.batch.Len()
	if n == 0 {
		return nil
	}
	if err := i.s.DB.Write(ctx, &i.batch); err != nil {
		return err
	}
	i.written, i.upto = i.written+n, i.line
	i.batch.Reset()
	i.batch.SetDurability(shale.SyncManual)
	i.progress.show(i.written, "entries")
	return nil
}

// where says what was written before the import ended, and how to go on.
func (i *importing) where() string {
	if i.written == 0 {
		return "nothing was written"
	}
	return fmt.Sprintf("%s, up to line %d, %s written; --from-line %d goes on", output.Entries(i.written), i.upto, output.WasWere(i.written), i.upto+1)
}

// runSorted writes tables.
func (i *importing) runSorted(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := i.s.DB.Ingest(ctx, func(yield func(key, value []byte) bool) {
		for n := 1; ; n++ {
			rec, err := i.next()
			switch {
			case err == io.EOF:
				return
			case err != nil:
				cancel(err)
				return
			case !yield(rec.key, rec.value):
				return
			}
			if n%importBatch == 0 {
				i.progress.show(n, "entries")
			}
		}
	})
	var wrong *badLine
	switch {
	case err == nil:
		i.written, i.upto = i.read, i.line
		return nil
	case errors.Is(err, context.Canceled):
		return errors.New("import: interrupted; nothing was written")
	case errors.As(err, &wrong):
		return fmt.Errorf("%s, %w; nothing was written", i.name, err)
	case errors.Is(err, shale.ErrNotAscending):
		return fmt.Errorf("%s, line %d: %w; nothing was written: without --sorted, any order will do", i.name, i.line, err)
	}
	return fmt.Errorf("%s: %w; nothing was written", i.name, plainly(err))
}

// report says what was done.
func (i *importing) report() {
	text := fmt.Sprintf("%s written in %v", output.Entries(i.written), output.Since(i.begin))
	if i.skipped > 0 {
		text += fmt.Sprintf(", %s skipped", output.Plural(i.skipped, "line"))
	}
	if i.notText > 0 {
		text += fmt.Sprintf(", %s without quotes taken as written", output.Plural(i.notText, "value"))
	}
	if i.enough {
		text += fmt.Sprintf(", up to line %d; --from-line %d goes on", i.upto, i.upto+1)
	}
	fmt.Fprintln(i.s.Out, text)
}
