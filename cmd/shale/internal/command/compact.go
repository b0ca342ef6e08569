package command

import (
	"context"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// flushCommand is for tests and for looking at tables: the store flushes by itself.
func flushCommand() *Command {
	c := newCommand("flush", writes, "write the memtables to tables", "Writes the entries that are only in memtables and logs to tables.")
	c.txn = neverIn
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		begin := time.Now()
		if err := s.DB.Flush(ctx); err != nil {
			return Failed, err
		}
		s.Say("flushed in %v", output.Since(begin))
		return Found, nil
	})
}

// compactCommand is for after large deletions, and before a store is copied or only read. The store
// needs room for the new tables before the old ones go.
func compactCommand() *Command {
	var b bounds
	c := newCommand("compact [PREFIX]", writes, "merge tables down to the last level", `
Merges all tables, or those that overlap the given keys, down to the last level. That frees the space of deleted
and overwritten entries.`)
	c.keys, c.txn = 1, neverIn
	b.options(c)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		begin, before, m := time.Now(), tableBytes(s.DB), s.DB.Metrics()
		all := m.LiveBytes + m.MemtableBytes
		if len(words) > 0 || b.from != nil || b.to != nil {
			all = 0 // it is not known how much of the store lies there
		}
		s.measureTables(s.Dir, all)
		if err := s.DB.Compact(ctx, b.of(words)); err != nil {
			return Failed, err
		}
		s.Say("%s of tables became %s in %v", base.FormatBytes(before), base.FormatBytes(tableBytes(s.DB)), output.Since(begin))
		return Found, nil
	})
}

// tableBytes returns the size of all tables.
func tableBytes(db *shale.DB) (n int64) {
	for _, l := range db.Metrics().Levels {
		n += l.Bytes
	}
	return n
}
