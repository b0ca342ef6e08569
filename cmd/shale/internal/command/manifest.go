package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A step is one change of the store. It is the edit of one record, or the snapshot with which a
// manifest begins, which may have several records.
//
// The offset is the place in the file, for somebody who looks at it with a hex editor.
type step struct {
	offset int64 // of the step's first record
	first  bool  // the step is the snapshot
	*manifest.Edit
}

// what returns the name of the step's kind.
//
// An edit does not say why it was made. Its parts tell: a flush adds tables and moves the first log
// that is needed, a compaction adds and removes, and a move removes and adds the same tables.
func (e *step) what() string {
	switch {
	case e.first:
		return "snapshot"
	case len(e.Added) > 0 && len(e.Removed) > 0 && e.moves():
		return "move"
	case len(e.Added) > 0 && len(e.Removed) > 0, len(e.Removed) > 0:
		return "compaction"
	case (len(e.Added) > 0 || !e.Spans.Empty()) && e.MinLog > 0:
		return "flush"
	case len(e.Added) > 0:
		return "tables"
	case len(e.Sidecars) > 0:
		return "filters"
	case len(e.Finished) > 0:
		return "deletes done"
	case e.MinLog > 0:
		return "logs done"
	case e.NewLog > 0 || e.SealedLog != nil:
		return "log"
	}
	return "numbers"
}

// moves reports whether all added tables were there before, in another place.
//
// A move is a compaction that found nothing to merge: tables go down a level as they are.
func (e *step) moves() bool {
	there := map[base.FileNum]bool{}
	for _, r := range e.Removed {
		there[r.Num] = true
	}
	for _, a := range e.Added {
		if !there[a.Table.Num] {
			return false
		}
	}
	return true
}

// history calls fn for the steps of a manifest. It ends at the first damage with a
// *base.CorruptionError.
//
// The snapshot at the beginning has a record for each part of the tree, and is one step here:
// somebody who reads the list wants to see what happened, not how it is stored.
func (f *folder) history(num base.FileNum, fn func(e step) error) error {
	first := &manifest.Edit{}
	begun, done := int64(-1), false
	sum, err := manifest.ReadEdits(f, f.dir, num, func(offset int64, e *manifest.Edit) error {
		// Only the first record of a snapshot has this counter, and every record after the
		// snapshot has it.
		if !done && (begun < 0 || e.NextFileNum == 0) {
			if begun < 0 {
				begun, *first = offset, *e
			} else {
				first.Added = append(first.Added, e.Added...)
				first.Spans = first.Spans.Union(e.Spans)
			}
			return nil
		}
		if !done {
			done = true
			if err := fn(step{begun, true, first}); err != nil {
				return err
			}
		}
		return fn(step{offset, false, e})
	})
	if !done && begun >= 0 {
		if err := fn(step{begun, true, first}); err != nil {
			return err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &sentence{fmt.Sprintf("there is no manifest %s; without a number it is the one in force", base.ManifestName(num)), fs.ErrNotExist}
	}
	if err == nil && sum.Torn {
		return &tornManifest{base.ManifestName(num), sum.Length}
	}
	return err
}

// A tableWrites counts what was written into tables.
//
// Their sum divided by flushed is the write amplification, without the log.
type tableWrites struct {
	flushed, compacted   int64 // in bytes
	flushes, compactions int
}

// written sums up what was written since a manifest began, as far as the manifest can be read.
func (f *folder) written(ctx context.Context, num base.FileNum) (w tableWrites, err error) {
	err = f.history(num, func(e step) error {
		switch e.what() {
		case "flush", "tables":
			w.flushes++
			w.flushed += e.added()
		case "compaction":
			w.compactions++
			w.compacted += e.added()
		}
		return ctx.Err()
	})
	if endsHistory(err) {
		err = nil
	}
	return w, err
}

// endsHistory reports whether err is damage of a manifest, whose steps before it can be read.
func endsHistory(err error) bool {
	var torn *tornManifest
	return isDamage(err) || errors.As(err, &torn)
}

// A tornManifest is the error for a torn edit at the end of a manifest.
type tornManifest struct {
	name   string
	length int64
}

// Error says that the end is no damage: an edit that was cut short was never promised to anybody.
func (t *tornManifest) Error() string {
	return fmt.Sprintf("%s: from %d on stands a part of an edit that was cut short, or is under way; it does not count", t.name, t.length)
}

// manifestNum returns the manifest that words name, or the one in force.
//
// Without a manifest in force, as after the loss of CURRENT, it takes the newest one in the folder.
func (f *folder) manifestNum(words []Word) (base.FileNum, error) {
	switch {
	case len(words) > 0:
		return parseNumber(words[0].Text, base.FileManifest, "manifest")
	case f.sal.State != nil:
		return f.sal.State.ManifestNum, nil
	}
	list := f.numbers(base.FileManifest)
	if len(list) == 0 {
		return 0, errors.New("there is no manifest in the folder")
	}
	return list[len(list)-1], nil
}

// manifestCommand shows how the tree became what it is, step by step. Manifests that are not in
// force any more can be shown as long as they are in the folder.
//
// For example, a store that was opened, written to and flushed:
//
//	edit  offset  what      tables              logs                               last seq
//	0      36  snapshot  -                   needed from 000001                        -
//	1      66  log       -                   new 000002                                -
//	2      84  log       -                   new 000003, 000002 sealed at 4166         -
//	3     108  flush     +L0 000004 (436 B)  needed from 000003                        2
func manifestCommand() *Command {
	var last int
	c := newCommand("manifest [NUMBER]", needsNothing, "the changes of the store: flushes, compactions, logs", `
Prints the edits of the manifest in force, or of manifest NUMBER, in order: which tables and range deletes
were removed and added, and which logs began or ended. A manifest begins with a snapshot, so it covers only what happened since
the store was last opened for writing. Status 1 if it is damaged.`)
	c.count(&last, "last", "only the last N edits")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		num, err := f.manifestNum(words)
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid(">edit", ">offset", "what", "tables", "logs", ">last seq")
		g.Last(last)
		n := 0
		err = f.history(num, func(e step) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			seq := output.NoCell("-")
			if e.LastSeq > 0 {
				seq = output.NumberCell(e.LastSeq)
			}
			g.Row(n, e.offset, e.what(), e.moved(), e.logs(), seq)
			n++
			return nil
		})
		st := foundIf(!isDamage(err) && len(f.sal.Damage) == 0)
		var torn *tornManifest
		switch {
		case isDamage(err):
			if len(f.sal.Damage) == 0 { // otherwise the damage was reported already
				s.note("shale: %s", plain(err))
			}
		case errors.As(err, &torn):
			s.note("%v", torn)
		case err != nil:
			return Failed, err
		}
		return st, s.Show(g)
	})
}

