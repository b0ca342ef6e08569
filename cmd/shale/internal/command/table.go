package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// tablesCommand lists the tables, or reads one. If that is damaged, the status is 1.
//
// The list says what a lookup of a key may have to ask. One table is for somebody who wants to know what is in a
// file: why it is large, which keys it has, whether it is damaged and where.
func tablesCommand() *Command {
	var b bounds
	limit := -1
	c := newCommand("tables [TABLE] [properties|blocks|keys]", Reads, "the tables, with their key ranges, or what is in one", `
Prints a line for each table. TABLE is a level such as L0, for a list of its tables, or the number of one, to look into
it. The newest run of a level is run 0, and comes first. Of one table it prints

- properties, the default: counts, bounds, sequence numbers, filter
- blocks: the data blocks, with their place, sizes, first key and separator. No key of a block is above its
separator.
- keys: the entries with sequence numbers and kinds, including deletions and versions that a newer one hides

To look into a table the command does not open the store, so the store may be damaged, or open in another program.
Status 1 if the table is damaged; then the command shows what is readable.`)
	c.late = true
	c.key(&b.from, "from", "of keys: begin here")
	c.key(&b.to, "to", "of keys: end before this one")
	c.count(&limit, "limit", "of keys: stop after N entries")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		view := ""
		if len(words) > 1 {
			view = words[1].Text
		}
		switch ofKeys := c.has("from") || c.has("to") || c.has("limit"); {
		case !slices.Contains([]string{"", "properties", "blocks", "keys"}, view):
			return Failed, fmt.Errorf("tables: %s is not a view; the views are properties, blocks and keys", output.Quote(view))
		case view != "keys" && ofKeys:
			return Failed, errors.New("tables: --from, --to and --limit are for the keys of one table")
		}
		if len(words) == 0 || isLevel(words[0].Text) {
			if view != "" {
				return Failed, fmt.Errorf("tables: %s is for one table; name it by its number", view)
			}
			if err := s.openLate(c); err != nil {
				return Failed, err
			}
			return s.listTables(words)
		}
		num, err := parseNumber(words[0].Text, base.FileTable, "table")
		if err != nil {
			return Failed, fmt.Errorf("%w; levels are L0 to L%d", err, shale.NumLevels-1)
		}
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		switch view {
		case "blocks":
			return tableBlocks(ctx, s, f, num)
		case "keys":
			return tableKeys(ctx, s, f, num, b, limit)
		}
		return tableProperties(ctx, s, f, num)
	})
}

// isLevel reports whether a word is meant as a level, such as L0.
func isLevel(word string) bool { return strings.HasPrefix(word, "L") }

// listTables prints a line for each table, or for those of the level that the first word names.
func (s *Session) listTables(words []Word) (Status, error) {
	list, err := s.tablesOf(words)
	if err != nil {
		return Failed, err
	}
	g := output.NewGrid("level", ">run", ">table", ">size", ">entries", ">deletions", "keys")
	for _, t := range list {
		g.Row(levelName(t.Level), t.Run, tableName(t.Number), output.SizeCell(t.Size), t.Entries,
			t.Tombstones, output.KeysCell(t.Smallest, t.Largest))
	}
	return foundIf(len(list) > 0), s.Show(g)
}

// tableProperties shows what the footer and the properties of a table say, and the damage that was
// met while they were read.
func tableProperties(ctx context.Context, s *Session, f *folder, num base.FileNum) (Status, error) {
	st := Found
	err := f.withTable(num, func(src vfs.File, size int64) error {
		var damage []error
		o := f.salvageOptions(num)
		o.Lost = func(l sstable.Lost) { damage = append(damage, l.Err) }
		v, err := sstable.Salvage(ctx, src, size, o)
		if err != nil {
			return err
		}
		defer v.Close() // it only reads
		g := output.NewGrid("property", "value")
		g.Row("file", base.TableName(num))
		at := f.place(num)
		g.Row("place", at.String())
		g.Row("size", output.SizeCell(size))
		if p, ok := v.Props(); ok {
			propertyRows(g, &p)
		}
		for _, err := range damage {
			g.Row("damage", plain(err))
			st = Absent
		}
		if at != nil && len(damage) == 0 {
			if err := f.filterRows(g, at); err != nil {
				return err
			}
		}
		return s.Show(g)
	})
	return st, err
}

