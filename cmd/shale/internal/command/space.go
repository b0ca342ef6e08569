package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// spacePurposes are what files are for, in the order in which space lists them.
var spacePurposes = []string{
	"tables", "filters next to tables", "logs", "logs not needed", "manifest", "obsolete", "not shale's", "in all",
}

// spaceCommand shows what the bytes of the folder are used for.
//
// It looks at the folder and not into the store, so it also counts what the store would never
// mention: files that a crash has left, and files of others.
//
// For example:
//
//	what      files     size    share
//	tables        1  1.2 MiB   99.7 %
//	logs          1  4.0 KiB    0.3 %
//	manifest      2    385 B    0.0 %
//	in all        4  1.3 MiB  100.0 %
func spaceCommand() *Command {
	var b bounds
	c := newCommand("space [PREFIX]", Reads, "where the bytes are: in tables, logs and other files, or in a part of the keys", `
Prints how many files there are for each purpose, and their sizes. levels says which levels the tables are in,
and metrics has the space amplification. Write amplification is counted since the manifest in force began.

With PREFIX, --from or --to it prints about how many entries of each level lie there, and how much room they take on
disk: from the indexes of the tables, and so at once for any number of keys. Where a table has only a few of them, they
are read and counted. What is in memtables is not in it. count has the exact number of keys, and scan --largest the
largest values.`)
	c.keys, c.late = 1, true
	b.options(c)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if len(words) > 0 || b.from != nil || b.to != nil {
			if err := s.openLate(c); err != nil {
				return Failed, err
			}
			return Found, s.showPart(ctx, b.of(words))
		}
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		files, bytes := map[string]int{}, map[string]int64{}
		purpose := f.purposes()
		for _, name := range f.names {
			if typ, _, ours := base.ParseFileName(name); ours && typ == base.FileLock {
				continue // LOCK is as long as a process id has digits
			}
			size, err := f.size(name)
			if err != nil {
				return Failed, err
			}
			for _, what := range []string{purpose(name), "in all"} {
				files[what]++
				bytes[what] += size
			}
		}
		g := output.NewGrid("what", ">files", ">size", ">share")
		for _, what := range spacePurposes {
			if files[what] == 0 {
				continue
			}
			g.Row(what, files[what], output.SizeCell(bytes[what]), shareCell(float64(bytes[what]), float64(bytes["in all"])))
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		return Found, s.written(ctx, f)
	})
}

// A portion is how much of a level, or of all levels, lies in a range of keys. whole is the size of the level.
type portion struct{ entries, size, whole float64 }

// showPart prints about how much of each level lies in the range of keys r.
//
// For example:
//
//	level   entries     size  share
//	L6        1,000  24.1 KiB  2.0 %
//	in all    1,000  24.1 KiB  2.0 %
func (s *Session) showPart(ctx context.Context, r shale.Range) error {
	f, err := s.lookInto()
	if err != nil {
		return err
	}
	var levels [shale.NumLevels]portion
	var all portion
	for _, t := range s.DB.Inspect().Tables() {
		entries, size, err := f.portionOf(ctx, &t, r)
		if err != nil {
			return err
		}
		for _, p := range []*portion{&levels[t.Level], &all} {
			p.entries += entries
			p.size += size
			p.whole += float64(t.Size)
		}
	}
	g := output.NewGrid("level", ">entries", ">size", ">share")
	row := func(name string, p portion) {
		g.Row(name, int64(math.Round(p.entries)), output.SizeCell(int64(math.Round(p.size))), shareCell(p.size, p.whole))
	}
	for level, p := range levels {
		if p.whole > 0 {
			row(levelName(level), p)
		}
	}
	row("in all", all)
	if err := s.Show(g); err != nil {
		return err
	}
	if n := s.DB.Metrics().MemtableEntries; n > 0 {
		s.remark("Memtables are not counted; in all they have %s.\n", output.Entries(int(n)))
	}
	return nil
}