// fewTables is the largest number of tables that are named one by one.
const fewTables = 8

// moved returns which tables and range deletes are removed and added: -L0 000004 +L6 000007.
//
// A compaction of a large store has dozens of tables, which would fill the screen: then their
// number is shown.
func (e *step) moved() string {
	var parts []string
	list := func(sign, what string, n int, each func(i int) string, size int64) {
		if n > fewTables {
			parts = append(parts, fmt.Sprintf("%s%d %s", sign, n, what))
		} else {
			for i := range n {
				parts = append(parts, sign+each(i))
			}
		}
		if size > 0 {
			parts = append(parts, "("+base.FormatBytes(size)+")")
		}
	}
	list("-", "tables", len(e.Removed), func(i int) string {
		return levelName(e.Removed[i].Level) + " " + tableName(uint64(e.Removed[i].Num))
	}, 0)
	list("+", "tables", len(e.Added), func(i int) string {
		return levelName(e.Added[i].Level) + " " + tableName(uint64(e.Added[i].Table.Num))
	}, e.added())
	list("filter of ", "tables", len(e.Sidecars), func(i int) string { return tableName(uint64(e.Sidecars[i].Num)) }, 0)
	list("-", "ranges of deletes", len(e.Finished), func(i int) string {
		f := e.Finished[i]
		return fmt.Sprintf("deletes of %s up to %d", output.Range(f.Lower, f.Upper), f.Seq)
	}, 0)
	deletes := slices.Collect(e.Spans.All())
	list("+", "ranges of deletes", len(deletes), func(i int) string {
		d := deletes[i]
		return fmt.Sprintf("delete of %s at %s", output.Range(d.Lower, d.Upper), strings.Trim(fmt.Sprint(slices.Collect(d.Seqs())), "[]"))
	}, 0)
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// added returns the number of bytes of the added tables.
func (e *step) added() (size int64) {
	for _, a := range e.Added {
		size += a.Table.Size
	}
	return size
}

// logs returns which logs begin, end, or are not needed any more.
func (e *step) logs() string {
	var parts []string
	if e.NewLog > 0 {
		parts = append(parts, "new "+tableName(uint64(e.NewLog)))
	}
	if l := e.SealedLog; l != nil {
		parts = append(parts, fmt.Sprintf("%s sealed at %d", tableName(uint64(l.Num)), l.Length))
	}
	if e.MinLog > 0 {
		parts = append(parts, "needed from "+tableName(uint64(e.MinLog)))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
