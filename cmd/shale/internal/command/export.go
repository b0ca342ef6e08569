package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportCommand writes entries to a file, in a format that import reads.
//
// The file is written under another name and then renamed, so an export that fails leaves the one
// before. It is never written over a file of a store.
func exportCommand() *Command {
	var b bounds
	var p pattern
	var given fileFormat
	c := newCommand("export [PREFIX] FILE", Reads, "write entries to a file that import reads", `
Writes the entries whose keys start with PREFIX and lie between --from and --to, as they are at one moment,
in a format that import reads. import of the file gives the same entries, whatever bytes they have. The
format lines has only keys, so it refuses entries with different values. The file is replaced as a whole or
not at all; - stands for standard output. Only jsonl has the time at which a value expires, as expires_ms;
what is imported from other formats stays. Status 1 if there are no entries.`)
	b.options(c)
	p.options(c)
	named(c, &given, "format", "the format; else the file's name says it, by .tsv, .csv, .jsonl or .json; - and names without an ending or with .txt get tsv", formatNames, fileFormats...)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		last := len(words) - 1
		file := words[last]
		r, format := b.of(words[:last]), formatOfFile(given, file.Text)
		if format == "" {
			if ext := filepath.Ext(file.Text); ext != "" && !strings.EqualFold(ext, ".txt") {
				return Failed, fmt.Errorf("%s: the ending %s names no format; end the name in .tsv, .csv or .jsonl, or give --format", output.Quote(file.Text), output.Quote(ext))
			}
			format = formatTSV
		}
		begin := time.Now()
		write := func(w io.Writer) (int, error) { return s.export(ctx, r, &p, w, format) }
		if file.Text == "-" && !file.Literal {
			n, err := write(s.Out)
			return foundIf(n > 0), err
		}
		if _, err := os.Stat(filepath.Dir(file.Text)); err != nil {
			return Failed, fmt.Errorf("%s: %w", output.Quote(file.Text), err)
		}
		if _, err := outfile.Path(file.Text); err != nil {
			return Failed, err
		}
		// A device, such as /dev/stdout, is written to directly. Of a file that is there one can say that
		// it is as it was.
		asItWas := ""
		if info, err := os.Stat(file.Text); err == nil && info.Mode().IsRegular() {
			asItWas = "; the file is as it was"
		}
		n, err := outfile.Replace(vfs.Default, file.Text, write)
		if err != nil {
			return Failed, fmt.Errorf("%s: %w%s", output.Quote(file.Text), plainly(err), asItWas)
		}
		fmt.Fprintf(s.Out, "%s: %s in %v\n", output.Quote(file.Text), output.Entries(n), output.Since(begin))
		return foundIf(n > 0), nil
	})
}

// export writes the entries of r that fit p, and returns their number.
//
// A scan sees one moment of the store, so the file does too, however long it takes.
func (s *Session) export(ctx context.Context, r shale.Range, p *pattern, to io.Writer, format fileFormat) (n int, err error) {
	out := bufio.NewWriterSize(to, 256<<10)
	w := newRecordWriter(out, format)
	var done atomic.Int64
	s.measure(measure{done: done.Load, format: entries})
	for e, err := range s.entries(ctx, r, p) {
		if err == nil {
			err = w.write(e.Key, e.Value, e.ExpiresAt)
		}
		if err != nil {
			return n, err
		}
		n++
		done.Store(int64(n))
	}
	return n, errors.Join(w.end(), out.Flush())
}
