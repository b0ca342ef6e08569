package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A spaceRow is the sum over files with the same purpose.
type spaceRow struct {
	what           string
	files          int
	bytes, filters int64 // filters are in bytes
	entries        uint64
	dead           float64 // share of entries that no reader can see; -1: not estimated
}

// spaceCommand shows what the bytes of the folder are used for.
func spaceCommand() *Command {
	c := New("space", NeedsNothing, "where the bytes are: in levels, in logs, in dead entries", `
Prints how many files there are for each purpose, and their sizes. The share of dead entries is an estimate: the
command looks up the keys of some blocks of each table in the filters of newer tables. Write amplification is
counted since the manifest in force began.`)
	return c.Does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		var f *folder
		var rows []spaceRow
		var damage []error
		err := s.settled(func(now *folder) (err error) {
			f = now
			rows, damage, err = f.levelSpace(ctx)
			return err
		})
		if err != nil {
			return Failed, err
		}
		tables, dead := int64(0), 0.0
		for _, r := range rows {
			tables += r.bytes
			dead += float64(r.bytes) * max(r.dead, 0)
		}
		rest, err := f.otherSpace()
		if err != nil {
			return Failed, err
		}
		rows = append(rows, rest...)
		total := spaceRow{what: "in all", dead: -1}
		for _, r := range rows {
			total.files += r.files
			total.bytes += r.bytes
			total.filters += r.filters
			total.entries += r.entries
		}
		g := output.NewGrid("what", ">files", ">size", ">share", ">filters in it", ">entries", ">dead")
		for _, r := range append(rows, total) {
			share, filters, entries, gone := output.NoCell("-"), output.NoCell("-"), output.NoCell("-"), output.NoCell("-")
			if total.bytes > 0 {
				p := float64(r.bytes) / float64(total.bytes)
				share = output.Cell{Text: fmt.Sprintf("%.1f %%", 100*p), Raw: p}
			}
			if r.entries > 0 {
				filters, entries = output.SizeCell(r.filters), output.NumberCell(r.entries)
			}
			if r.dead >= 0 {
				gone = output.Cell{Text: fmt.Sprintf("%.0f %%", 100*r.dead), Raw: r.dead}
			}
			g.Row(r.what, r.files, output.SizeCell(r.bytes), share, filters, entries, gone)
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		if tables > 0 {
			s.remark("tables: about %s live, %s dead; space amplification %.2f\n", base.FormatBytes(tables-int64(dead)), base.FormatBytes(int64(dead)),
				float64(tables)/max(float64(tables)-dead, 1))
		}
		for _, err := range damage {
			s.note("shale: %s", plain(err))
		}
		return foundIf(len(damage) == 0), s.written(ctx, f)
	})
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
		rows[i] = spaceRow{what: what, dead: -1}
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

// sampled is the number of blocks that are read for the estimate, over all tables.
const sampled = 1000

// levelSpace sums up the tables of each level. An entry is dead if it is a deletion, if its
// table has a newer version, or if the filter of a newer table says maybe. The false positive
// rate of that filter corrects for its mistakes.
func (f *folder) levelSpace(ctx context.Context) (rows []spaceRow, damage []error, err error) {
	places := f.places()
	filters := make([]*bloom.Static, len(places)) // their files are closed, because they may be many
	missing := make([]bool, len(places))
	for i, p := range places {
		r, release, err := f.reader(p.table)
		switch {
		case err == nil:
			filters[i] = r.Filter()
			release()
		case errors.Is(err, fs.ErrNotExist):
			missing[i] = true
			err := f.missing(base.TableName(p.table.Num))
			if !isDamage(err) {
				return nil, nil, err
			}
			damage = append(damage, err)
		case isDamage(err):
			damage = append(damage, err)
		default:
			return nil, nil, err
		}
	}
	for i, p := range places {
		if len(rows) == 0 || rows[len(rows)-1].what != levelName(p.level) {
			rows = append(rows, spaceRow{what: levelName(p.level)})
		}
		if missing[i] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		share, err := f.deadShare(places, filters, i)
		if err != nil && !isDamage(err) && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		rows[len(rows)-1].add(p.table, share)
	}
	return rows, damage, nil
}

// add adds a table to r. dead is the share of its entries that are dead.
func (r *spaceRow) add(t *manifest.Table, dead float64) {
	r.dead = (r.dead*float64(r.bytes) + dead*float64(t.Size)) / float64(r.bytes+t.Size)
	r.files++
	r.bytes += t.Size
	r.entries += t.Entries
	if t.Sidecar == nil { // otherwise the filter in the table is not used, but the sidecar
		r.filters += t.FilterBytes
	}
}

// deadShare estimates the share of dead entries of table i.
func (f *folder) deadShare(places []place, filters []*bloom.Static, i int) (share float64, err error) {
	r, release, err := f.reader(places[i].table)
	if err != nil {
		return 0, err
	}
	defer release()
	newer := newerTables(places, filters, i)
	dead, all := 0.0, 0
	var last []byte
	err = r.Sample(max(sampled/len(places), 2), func(kv *base.KV, first bool) error {
		all++
		switch {
		case kv.Kind() == base.KindDelete, !first && bytes.Equal(kv.UserKey, last):
			dead++
		default:
			dead += shadowed(newer, kv.UserKey)
		}
		last = append(last[:0], kv.UserKey...)
		return nil
	})
	if all == 0 {
		return 0, err
	}
	return min(max(dead/float64(all), 0), 1), err
}

// A shadow is a newer table that may have the same keys.
type shadow struct {
	table  *manifest.Table
	filter *bloom.Static
}

// newerTables returns the tables of newer runs that overlap table i.
func newerTables(places []place, filters []*bloom.Static, i int) (list []shadow) {
	t := places[i].table
	for j, p := range places[:i] {
		same := p.level == places[i].level && p.run == places[i].run
		if filters[j] != nil && !same &&
			bytes.Compare(p.table.Smallest, t.Largest) <= 0 && bytes.Compare(t.Smallest, p.table.Largest) <= 0 {
			list = append(list, shadow{p.table, filters[j]})
		}
	}
	return list
}

// shadowed estimates the probability that a newer table has key. The result may be below 0. It
// is correct on average.
func shadowed(newer []shadow, key []byte) float64 {
	alive := 1.0
	for _, s := range newer {
		p := s.filter.FPR()
		switch {
		case bytes.Compare(key, s.table.Smallest) < 0, bytes.Compare(key, s.table.Largest) > 0, p >= 1:
		case s.filter.MayContainHash(s.filter.Hasher().Hash(key)):
			return 1
		default: // a no outweighs the mistakes among the answers maybe
			alive /= 1 - p
		}
	}
	return 1 - alive
}
