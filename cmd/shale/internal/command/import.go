package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// An import writes batches of this many entries or bytes, whichever is reached first.
const (
	importBatch = 1000
	importBytes = 1 << 20
)

// An importing is the state of one import.
//
// The fields up to limit are set by options, and constant while the import runs. read, line and
// skipped say how far the reader is; written and upto how far the store is.
type importing struct {
	s        *Session
	name     string // of the file, for messages
	form     recordForm
	sorted   bool
	skip     bool // skip wrong lines
	fromLine int
	limit    int // largest number of entries; 0: no limit

	in    recordReader
	begin time.Time
	done  atomic.Int64 // entries written, or given to Ingest, for the progress

	batch   shale.Batch
	read    int // entries read
	line    int // line of the last record read
	written int // entries written
	upto    int // line of the last entry written
	skipped int
	notText int  // values that are not strings, nulls left out
	nulls   int  // values that are null or missing
	enough  bool // the limit is reached
}

// importCommand reads a file of entries. What it promises is the same for all formats: each line is
// written or reported, and after any end the user knows from which line to go on. Batches make it
// fast, and one sync at the end makes it durable.
//
// For example, `import hosts.txt --value malware` of a file with a host on each line. It ends with
// a line such as
//
//	50,442 entries written in 0.31 s, 2 lines skipped
//
// or, after an error in a line, with
//
//	hosts.tsv, line 812: there is no tab between a key and a value; 811 entries, up to line 811, were written; --from-line 812 goes on
func importCommand() *Command {
	var i importing
	var given fileFormat
	var value []byte
	c := newCommand("import FILE", creates, "put the entries of a file of lines, tsv, csv or jsonl", `
- lines: each line is a key. Its value is empty, or that of --value.
- tsv: each line is a key, a tab and a value.
- csv: as in RFC 4180. Key and value are in the first two columns, or in those of --key and --value.
- jsonl: each line is an object with "key" and "value", or with "key64" and "value64" in base64. A value that
is not a string is taken as it is written. A value that is null or missing is taken as empty, and counted. With "expires_ms",
in milliseconds since 1970, the value expires then.

In lines, tsv and csv, a field that begins with a quote is a quoted word, as scan prints it and export
writes it. With --plain the quote is part of the field. Empty lines are skipped. A FILE of - is standard
input.

Entries are written some thousand at a time, and are durable at the end. A wrong line ends the import. With
--on-error skip it is skipped and counted, and the status is 1. A quote of csv that spans lines is never skipped. However the import ends, it says how many
entries were written, and with which --from-line it can go on. --sorted is about twice as fast; it needs keys
in ascending order, and writes all entries or none. A key has at most 65,535 bytes, a value 268,435,456.
Creates the store as put does, after it has opened the file.`)
	c.late = true
	named(c, &given, "format", "what the file is; else its name says it, by .tsv, .csv, .jsonl or .json; else it is tsv if the first line has a tab, and lines if not", formatNames, fileFormats...)
	c.flag(&i.sorted, "sorted", "the keys are in ascending order: write tables directly, all entries or none")
	c.option("value", "VALUE", "lines: the value of all keys; csv: the column of the value; jsonl: the field of the value",
		func(w Word) error { value = append([]byte{}, w.Text...); return nil })
	c.text(&i.form.key, "key", "COLUMN", "of the key: in csv a number or a name in the first line, in jsonl a field")
	c.flag(&i.form.header, "header", "csv: the first line has the names of the columns; implied if --key or --value is a name")
	c.flag(&i.form.plain, "plain", "take a quote at the beginning of a field as it is")
	named(c, &i.skip, "on-error", "what to do with a line that is wrong; stop if not given", []string{"stop", "skip"}, false, true)
	c.count(&i.fromLine, "from-line", "begin at line N")
	c.count(&i.limit, "limit", "stop after N entries")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		// The order matters: options that make no sense are found first, then a file that can't be
		// read, and only then a store is made.
		file := words[0]
		i.s, i.name = s, inputName(file)
		i.form.format = formatOfFile(given, file.Text)
		if err := i.choose(c, value); err != nil {
			return Failed, err
		}
		if i.sorted && s.tx != nil {
			return Failed, errors.New("import --sorted writes tables, which can't be in a transaction; leave out --sorted, or commit or discard first")
		}
		in, size, err := s.openInput(ctx, file)
		if err != nil {
			return Failed, err
		}
		defer in.Close() // only read
		if err := i.open(bufio.NewReaderSize(i.measured(in, size), 256<<10), value != nil); err != nil {
			return Failed, fmt.Errorf("%s: %w", i.name, err)
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		i.begin = time.Now()
		if i.sorted {
			err = i.runSorted(ctx)
		} else {
			err = i.run(ctx)
		}
		if err != nil {
			return Failed, err
		}
		if err := i.checkFromLine(); err != nil {
			return Failed, err
		}
		i.report()
		return foundIf(i.skipped == 0), nil
	})
}

