package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/internal/treepicture"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// maxSteps is the number of changes on a page, unless --last asks for another number.
const maxSteps = 1000

// treeCommand returns a command that draws the tables into a file.
func treeCommand() *Command {
	by, last := treepicture.ByBits, maxSteps
	var toFile bool
	c := New("tree FILE", NeedsNothing, "draw the tables over the keys: FILE.svg or FILE.html", `
Draws a row for each run, the newest first, and in it a bar for each table, from its smallest key to its
largest. The place of a key is its rank, so half of the width is half of the entries. FILE.html is a page in one
file, which works without a network. It also shows each change of the manifest in force: which tables were
added and removed.`)
	named(c, &by, "by", "what the colours show; default bits", treepicture.Colourings, treepicture.ByBits, treepicture.ByFPR, treepicture.BySize)
	c.count(&last, "last", "in FILE.html: only the last N changes; default 1000")
	c.Flags().BoolVarP(&toFile, "output", "o", false, "") // tree -o FILE is the same as tree FILE
	_ = c.Flags().MarkHidden("output")                    // it fails only if there is no such option
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		file := words[0].Text
		page := strings.EqualFold(filepath.Ext(file), ".html")
		switch {
		case !page && !strings.EqualFold(filepath.Ext(file), ".svg"):
			return Failed, fmt.Errorf("tree: %s: the file's name has to end in .svg or .html", output.Quote(file))
		case !page && c.has("last"):
			return Failed, errors.New("tree: --last is for FILE.html; FILE.svg shows only the present state")
		}
		if _, err := outfile.Path(file); err != nil {
			return Failed, err
		}
		f, err := s.lookInto()
		if err != nil {
			return Failed, err
		}
		p := pictureOf(s)
		write := func(w io.Writer) (int, error) {
			levels := p.levels(f)
			return len(f.places()), treepicture.Draw(w, levels, treepicture.Options{Title: output.Quote(f.dir), By: by, Key: output.Short})
		}
		what := "table"
		if page {
			what = "change"
			write = func(w io.Writer) (int, error) { return p.page(ctx, w, f, by, last) }
		}
		n, err := outfile.Replace(vfs.Default, file, write)
		if errors.Is(err, fs.ErrNotExist) {
			return Failed, fmt.Errorf("tree: there is no folder %s", output.Quote(filepath.Dir(file)))
		}
		if err != nil {
			return Failed, err
		}
		fmt.Fprintf(s.Out, "%s: %s\n", output.Quote(file), output.Plural(n, what))
		return Found, nil
	})
}

// A picture has what the store knows about its tables, by their numbers.
type picture struct {
	known map[uint64]shale.TableInfo
}

// pictureOf takes measurements and ranks from the store if it can be opened. If it is damaged, the
// picture shows only what the manifest states, and places are guessed from the bytes of keys.
func pictureOf(s *Session) picture {
	p := picture{map[uint64]shale.TableInfo{}}
	if err := s.OpenFor("tree", Reads); err != nil {
		fmt.Fprintf(s.Notes, "shale: the picture is without rates of false positives, and guesses places: %s\n", plain(err))
		return p
	}
	for _, t := range s.DB.Tables() {
		p.known[t.Number] = t
	}
	return p
}

// levels returns the tables as they are now.
func (p *picture) levels(f *folder) []treepicture.Level {
	levels := make([]treepicture.Level, manifest.NumLevels)
	for i := range levels {
		levels[i].Number = i
	}
	for _, at := range f.places() {
		t := p.table(at.table)
		t.Run = at.run
		levels[at.level].Tables = append(levels[at.level].Tables, t)
	}
	return levels
}

func (p *picture) table(m *manifest.Table) treepicture.Table {
	t := treepicture.Table{
		Number: uint64(m.Num), Smallest: m.Smallest, Largest: m.Largest,
		Size: m.Size, Entries: m.Entries, Tombstones: m.Tombstones,
	}
	if size, perKey := m.Filter(); size > 0 {
		t.Filter, t.FilterBits = "some", perKey
	}
	known, there := p.known[t.Number]
	if there {
		t.Rank = known.Rank
	}
	if known.FilterBits > 0 {
		t.Filter, t.FilterBits = known.FilterKind, known.FilterBits
		t.PredictedFPR, t.MeasuredFPR, t.Asked = known.PredictedFPR, known.MeasuredFPR, known.Asked
	}
	return t
}
