package command

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// A spaceRow is the sum over files with the same purpose.
type spaceRow struct {
	what           string
	files          int
	bytes, filters int64 // filters are in bytes
	entries        uint64
}

// spaceCommand shows what the bytes of the folder are used for.
func spaceCommand() *Command {
	c := newCommand("space", needsNothing, "where the bytes are: in levels, in logs, in files that are not needed", `
Prints how many files there are for each purpose, and their sizes. Write amplification is counted since the
manifest in force began. metrics has the space amplification.`)
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		rest, err := f.otherSpace()
		if err != nil {
			return Failed, err
		}
		rows := append(f.levelSpace(), rest...)
		total := spaceRow{what: "in all"}
		for _, r := range rows {
			total.files += r.files
			total.bytes += r.bytes
			total.filters += r.filters
			total.entries += r.entries
		}
		g := output.NewGrid("what", ">files", ">size", ">share", ">filters in it", ">entries")
		for _, r := range append(rows, total) {
			share, filters, entries := output.NoCell("-"), output.NoCell("-"), output.NoCell("-")
			if total.bytes > 0 {
				p := float64(r.bytes) / float64(total.bytes)
				share = output.Cell{Text: fmt.Sprintf("%.1f %%", 100*p), Raw: p}
			}
			if r.entries > 0 {
				filters, entries = output.SizeCell(r.filters), output.NumberCell(r.entries)
			}
			g.Row(r.what, r.files, output.SizeCell(r.bytes), share, filters, entries)
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		return Found, s.written(ctx, f)
	})
}

// levelSpace sums up the tables of each level.
func (f *folder) levelSpace() (rows []spaceRow) {
	for _, p := range f.places() {
		if len(rows) == 0 || rows[len(rows)-1].what != levelName(p.level) {
			rows = append(rows, spaceRow{what: levelName(p.level)})
		}
		r := &rows[len(rows)-1]
		r.files++
		r.bytes += p.table.Size
		r.entries += p.table.Entries
		if p.table.Sidecar == nil { // otherwise the filter in the table is not used, but the sidecar
			r.filters += p.table.FilterBytes
		}
	}
	return rows
}

// written prints how often each flushed byte was written.
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

// otherSpace sums up the files that are in no level.
func (f *folder) otherSpace() ([]spaceRow, error) {
	named := map[string]bool{}
	for _, p := range f.places() {
		named[base.TableName(p.table.Num)] = true
		if side := p.table.Sidecar; side != nil {
			named[base.FilterName(side.Num)] = true
		}
	}
	const (
		logs = iota
		oldLogs
		besides
		manifests
		obsolete
		others
		kinds
	)
	rows := make([]spaceRow, kinds)
	for i, what := range []string{"logs", "logs not needed", "filters next to tables", "manifest", "obsolete", "not shale's"} {
		rows[i].what = what
	}
	for _, name := range f.names {
		typ, num, ours := base.ParseFileName(name)
		row := &rows[others]
		switch {
		case typ == base.FileLock && ours:
			continue // LOCK is as long as a process id has digits
		case !ours:
		case named[name] && typ == base.FileTable:
			continue // counted in its level
		case named[name]:
			row = &rows[besides]
		case typ == base.FileLog && f.sal.State != nil && num < f.sal.State.MinLog:
			row = &rows[oldLogs]
		case typ == base.FileLog:
			row = &rows[logs]
		case typ == base.FileCurrent, typ == base.FileManifest && f.sal.State != nil && num == f.sal.State.ManifestNum:
			row = &rows[manifests]
		default:
			row = &rows[obsolete]
		}
		size, err := f.size(name)
		if err != nil {
			return nil, err
		}
		row.files++
		row.bytes += size
	}
	var some []spaceRow
	for _, r := range rows {
		if r.files > 0 {
			some = append(some, r)
		}
	}
	return some, nil
}