// measured returns in, whose reads the progress of the command measures. size is that of in; 0: it is not known.
func (i *importing) measured(in io.Reader, size int64) io.Reader {
	counted := &countedReader{r: in}
	m := measure{done: i.done.Load, format: entries}
	if size > 0 {
		m.part = partOf(counted.n.Load, size) // the number of entries is known only at the end
	}
	i.s.measure(m)
	return counted
}

// A countedReader counts the bytes that were read.
type countedReader struct {
	r io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// choose sets what the options say of the form of the records. value is the argument of --value.
//
// --value means something else for each format: the value itself for lines, and a column or a field
// for csv and jsonl, whose values differ.
func (i *importing) choose(c *Command, value []byte) error {
	format := i.form.format
	columns := format == formatCSV || format == formatJSONL
	switch {
	case columns:
		i.form.value = string(value)
	case format == formatTSV && value != nil:
		return errors.New("--value can't be used with tsv, which has values")
	default:
		i.form.constant = value
	}
	if format == "" {
		format = "a file whose name says no format"
	}
	switch {
	case c.has("key") && !columns:
		return fmt.Errorf("--key is for csv and jsonl, not for %s", format)
	case i.form.header && format != formatCSV:
		return fmt.Errorf("--header is for csv, not for %s", format)
	}
	return nil
}

// open begins to read. It comes before the store is made, so that a file that can't be read
// leaves no store behind. If nothing has said the format so far, the first line does: export
// writes tsv, and a list of keys has no tabs. With --value it is a list.
func (i *importing) open(in *bufio.Reader, isList bool) error {
	first, err := in.Peek(4096)
	if err != nil && err != io.EOF {
		return err
	}
	text, _, _ := bytes.Cut(first, []byte("\n"))
	switch tab := bytes.IndexByte(text, '\t') >= 0; {
	case i.form.format != "":
	case tab && isList:
		return errors.New("the first line has a tab; --format tsv splits lines at the tab, --format lines takes whole lines as keys")
	// The guess is told, because a key may have a tab, and the user knows best.
	case tab:
		i.form.format = formatTSV
		i.s.note("shale: %s: the first line has a tab, so this is taken for tsv; --format lines takes whole lines as keys", i.name)
	default:
		i.form.format = formatLines
	}
	i.in, err = newRecordReader(in, i.form, i.fromLine)
	return err
}

// next returns the next record that is to be written, or io.EOF if there is none. With
// --on-error skip it reports wrong lines and skips them.
//
// --limit counts the entries that are to be written. Lines that are wrong, or lie before --from-
// line, do not count.
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
			switch {
			case rec.notText && len(rec.value) == 0: // every other value has a character
				i.nulls++
			case rec.notText:
				i.notText++
			}
			return rec, nil
		case !errors.As(err, &wrong):
			return record{}, err
		case wrong.line < i.fromLine:
		case !i.skip || wrong.final:
			return record{}, err
		default:
			i.noteSkipped(wrong)
		}
	}
}