// propertyRows adds the properties. "Data on disk" is how much the data blocks have of the bytes of
// keys and values: what compression saves, and prefixes that are left out.
func propertyRows(g *output.Grid, p *sstable.Properties) {
	g.Row("entries", p.Entries)
	g.Row("deletions", p.Tombstones)
	g.Row("keys", p.Keys)
	g.Row("smallest key", output.KeyCell(p.Smallest))
	g.Row("largest key", output.KeyCell(p.Largest))
	g.Row("sequence numbers", fmt.Sprintf("%d to %d", p.MinSeq, p.MaxSeq))
	g.Row("keys in all", output.SizeCell(p.RawKeyBytes))
	g.Row("values in all", output.SizeCell(p.RawValueBytes))
	g.Row("data blocks", fmt.Sprintf("%s, %s", output.Number(p.DataBlocks), base.FormatBytes(p.DataBytes)))
	if raw := p.RawKeyBytes + p.RawValueBytes; raw > 0 {
		g.Row("data on disk", fmt.Sprintf("%.0f %% of keys and values", 100*float64(p.DataBytes)/float64(raw)))
	}
	index := "one level"
	if p.Partitions > 0 {
		index = "two levels, " + output.Plural(int(p.Partitions), "partition")
	}
	g.Row("index", index)
}

// filterRows adds rows about the filter that lookups ask.
//
// The filter may lie in a file next to the table, which then counts instead of the one inside.
func (f *folder) filterRows(g *output.Grid, p *place) error {
	r, release, err := f.reader(p.table)
	if err != nil {
		return err
	}
	defer release()
	if err := errors.Join(r.SidecarErr(), r.FilterErr()); err != nil {
		g.Row("filter", "of no use: "+plain(err))
	}
	filter, rule := r.PrefixFilter()
	if filter == nil {
		if r.FilterErr() == nil {
			g.Row("filter", "none")
		}
		return nil
	}
	where := "in the table"
	if side := r.Sidecar(); side != nil {
		where = "in " + base.FilterName(side.Num())
	}
	g.Row("filter", fmt.Sprintf("%s, %s, %s", filter.Kind(), filter.Hasher().ID(), where))
	g.Row("filter bits a key", output.FloatCell("%.1f", filter.BitsPerKey()))
	g.Row("filter size", output.SizeCell(filter.SizeBytes()))
	g.Row("predicted FPR", output.PercentCell(filter.FPR()))
	switch {
	case rule.Count > 0:
		g.Row("prefixes", fmt.Sprintf("up to the byte %q, %d times", rule.Delimiter, rule.Count))
	case rule.Length > 0:
		g.Row("prefixes", fmt.Sprintf("the first %s", output.Plural(rule.Length, "byte")))
	}
	return nil
}

// eachPart calls fn for the parts of a table.
//
// Parts come in the order of the file, and each is checked. What a damaged part points to is
// "unknown".
func (f *folder) eachPart(ctx context.Context, num base.FileNum, fn func(p sstable.Part) error) error {
	return f.withTable(num, func(src vfs.File, size int64) error {
		return sstable.Parts(ctx, src, size, f.salvageOptions(num), fn)
	})
}

// state says whether a part is undamaged, and if not, what is wrong.
//
// Only the place and the cause of damage are shown: the file is known.
func state(p *sstable.Part) string {
	var c *base.CorruptionError
	switch {
	case errors.As(p.Err, &c):
		return fmt.Sprintf("DAMAGED at %d: %v", c.Offset, c.Err)
	case p.Err != nil:
		return plain(p.Err)
	case p.Name == "unknown":
		return "not read: what names it is damaged"
	}
	return "checked"
}

