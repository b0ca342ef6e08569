package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportFilters writes the filters of the store that the first of two words
// names, or of the session's, into the file that the last one names.
func exportFilters(ctx context.Context, s *session, a arguments) (status, error) {
	last := len(a.words) - 1
	file := a.words[last].text
	if _, err := outfile.Path(file); err != nil {
		return failed, err
	}
	db, release, err := s.storeFor(a.words[:last])
	if err != nil {
		return failed, err
	}
	info, err := outfile.Replace(vfs.Default, file, func(w io.Writer) (shale.ExportInfo, error) { return db.ExportFilters(ctx, w) })
	if err = errors.Join(err, release()); err != nil {
		return failed, err
	}
	fmt.Fprintf(s.remarks(), "%s: %s of %s in %s, %s, as of sequence number %d\n", quote(file), base.FormatBytes(info.Bytes),
		plural(info.Tables, "table"), plural(info.Runs, "run"), plural(int(info.Keys), "key"), info.Seq)
	if info.NoFilter > 0 {
		fmt.Fprintf(s.remarks(), "%s without a filter: maybe for every key between the first and the last of each\n", plural(info.NoFilter, "table"))
	}
	return found, nil
}

// storeFor returns the store that words name, opened read-only, or the
// session's; and what to call when it is not needed any more.
func (s *session) storeFor(words []word) (*shale.DB, func() error, error) {
	if len(words) == 0 {
		err := s.open(&command{name: "filters export", access: reads})
		return s.db, func() error { return nil }, err
	}
	dir := words[0].text
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true, OnEvent: s.onEvent})
	if err != nil {
		return nil, nil, openError(dir, err)
	}
	return db, db.Close, nil
}

// mayFilters asks the bundle that the first word names for the others.
func mayFilters(ctx context.Context, s *session, a arguments) (status, error) {
	b, err := readBundle(vfs.Default, a.words[0].text)
	if err != nil {
		return failed, err
	}
	if err := b.Err(); err != nil {
		fmt.Fprintf(s.notes, "shale: %s\n", message(err))
	}
	a.words = a.words[1:]
	return s.ask(ctx, a, "maybe", func(key []byte) (bool, error) { return b.MayContain(key), nil })
}

func readBundle(fs vfs.FS, name string) (*bundle.Bundle, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b, err := bundle.Read(io.NewSectionReader(f, 0, size), size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(name), err)
	}
	return b, nil
}