// checkFromLine returns an error if the input ends before --from-line. The line after the last one is right: there an
// import goes on that was complete.
func (i *importing) checkFromLine() error {
	if lines := i.in.lines(); i.read == 0 && i.skipped == 0 && !i.enough && i.fromLine > lines+1 {
		return fmt.Errorf("%s has %s, so --from-line %d is behind its end; nothing was written", i.name, output.Plural(lines, "line"), i.fromLine)
	}
	return nil
}

// checkSizes returns a *badLine if the store would refuse the record.
func checkSizes(rec record) error {
	switch {
	case len(rec.key) > shale.MaxKeySize:
		return &badLine{line: rec.line, err: fmt.Errorf("the key has %s; at most %d are allowed", output.Plural(len(rec.key), "byte"), shale.MaxKeySize)}
	case len(rec.value) > shale.MaxValueSize:
		return &badLine{line: rec.line, err: fmt.Errorf("the value has %s; at most %d are allowed", output.Plural(len(rec.value), "byte"), shale.MaxValueSize)}
	}
	return nil
}

// maxNoted is the largest number of skipped lines that are reported one by one.
const maxNoted = 10

// noteSkipped reports a line that is wrong. Ten are named; a file in a wrong format has millions of
// them.
func (i *importing) noteSkipped(wrong *badLine) {
	if i.skipped++; i.skipped > maxNoted {
		return
	}
	_ = i.s.Out.Flush() // the end of the command reports a failure
	fmt.Fprintf(i.s.Notes, "shale: %s, %v: skipped\n", i.name, wrong)
	if i.skipped == maxNoted {
		fmt.Fprintf(i.s.Notes, "shale: more of them are only counted\n")
	}
}

// run writes the entries in batches.
//
// However it ends, what was read up to a wrong line is written and synced. So where is true.
func (i *importing) run(ctx context.Context) error {
	i.batch.SetDurability(shale.SyncManual) // there is one sync at the end
	err := i.fill(ctx)
	if err == nil {
		err = ctx.Err()
	}
	var wrong *badLine
	if err == nil || errors.As(err, &wrong) {
		err = errors.Join(err, i.flush(ctx))
	}
	// The entries are in the log then, and survive the end of this process, but perhaps not a power
	// cut. Those of a transaction are nowhere yet.
	if syncErr := i.sync(); syncErr != nil {
		return errors.Join(err, fmt.Errorf("import: %s were written, but some may not be durable: %w", output.Entries(i.written), plainly(syncErr)))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("import: %w; %s", errInterrupted, i.where())
	case wrong != nil:
		return fmt.Errorf("%s, %w; %s", i.name, err, i.where())
	}
	return fmt.Errorf("%s: %w; %s", i.name, plainly(err), i.where())
}

// sync makes what was written durable, unless it is in a transaction.
func (i *importing) sync() error {
	if i.s.tx != nil {
		return nil
	}
	return i.s.DB.Sync()
}

