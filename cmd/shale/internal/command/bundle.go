package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportFilters writes the filters of the store that the first of two words
// names, or of the session's, into the file that the last one names.
func exportFilters(ctx context.Context, s *Session, a Arguments) (Status, error) {
	last := len(a.Words) - 1
	file := a.Words[last].Text
	if _, err := outfile.Path(file); err != nil {
		return Failed, err
	}
	db, release, err := s.storeFor(a.Words[:last])
	if err != nil {
		return Failed, err
	}
	info, err := outfile.Replace(vfs.Default, file, func(w io.Writer) (shale.ExportInfo, error) { return db.ExportFilters(ctx, w) })
	if err = errors.Join(err, release()); err != nil {
		return Failed, err
	}
	fmt.Fprintf(s.remarks(), "%s: %s of %s in %s, %s, as of sequence number %d\n", output.Quote(file), base.FormatBytes(info.Bytes),
		output.Plural(info.Tables, "table"), output.Plural(info.Runs, "run"), output.Plural(int(info.Keys), "key"), info.Seq)
	if info.NoFilter > 0 {
		fmt.Fprintf(s.remarks(), "%s without a filter: maybe for every key between the first and the last of each\n", output.Plural(info.NoFilter, "table"))
	}
	return Found, nil
}

// storeFor returns the store that words name, opened read-only, or the
// session's; and what to call when it is not needed any more.
func (s *Session) storeFor(words []Word) (*shale.DB, func() error, error) {
	if len(words) == 0 {
		err := s.Open(&Command{Name: "filters export", Access: Reads})
		return s.DB, func() error { return nil }, err
	}
	dir := words[0].Text
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true, OnEvent: s.onEvent})
	if err != nil {
		return nil, nil, openError(dir, err)
	}
	return db, db.Close, nil
}

// mayFilters asks the bundle that the first word names for the others.
func mayFilters(ctx context.Context, s *Session, a Arguments) (Status, error) {
	b, err := readBundle(vfs.Default, a.Words[0].Text)
	if err != nil {
		return Failed, err
	}
	if err := b.Err(); err != nil {
		fmt.Fprintf(s.Notes, "shale: %s\n", message(err))
	}
	a.Words = a.Words[1:]
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
		return nil, fmt.Errorf("%s: %w", output.Quote(name), err)
	}
	return b, nil
}
