package command

import (
	"context"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// exportFiltersCommand writes the filters of the store into one file, a bundle (package bundle). It
// looks at the name of the file before it opens the store, because a bundle never replaces a file of a
// store.
func exportFiltersCommand() *Command {
	c := newCommand("filters export FILE", Reads, "write all filters into one file, which answers without the store", `
Writes a bundle of the filters of the store, as it is at this moment. The bundle answers maybe
to every key that the store has. The file is replaced as a whole. has --bundle asks a bundle, a program asks
it with package bundle, and go run ./examples/filterserver serves it. The store may be open in another program.`)
	c.late = true
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		file := words[0].Text
		if _, err := outfile.Path(file); err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		// The bundle is written under another name and renamed, so programs that have the old one
		// open keep it, and those that open the name get a whole one.
		info, err := outfile.Replace(vfs.Default, file, func(w io.Writer) (shale.ExportInfo, error) { return s.DB.Inspect().ExportFilters(ctx, w) })
		if err != nil {
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
