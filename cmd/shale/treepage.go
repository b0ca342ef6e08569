package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/treepicture"
	"github.com/shaledb/shale/manifest"
)

//go:embed treepage.html
var treePage string

// pageData is what the page's script draws.
type pageData struct {
	Title  string      `json:"title"`
	By     int         `json:"by"`
	Note   string      `json:"note"` // what is missing
	Tables []pageTable `json:"tables"`
	Steps  []pageStep  `json:"steps"`
	Keys   []pageKey   `json:"keys"`
	Legend []string    `json:"legend"` // of each colouring
}

// A pageTable is a table that was there at any time.
type pageTable struct {
	Number  uint64   `json:"n"`
	From    float64  `json:"x"`
	To      float64  `json:"y"`
	Size    int64    `json:"s"`
	Entries uint64   `json:"e"`
	About   string   `json:"d"`
	Colours []string `json:"c"`
}

// A pageStep is one change. Places are [index of table, level, id of run].
type pageStep struct {
	What    string      `json:"what"`
	Detail  string      `json:"detail"`
	Seq     uint64      `json:"seq"`
	Added   [][3]uint64 `json:"add"`
	Removed [][3]uint64 `json:"del"`
}

type pageKey struct {
	At   float64 `json:"x"`
	Text string  `json:"k"`
}

// A pageBuilder collects the steps of a page.
type pageBuilder struct {
	*picture
	data   pageData
	tables []treepicture.Table
	now    map[base.FileNum][3]uint64 // the tables that are there
}

// page writes the page, with the last so many changes of the manifest in force,
// and returns how many these are.
func (p *picture) page(ctx context.Context, w io.Writer, f *folder, by treepicture.Colouring, last int) (int, error) {
	num, err := f.manifestNum(nil)
	if err != nil {
		return 0, err
	}
	total := 0
	if err := f.history(num, func(step) error { total++; return ctx.Err() }); err != nil && !endsHistory(err) {
		return 0, err
	}
	b := pageBuilder{picture: p, now: map[base.FileNum][3]uint64{}}
	b.data.Title, b.data.By = quote(f.dir), int(by)
	n := 0
	err = f.history(num, func(e step) error {
		n++
		b.step(&e)
		if n <= total-last { // this is part of what the first change finds
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
		b.data.Steps = []pageStep{{What: "nothing", Added: [][3]uint64{}, Removed: [][3]uint64{}}}
	}
	b.place()
	data, err := json.Marshal(b.data) // which escapes < and >, so that no key ends the script
	if err != nil {
		return 0, err
	}
	t, err := template.New("tree").Parse(treePage)
	if err != nil {
		return 0, err
	}
	return len(b.data.Steps), t.Execute(w, map[string]any{"Title": b.data.Title, "Data": template.JS(data)})
}

// endsHistory tells damage at the end of a manifest, which leaves a picture,
// from errors.
func endsHistory(err error) bool {
	var torn *tornManifest
	return isDamage(err) || errors.As(err, &torn)
}

func (b *pageBuilder) step(e *step) {
	s := pageStep{What: e.what(), Detail: e.moved(), Seq: uint64(e.LastSeq), Added: [][3]uint64{}, Removed: [][3]uint64{}}
	if logs := e.logs(); logs != "-" {
		s.Detail += "; logs: " + logs
	}
	for _, r := range e.Removed {
		if at, there := b.now[r.Num]; there {
			s.Removed = append(s.Removed, at)
			delete(b.now, r.Num)
		}
	}
	for _, a := range e.Added {
		s.Added = append(s.Added, b.add(a.Table, uint64(a.Level), a.Run))
	}
	for _, beside := range e.Sidecars {
		at, there := b.now[beside.Num]
		if !there {
			continue
		}
		s.Removed = append(s.Removed, at)
		t := b.tables[at[0]]
		t.FilterBits = beside.Sidecar.FilterBits
		b.tables = append(b.tables, t)
		b.now[beside.Num] = [3]uint64{uint64(len(b.tables) - 1), at[1], at[2]}
		s.Added = append(s.Added, b.now[beside.Num])
	}
	b.data.Steps = append(b.data.Steps, s)
}

func (b *pageBuilder) add(m *manifest.Table, level, run uint64) [3]uint64 {
	b.tables = append(b.tables, b.table(m))
	b.now[m.Num] = [3]uint64{uint64(len(b.tables) - 1), level, run}
	return b.now[m.Num]
}

// join puts all that the first change of the page found into a step of its own.
func (b *pageBuilder) join() {
	e := b.data.Steps[0]
	before := pageStep{What: "before", Detail: "the changes before are left out", Seq: e.Seq, Added: [][3]uint64{}, Removed: [][3]uint64{}}
	came := map[uint64]bool{}
	for _, at := range e.Added {
		came[at[0]] = true
	}
	for _, at := range b.now {
		if !came[at[0]] {
			before.Added = append(before.Added, at)
		}
	}
	before.Added = append(before.Added, e.Removed...)
	b.data.Steps = append([]pageStep{before}, b.data.Steps...)
}

// place gives the tables their places, among all that were there at any time,
// and their colours.
func (b *pageBuilder) place() {
	used := make([]bool, len(b.tables))
	for _, s := range b.data.Steps {
		for _, at := range s.Added {
			used[at[0]] = true
		}
		for _, at := range s.Removed {
			used[at[0]] = true
		}
	}
	level := treepicture.Level{}
	for i, t := range b.tables {
		if used[i] {
			level.Tables = append(level.Tables, t)
		}
	}
	all := []treepicture.Level{level}
	scale, colours := treepicture.NewScale(all), treepicture.RangeOf(all)
	round := func(x float64) float64 { return math.Round(x*1e6) / 1e6 }
	b.data.Tables = make([]pageTable, len(b.tables))
	for i := range b.tables {
		if !used[i] {
			continue
		}
		t := &b.tables[i]
		from, to := scale.Span(t)
		p := pageTable{Number: t.Number, From: round(from), To: round(to), Size: t.Size, Entries: t.Entries, About: treepicture.About(t, short)}
		for by := range treepicture.Colourings {
			p.Colours = append(p.Colours, colours.Colour(t, treepicture.Colouring(by)).String())
		}
		b.data.Tables[i] = p
	}
	const ticks = 6
	b.data.Keys = []pageKey{}
	for i := range ticks {
		at := float64(i) / ticks
		if key := scale.KeyAt(at); key != nil {
			b.data.Keys = append(b.data.Keys, pageKey{at, short(key)})
		}
	}
	b.data.Legend = []string{
		"darker: more filter bits a key; grey: no filter",
		"blue: fewer false positives than predicted, red: more; grey: not measured",
		fmt.Sprintf("darker: larger, up to %s", base.FormatBytes(colours.MaxSize)),
	}
}
