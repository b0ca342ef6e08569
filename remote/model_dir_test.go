package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// A modelDir is the directory of a writer. It is kept in the bucket of the model, as names that are not shale's, so that
// others can change it meanwhile, and a list of them is a copy of it at one moment: "disk/t" and a number is a table, and
// "disk/n" and a number says that the step was noted.
type modelDir struct{ b Bucket }

// add adds a table.
func (d modelDir) add(num uint64) error { return d.put("t", num) }

// remove removes a table.
func (d modelDir) remove(num uint64) error {
	return d.b.Delete(ctxModel, fmt.Sprintf("%st%016x", diskFolder, num))
}

// note notes that a step is about to be put.
func (d modelDir) note(step uint64) error { return d.put("n", step) }

func (d modelDir) put(kind string, num uint64) error {
	return PutObject(ctxModel, d.b, fmt.Sprintf("%s%s%016x", diskFolder, kind, num), nil, false)
}

// read returns the tables of the directory, and the last step that it has noted.
func (d modelDir) read() (tables map[uint64]bool, noted uint64) {
	tables = make(map[uint64]bool)
	for info, err := range d.b.List(ctxModel, diskFolder, "") {
		if err != nil {
			panic(err)
		}
		var kind byte
		var num uint64
		if _, err := fmt.Sscanf(strings.TrimPrefix(info.Name, diskFolder), "%c%x", &kind, &num); err != nil {
			panic(err)
		}
		if kind == 't' {
			tables[num] = true
		} else {
			noted = max(noted, num)
		}
	}
	return tables, noted
}

// openCopy is what a new process does with a copy of the directory of w, which it makes at some moment: it goes on if the
// newest step is one that the directory has noted, and publishes the tables that no step names.
func (w *modelWriter) openCopy(writer uint64) {
	var noted uint64
	w.local, noted = modelDir{w.b}.read()
	w.dir = false // the copy is in memory
	c, err := chain.Claim(ctxModel, w.b, chain.Claimant{
		StoreID: remotetest.ExampleStore, Writer: writer, Now: modelNow, Tries: 2,
		Note: func(newest *object.Step, epoch uint64) error {
			if newest.Writer != w.writer || newest.N != noted && newest.N+1 != noted {
				return fmt.Errorf("the directory is an older copy: %w", ErrFenced)
			}
			return nil
		},
	})
	if err == nil {
		w.m.believed(c.Step)
		w.m.claims = append(w.m.claims, c.Epoch)
		w.c, w.writer, w.noted = c, writer, c.N()
		if w.take() {
			w.publishLocal()
		}
	} else if !errors.Is(err, ErrFenced) {
		w.m.fail("%s claims again: %w", w.name, err)
	}
}

// publishLocal publishes a step that names the tables of the directory, and no others.
func (w *modelWriter) publishLocal() {
	edit := new(manifest.Edit)
	tables := maps.Clone(w.local)
	last := base.Seq(len(w.records) + 1)
	for t := range w.c.State.Tables.Version.Tables() {
		if !tables[uint64(t.Num)] {
			edit.Removed = append(edit.Removed, manifest.Removed{Level: 1, Num: t.Num})
		}
		delete(tables, uint64(t.Num))
	}
	for _, num := range slices.Sorted(maps.Keys(tables)) {
		body := []byte(strings.Join(w.records, " "))
		if err := PutObject(ctxModel, w.b, object.TableName(num), body, false); err != nil {
			return
		}
		edit.Added = append(edit.Added, manifest.Added{Level: 1, Run: num, Table: &manifest.Table{
			Num: base.FileNum(num), Size: int64(len(body)), Checksum: Checksum(body), Smallest: []byte("a"), Largest: []byte("b"),
			MinSeq: 1, MaxSeq: last, Entries: 1, Keys: 1,
		}})
	}
	w.step(&object.Step{Edit: edit, LastTableSeq: uint64(last)})
}

// TestModel_Directory collects while the directory changes, and a copy of it is opened that was made at any moment. What the
// directory has is not deleted, whenever the process that collects goes on.
func TestModel_Directory(t *testing.T) {
	const orphan, flushed, merged = 1<<object.EpochShift + 500, 1<<object.EpochShift + 501, 1<<object.EpochShift + 502
	// orphan is a table of the directory that was uploaded, and no step names it. Nothing but what is in the segments too
	// is in these tables, so their bodies may be those of any table.
	prepare := func(b Bucket) {
		modelHistory(b, 1)
		w := newModel(b, findOwner(b)).resume(b, "A")
		dir := modelDir{b}
		err := errors.Join(PutObject(ctxModel, b, object.TableName(orphan), []byte(strings.Join(w.records, " ")), false), dir.add(orphan), dir.note(w.c.N()))
		for f := range tablefs.FilesOf(w.c.State.Tables.Version) {
			err = errors.Join(err, dir.add(f.Num))
		}
		if err != nil {
			panic(err)
		}
	}
	owner := func(do func(a *modelWriter)) part {
		return ownerPart(func(a *modelWriter) { a.dir = true; do(a) })
	}
	collects := owner(func(a *modelWriter) { _ = a.delete(0, noPins) })
	raises := owner(func(a *modelWriter) { _ = a.collect(noPins) && a.delete(0, noPins) })
	flushes := owner(func(a *modelWriter) { _ = modelDir{a.b}.add(flushed) })
	merges := owner(func(a *modelWriter) {
		_ = modelDir{a.b}.add(merged) == nil && modelDir{a.b}.remove(orphan) == nil
	})
	opens := owner(func(a *modelWriter) { a.name = "C"; a.openCopy(51) })
	for _, s := range []struct {
		name   string
		faults int
		parts  []part
	}{
		{"a table is flushed", 0, []part{collects, flushes, opens}},
		{"a table is flushed, a floor", 0, []part{raises, flushes, opens}},
		{"a table is merged", 0, []part{collects, merges, opens}},
		{"a table is merged, a floor", 0, []part{raises, merges, opens}},
		{"a table is merged, a fault", 1, []part{collects, merges, opens}},
		{"a table is flushed, a fault", 1, []part{collects, flushes, opens}},
	} {
		t.Run(s.name, func(t *testing.T) {
			runScenario(t, &scenario{name: s.name, faults: s.faults, parts: s.parts, prepare: prepare}, 1)
		})
	}
}
