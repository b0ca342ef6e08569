package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportFile writes entries to a file, in a format that import reads.
func exportFile(ctx context.Context, s *session, a arguments) (status, error) {
	last := len(a.words) - 1
	file := a.words[last]
	a.words = a.words[:last]
	format, err := formatOfFile(a, file.text, formatTSV)
	if err != nil {
		return failed, err
	}
	begin := time.Now()
	write := func(w io.Writer) (int, error) { return s.export(ctx, a, w, format) }
	if file.text == "-" && !file.literal {
		n, err := write(s.out)
		return foundIf(n > 0), err
	}
	if _, err := os.Stat(filepath.Dir(file.text)); err != nil {
		return failed, fmt.Errorf("%s: %w", quote(file.text), err)
	}
	if _, err := outfile.Path(file.text); err != nil {
		return failed, err
	}
	asItWas := ""
	if info, err := os.Stat(file.text); err != nil || info.Mode().IsRegular() {
		asItWas = "; the file is as it was"
	}
	n, err := outfile.Replace(vfs.Default, file.text, write)
	if err != nil {
		return failed, fmt.Errorf("%s: %w%s", quote(file.text), plainly(err), asItWas)
	}
	fmt.Fprintf(s.out, "%s: %s in %v\n", quote(file.text), entries(n), since(begin))
	return foundIf(n > 0), nil
}

// export writes the entries that a asks for, and returns their number.
func (s *session) export(ctx context.Context, a arguments, to io.Writer, format fileFormat) (n int, err error) {
	out := bufio.NewWriterSize(to, 256<<10)
	w := newRecordWriter(out, format)
	p := s.newProgress(nil, 0)
	defer p.clear()
	for e, err := range s.db.Scan(a.bounds()) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.write(e.Key, e.Value)
		}
		if err != nil {
			return n, err
		}
		if n++; n%importBatch == 0 && to != s.out {
			p.show(n, "entries")
		}
	}
	return n, errors.Join(w.end(), out.Flush())
}