// fewEntries is how many entries of a table, by the estimate, are read and counted. They are in a few blocks.
// In a block, the index can't tell how many there are.
const fewEntries = 1000

// portionOf returns about how many entries of table t lie in r, and their bytes in the file.
func (f *folder) portionOf(ctx context.Context, t *shale.TableInfo, r shale.Range) (entries, size float64, err error) {
	if string(t.Largest) < string(r.Lower) || r.Upper != nil && string(t.Smallest) >= string(r.Upper) {
		return 0, 0, nil
	}
	part := 1 - t.Rank(r.Lower)
	if r.Upper != nil {
		part = max(0, t.Rank(r.Upper)-t.Rank(r.Lower))
	}
	entries, size = part*float64(t.Entries), part*float64(t.Size)
	if entries >= fewEntries {
		return entries, size, nil
	}
	err = f.withTable(base.FileNum(t.Number), func(src vfs.File, _ int64) error {
		table, err := sstable.Open(src, sstable.ReaderOptions{Num: base.FileNum(t.Number), StoreID: f.storeID, Size: t.Size, NoFilter: true})
		if err != nil {
			return err
		}
		it := table.NewIterator(nil)
		defer it.Close() // it only reads
		n, bytes := 0, 0
		for kv := it.SeekGE(r.Lower, base.MaxSeq); kv != nil && (r.Upper == nil || string(kv.UserKey) < string(r.Upper)); kv = it.Next() {
			if n++; n > 10*fewEntries { // the index was not in memory, and the estimate far off
				return ctx.Err()
			}
			bytes += len(kv.UserKey) + len(kv.Value)
		}
		p := table.Props()
		entries, size = float64(n), float64(bytes)/float64(max(p.RawKeyBytes+p.RawValueBytes, 1))*float64(t.Size)
		return it.Err()
	})
	if errors.Is(err, fs.ErrNotExist) { // a writer has merged it meanwhile
		err = nil
	}
	return entries, size, err
}

// shareCell returns a cell with a part of a whole, as a percentage.
func shareCell(part, whole float64) output.Cell {
	if whole == 0 {
		return output.NoCell("-")
	}
	return output.Cell{Text: fmt.Sprintf("%.1f %%", 100*part/whole), Raw: part / whole}
}

// purposes returns a function that says what a file is for.
//
// The manifest says which tables and logs are in use. All others of the store's files are obsolete:
// they go when the store is opened for writing the next time.
func (f *folder) purposes() func(name string) string {
	named := map[string]bool{}
	for _, p := range f.places() {
		named[base.TableName(p.table.Num)] = true
		if side := p.table.Sidecar; side != nil {
			named[base.FilterName(side.Num)] = true
		}
	}
	return func(name string) string {
		typ, num, ours := base.ParseFileName(name)
		switch {
		case !ours:
			return "not shale's"
		case named[name] && typ == base.FileTable:
			return "tables"
		case named[name]:
			return "filters next to tables"
		case typ == base.FileLog && f.sal.State != nil && num < f.sal.State.MinLog:
			return "logs not needed"
		case typ == base.FileLog:
			return "logs"
		case typ == base.FileCurrent, typ == base.FileManifest && f.sal.State != nil && num == f.sal.State.ManifestNum:
			return "manifest"
		}
		return "obsolete"
	}
}

// written prints how often each flushed byte was written.
//
// The log is not counted, because each byte is in it once, whatever the tree does.
func (s *Session) written(ctx context.Context, f *folder) error {
	num, err := f.manifestNum(nil)
	if err != nil {
		return nil // it was reported
	}
	w, err := f.written(ctx, num)
	if err == nil && w.flushed > 0 {
		s.remark("since %s began: %s flushed, %s compacted: each byte was written %.2f times, the log not counted\n", base.ManifestName(num),
			base.FormatBytes(w.flushed), base.FormatBytes(w.compacted), float64(w.flushed+w.compacted)/float64(w.flushed))
	}
	return err
}
