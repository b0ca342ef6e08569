package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// rebuildCommand opens the store with the options for filters that it was given, because a store
// rebuilds those filters that differ from what its own options ask for.
//
// Only filters change. The data blocks of the tables stay as they are, so it takes one read of the
// keys.
func rebuildCommand() *Command {
	var opts shale.Options
	c := newCommand("filters rebuild", needsNothing, "give tables the filters that the options ask for", `
Makes new filters for tables whose filters are missing or damaged, have another kind or hash function, or have
fewer bits a key than the options ask for. It puts them into files next to the tables, and writes no data
again. Programs that open the store later use these filters, whatever their own options are. New tables of
those programs get filters according to their own options.`)
	c.txn = neverIn // it closes the store
	filterOptions(c.Flags(), c, &opts)
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		o := s.layout
		if c.has("bits") {
			o.FilterBits = opts.FilterBits
		}
		if c.has("kind") {
			o.Tuning.LastLevelFilter = opts.Tuning.LastLevelFilter
		}
		if c.has("hash") {
			o.Tuning.FilterHash = opts.Tuning.FilterHash
		}
		db, err := s.openOwn(c, &o)
		if err != nil {
			return Failed, err
		}
		// Tables that were done before an interruption keep their new filters.
		s.measureTables(s.Dir, 0)
		r, err := db.Inspect().RebuildFilters(ctx)
		err = errors.Join(err, db.Close())
		if r.Tables > 0 {
			s.remark("%d of %s got new filters: %s in files, filters %s before, %s now\n", r.Rebuilt, output.Plural(r.Tables, "table"),
				base.FormatBytes(r.BytesWritten), base.FormatBytes(r.FilterBytesBefore), base.FormatBytes(r.FilterBytesAfter))
		}
		return Found, err
	})
}

// openOwn opens the store for writing by c with these options. If the session has it open with others, its
// next command opens the store again.
func (s *Session) openOwn(c *Command, o *shale.Options) (*shale.DB, error) {
	switch {
	case s.Dir == "":
		return nil, ErrNoDir
	case s.readOnly:
		return nil, fmt.Errorf("%s writes, and --readonly was given", c.Title)
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	o.FS, o.Exist, o.OnEvent = s.fs, shale.MustExist, s.onEvent
	db, err := shale.Open(s.Dir, o)
	if err != nil {
		return nil, openError(s.Dir, err)
	}
	return db, nil
}