// tableBlocks shows the data blocks. Offset and bytes are those in the file, raw is the size
// without compression.
//
// For example:
//
//	block  offset  bytes  raw  compression  entries  first key  separator  state
//	0       0     45   40  none               2  apple      pear       checked
//
// A separator is a key that is not below the block's last key and below the first key of the next
// one: what the index has instead of keys.
func tableBlocks(ctx context.Context, s *Session, f *folder, num base.FileNum) (Status, error) {
	g := output.NewGrid(">block", ">offset", ">bytes", ">raw", "compression", ">entries", "first key", "separator", "state")
	st := Found
	n := 0
	err := f.eachPart(ctx, num, func(p sstable.Part) error {
		if p.Kind != sstable.BlockData {
			return nil
		}
		if p.Err != nil {
			st = Absent
		}
		g.Row(n, p.Offset, p.Bytes, p.Raw, p.Compression.String(), p.Entries,
			keyOrDash(p.First), keyOrDash(p.Separator), state(&p))
		n++
		return nil
	})
	if err != nil {
		return Failed, err
	}
	return st, s.Show(g)
}

// keyOrDash returns a cell with a key, or with none for a block that can't be read.
func keyOrDash(k *base.InternalKey) output.Cell {
	if k == nil {
		return output.NoCell("-")
	}
	return output.KeyCell(k.UserKey)
}

// tableKeys shows the entries. In a damaged table these are the entries of undamaged blocks.
//
// Versions of one key come one after the other, the newest first. All are shown, since somebody who
// looks into a table wants to see what a get hides.
func tableKeys(ctx context.Context, s *Session, f *folder, num base.FileNum, b bounds, limit int) (Status, error) {
	st := Found
	err := f.withTable(num, func(src vfs.File, size int64) error {
		o := f.salvageOptions(num)
		o.Lost = func(l sstable.Lost) {
			st = Absent
			fmt.Fprintf(s.Notes, "shale: %s\n", plain(l.Err))
		}
		g := output.NewGrid("key", ">seq", "kind", ">value")
		it, err := startAt(ctx, src, size, o, b.from)
		if err != nil {
			return err
		}
		defer it.Close() // it only reads
		to := b.to
		for kv := it.first(); kv != nil && limit != 0; kv = it.Next() {
			if to != nil && string(kv.UserKey) >= string(to) {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			g.Row(output.ByteCell(bytes.Clone(kv.UserKey)), output.NumberCell(kv.Seq()), kindName(kv.Kind()), valueSize(kv.Kind(), valueLen(kv.Kind(), kv.Value)))
			limit--
		}
		if err := it.Err(); err != nil {
			return err
		}
		return s.Show(g)
	})
	return st, err
}

// kindName returns the kind of an entry in the words of the commands.
func kindName(k base.Kind) string {
	if k == base.KindExpiring {
		return "put, expires"
	}
	return shale.OpKind(k).String()
}

// A tableEntries is an iterator over a table. It begins at the first entry at or after from.
//
// It hides which of the two ways to read a table is used.
type tableEntries struct {
	base.Iterator
	from []byte
}

// startAt opens a table for reading from the key from. It uses the index if the table is
// undamaged. Otherwise it finds the undamaged blocks by their checksums.
func startAt(ctx context.Context, src vfs.File, size int64, o sstable.SalvageOptions, from []byte) (tableEntries, error) {
	// Without a key to begin at, the index has no use, and all blocks are read anyway.
	if from != nil && size > 0 {
		r, err := sstable.Open(src, sstable.ReaderOptions{Num: o.Num, StoreID: o.StoreID, Size: size, Checksum: o.Checksum, NoFilter: true})
		if err == nil {
			return tableEntries{r.NewIterator(nil), from}, nil
		}
	}
	v, err := sstable.Salvage(ctx, src, size, o)
	return tableEntries{v, from}, err
}

// first returns the first entry at or after from. A table that is whole has an index for that; in a
// damaged one the entries before are passed over.
func (e tableEntries) first() *base.KV {
	if i, ok := e.Iterator.(*sstable.Iterator); ok {
		return i.SeekGE(e.from, base.MaxSeq)
	}
	kv := e.First()
	for ; kv != nil && string(kv.UserKey) < string(e.from); kv = e.Next() {
	}
	return kv
}
