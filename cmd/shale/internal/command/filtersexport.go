package command

import (
	"context"
	"errors"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportFiltersCommand writes the filters of the store that the first of two words
// names, or of the session's, into the file that the last one names.
func exportFiltersCommand() *Command {
	c := newCommand("filters export [DIR] FILE", needsNothing, "write all filters into one file, which answers without the store", `
Writes a bundle of the filters of the store in DIR or of -C, as it is at this moment. The bundle answers maybe
to every key that the store has. The file is replaced as a whole. has --bundle asks a bundle, a program asks
it with package bundle, and go run ./examples/filterserver serves it. The store may be open in another program.`)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		last := len(words) - 1
		file := words[last].Text
		if _, err := outfile.Path(file); err != nil {
			return Failed, err
		}
		db, release, err := s.storeFor(c, words[:last])
		if err != nil {
			return Failed, err
		}
		info, err := outfile.Replace(vfs.Default, file, func(w io.Writer) (shale.ExportInfo, error) { return db.ExportFilters(ctx, w) })
		if err = errors.Join(err, release()); err != nil {
			return Failed, err
		}
		s.remark("%s: %s of %s in %s, %s, as of sequence number %d\n", output.Quote(file), base.FormatBytes(info.Bytes),
			output.Plural(info.Tables, "table"), output.Plural(info.Runs, "run"), output.Plural(int(info.Keys), "key"), info.Seq)
		if info.NoFilter > 0 {
			s.remark("%s without a filter: maybe for every key between the first and the last of each\n", output.Plural(info.NoFilter, "table"))
		}
		return Found, nil
	})
}

// storeFor returns the store that words name, opened read-only. If they name none, it returns
// the store of the session. The caller must call the function that it returns when it does
// not need the store any more.
func (s *Session) storeFor(c *Command, words []Word) (*shale.DB, func() error, error) {
	if len(words) == 0 {
		err := s.OpenFor(c.Title, Reads)
		return s.DB, func() error { return nil }, err
	}
	dir := words[0].Text
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true, MustExist: true, OnEvent: s.onEvent})
	if err != nil {
		return nil, nil, openError(dir, err)
	}
	return db, db.Close, nil
}
