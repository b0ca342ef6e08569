package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
)

// checkpointCommand needs the store for writing, since no compaction may remove a table while it is
// linked. If another program has the store, OpenFor says so in words of its own.
func checkpointCommand() *Command {
	c := newCommand("checkpoint TO", writes, "make a copy of the store in a new folder, by hard links", `
The copy is a complete store. Where the file system has hard links, it takes little time and hardly any space. If
another program has the store open for writing, only that program can make a checkpoint.`)
	c.txn = neverIn
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		dir := words[0].Text
		if dir == "" {
			return Failed, errors.New("name a folder for the checkpoint")
		}
		if err := outfile.Folder(dir); err != nil {
			return Failed, err
		}
		s.measureTables(dir, s.sizeOf(s.Dir, func(typ base.FileType, _ base.FileNum) bool {
			return typ == base.FileTable || typ == base.FileFilter
		}))
		// Checkpoint removes what it has begun if it fails, so the folder is complete or absent.
		err := s.DB.Checkpoint(dir)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s exists already; name a new folder", output.Quote(dir))
		}
		return Found, err
	})
}
