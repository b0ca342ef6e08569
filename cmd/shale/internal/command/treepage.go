package command

import (
	"bytes"
	"context"

	"github.com/shaledb/shale/cmd/shale/internal/output"

	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/treepicture"
	"github.com/shaledb/shale/manifest"
)

//go:embed treepage.html
var treePage string

// pageData is the data with which the script of the page shows one step after the other.
type pageData struct {
	By    int        `json:"by"`
	Note  string     `json:"note"` // says what the page lacks
	Steps []pageStep `json:"steps"`
}

// A pageStep is one change. It names a table by its index in pageBuilder.tables, which is also
// the ID of its bar. Sums are the texts after the rows that the step changes.
type pageStep struct {
	What    string            `json:"what"`
	Detail  string            `json:"detail"`
	Seq     uint64            `json:"seq"`
	Added   []int             `json:"add"`
	Removed []int             `json:"del"`
	Sums    map[string]string `json:"sums"`
}

// A pageTable is a table that was there at any time.
type pageTable struct {
	treepicture.Table
	level int
}

// A pageBuilder collects the steps of a page.
type pageBuilder struct {
	*picture
	data   pageData
	tables []pageTable
	now    map[base.FileNum]int // the tables that exist after the last step
}

// page writes the page with the last changes of the manifest in force, at most this many, and
// returns their number.
func (p *picture) page(ctx context.Context, w io.Writer, f *folder, by treepicture.Colouring, last int) (int, error) {
	num, err := f.manifestNum(nil)
	if err != nil {
		return 0, err
	}
	total := 0
	if err := f.history(num, func(step) error { total++; return ctx.Err() }); err != nil && !endsHistory(err) {
		return 0, err
	}
	b := pageBuilder{picture: p, now: map[base.FileNum]int{}}
	b.data.By = int(by)
	n := 0
	err = f.history(num, func(e step) error {
		n++
		b.step(&e)
		if n <= total-last { // this change belongs to the state before the first change shown
			b.data.Steps = b.data.Steps[:0]
		}
		if n == total-last+1 && n > 1 {
			b.join()
		}
		return ctx.Err()
	})
	if err != nil && !endsHistory(err) {
		return 0, err
	}
	if err != nil {
		b.data.Note = plain(err)
	}
	if len(b.data.Steps) == 0 {
		b.data.Steps = []pageStep{{What: "nothing", Added: []int{}, Removed: []int{}}}
	}
	var drawn bytes.Buffer
	if err := b.draw(&drawn, by); err != nil {
		return 0, err
	}
	data, err := json.Marshal(b.data) // json escapes < and >, so no key can end the script
	if err != nil {
		return 0, err
	}
	t, err := template.New("tree").Parse(treePage)
	if err != nil {
		return 0, err
	}
	return len(b.data.Steps), t.Execute(w, map[string]any{
		"Title": output.Quote(f.dir), "Data": template.JS(data), "Picture": template.HTML(drawn.String()), // the drawing escapes its texts
	})
}

// endsHistory reports whether err is damage of a manifest. The page can still show the changes
// before it.
func endsHistory(err error) bool {
	var torn *tornManifest
	return isDamage(err) || errors.As(err, &torn)
}

func (b *pageBuilder) step(e *step) {
	s := pageStep{What: e.what(), Detail: e.moved(), Seq: uint64(e.LastSeq), Added: []int{}, Removed: []int{}}
	if logs := e.logs(); logs != "-" {
		s.Detail += "; logs: " + logs
	}
	for _, r := range e.Removed {
		if id, there := b.now[r.Num]; there {
			s.Removed = append(s.Removed, id)
			delete(b.now, r.Num)
		}
	}
	for _, a := range e.Added {
		t := b.table(a.Table)
		t.Run = -int(a.Run) // so that the newest run comes first
		s.Added = append(s.Added, b.add(a.Table.Num, pageTable{t, a.Level}))
	}
	for _, beside := range e.Sidecars {
		id, there := b.now[beside.Num]
		if !there {
			continue
		}
		s.Removed = append(s.Removed, id)
		t := b.tables[id]
		t.FilterBits = beside.Sidecar.FilterBits
		s.Added = append(s.Added, b.add(beside.Num, t))
	}
	b.data.Steps = append(b.data.Steps, s)
}

// add adds a table to the existing ones, and returns its ID.
func (b *pageBuilder) add(num base.FileNum, t pageTable) int {
	t.ID = len(b.tables)
	b.tables = append(b.tables, t)
	b.now[num] = t.ID
	return t.ID
}

// join makes one step of all changes before the first change of the page.
func (b *pageBuilder) join() {
	e := b.data.Steps[0]
	before := pageStep{What: "before", Detail: "the changes before are left out", Seq: e.Seq, Added: []int{}, Removed: []int{}}
	for _, id := range b.now {
		if !slices.Contains(e.Added, id) {
			before.Added = append(before.Added, id)
		}
	}
	before.Added = append(before.Added, e.Removed...)
	slices.Sort(before.Added)
	b.data.Steps = append([]pageStep{before}, b.data.Steps...)
}

// draw draws all tables that existed at any time. It adds to each step the sums of the rows that
// the step changes.
func (b *pageBuilder) draw(w io.Writer, by treepicture.Colouring) error {
	levels := make([]treepicture.Level, manifest.NumLevels)
	for i := range levels {
		levels[i].Number = i
	}
	for id := range b.tables {
		b.tables[id].Gone = true
	}
	for _, id := range b.now {
		b.tables[id].Gone = false
	}
	sums := map[string]treepicture.Sum{}
	for i := range b.data.Steps {
		s := &b.data.Steps[i]
		s.Sums = map[string]string{}
		count := func(id int, n int64) {
			t := &b.tables[id]
			row := treepicture.RowName(t.level, t.Run)
			sum := sums[row]
			sum.Add(&t.Table, n)
			sums[row], s.Sums[row] = sum, sum.String()
			if sum.Tables == 0 {
				s.Sums[row] = "all went"
			}
		}
		for _, id := range s.Removed {
			count(id, -1)
		}
		for _, id := range s.Added {
			count(id, 1)
			l := &levels[b.tables[id].level]
			l.Tables = append(l.Tables, b.tables[id].Table)
		}
	}
	return treepicture.Draw(w, levels, treepicture.Options{By: by, Key: output.Short, Every: true})
}
