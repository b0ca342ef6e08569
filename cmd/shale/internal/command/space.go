package command

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
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
	c := newCommand("space", needsNothing, "where the bytes are: in tables, in logs, in files that are not needed", `
Prints how many files there are for each purpose, and their sizes. levels says which levels the tables are in,
and metrics has the space amplification. Write amplification is counted since the manifest in force began.`)
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
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
			share := output.NoCell("-")
			if bytes["in all"] > 0 {
				p := float64(bytes[what]) / float64(bytes["in all"])
				share = output.Cell{Text: fmt.Sprintf("%.1f %%", 100*p), Raw: p}
			}
			g.Row(what, files[what], output.SizeCell(bytes[what]), share)
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		return Found, s.written(ctx, f)
	})
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