// fill reads all entries, and writes all batches except the last one.
//
// A line that can't be put into the batch is wrong too, and named as such.
func (i *importing) fill(ctx context.Context) error {
	for {
		rec, err := i.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.batch.Add(shale.Op{Kind: shale.OpPut, Key: rec.key, Value: rec.value, ExpiresAt: rec.expires}); err != nil {
			return &badLine{line: rec.line, err: err}
		}
		// A thousand small entries share the cost of a write. Large ones are written sooner, so
		// that a batch takes little memory.
		if i.batch.Len() >= importBatch || i.batch.Size() >= importBytes {
			if err := i.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// flush writes the batch.
//
// upto is the last line that is in the store, and may be behind the last line that was read.
func (i *importing) flush(ctx context.Context) error {
	n := i.batch.Len()
	if n == 0 {
		return nil
	}
	if err := i.s.write(ctx, &i.batch); err != nil {
		return err
	}
	i.written, i.upto = i.written+n, i.line
	i.batch.Reset()
	i.batch.SetDurability(shale.SyncManual)
	i.done.Store(int64(i.written))
	return nil
}

// where says which entries were written before the import ended, and how to go on.
//
// It is part of each error, because somebody whose import has ended early wants to know just this.
func (i *importing) where() string {
	if i.written == 0 {
		return "nothing was written"
	}
	if i.s.tx != nil {
		return fmt.Sprintf("the transaction has %s, up to line %d; --from-line %d goes on", output.Entries(i.written), i.upto, i.upto+1)
	}
	return fmt.Sprintf("%s, up to line %d, %s written; --from-line %d goes on", output.Entries(i.written), i.upto, output.WasWere(i.written), i.upto+1)
}

// runSorted writes the entries directly into tables.
//
// Ingest takes the entries from a function that it calls, so an error of reading is passed around
// it, as the cause of the context. Ingest makes tables and no log, so all of it is there at the end
// or nothing.
func (i *importing) runSorted(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := i.s.DB.Ingest(ctx, func(yield func(key, value []byte) bool) {
		for n := 1; ; n++ {
			rec, err := i.next()
			switch {
			case err == io.EOF:
				return
			case err == nil && !rec.expires.IsZero():
				err = &badLine{line: rec.line, err: errors.New("its value expires, which --sorted can't write; leave out --sorted")}
				fallthrough
			case err != nil:
				cancel(err)
				return
			// Ingest has an error of its own, such as a full disk, and returns it.
			case !yield(rec.key, rec.value):
				return
			}
			i.done.Store(int64(n))
		}
	})
	var wrong *badLine
	switch {
	case err == nil:
		i.written, i.upto = i.read, i.line
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("import: %w; nothing was written", errInterrupted)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s, %w; nothing was written", i.name, err)
	case errors.Is(err, shale.ErrNotAscending):
		return fmt.Errorf("%s, line %d: %w; nothing was written; without --sorted, keys may come in any order", i.name, i.line, err)
	}
	return fmt.Errorf("%s: %w; nothing was written", i.name, plainly(err))
}

// report prints what was imported.
//
// It is printed also in scripts, as an import is worth a line.
func (i *importing) report() {
	done := "written"
	if i.s.tx != nil {
		done = "put into the transaction"
	}
	text := fmt.Sprintf("%s %s in %v", output.Entries(i.written), done, output.Since(i.begin))
	if i.skipped > 0 {
		text += fmt.Sprintf(", %s skipped", output.Plural(i.skipped, "line"))
	}
	if i.nulls > 0 {
		text += fmt.Sprintf(", %s null or missing, taken as empty", output.Plural(i.nulls, "value"))
	}
	if i.notText > 0 {
		text += fmt.Sprintf(", %s without quotes taken as written", output.Plural(i.notText, "value"))
	}
	if i.enough {
		text += fmt.Sprintf(", up to line %d; --from-line %d goes on", i.upto, i.upto+1)
	}
	fmt.Fprintln(i.s.Out, text)
	if i.s.tx == nil {
		i.adviseCompact()
	}
}

// manyRuns is a number of runs that makes lookups slow, and that compactions do not leave behind.
const manyRuns = 8

// adviseCompact says what compact would gain, if the import has left many runs.
//
// A program that goes on writing would see them merged in the background. This one ends.
func (i *importing) adviseCompact() {
	runs, m := 0, i.s.DB.Metrics()
	for _, l := range m.Levels {
		runs += l.Runs
	}
	if runs >= manyRuns {
		fmt.Fprintf(i.s.Out, "A lookup may ask %d runs now, and only 1 after compact, which merges %s of tables.\n", runs, base.FormatBytes(tableBytes(i.s.DB)))
	}
}
