package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// metricsCommand shows the counters of this program's handle. With --watch it shows what the
// program that writes to the store does.
func metricsCommand() *Command {
	every, times := time.Second, -1
	c := newCommand("metrics", needsNothing, "the counters since the store was opened; --watch: what is written now", `
Prints what was counted since this program opened the store: lookups, answers of filters, blocks, writes and
memory. --watch looks at the files instead, so it shows what any program writes: writes and bytes of the log
in a second, flushes, compactions, and the tree after them.`)
	c.duration(&every, "watch", 10*time.Millisecond, "print what changes in the store's files every TIME, as 1s")
	c.count(&times, "times", "end after N times; by default Ctrl-C ends it")
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		if c.has("watch") || c.has("times") {
			return watchStore(ctx, s, every, times)
		}
		if err := s.OpenFor("metrics", Reads); err != nil {
			return Failed, err
		}
		m := s.DB.Metrics()
		if !s.AsText() {
			return Found, s.showCounters(m)
		}
		fmt.Fprint(s.Out, m)
		if asked := m.CacheHits + m.CacheMisses; asked > 0 {
			fmt.Fprintf(s.Out, "hits: %s of lookups, %s of blocks in the cache\n", share(m.GetHits, m.Gets), share(m.CacheHits, asked))
		}
		if m.FilterNegative > 0 {
			// This assumes that blocks that were not read have the average size.
			saved := ""
			if m.BlockReads > 0 {
				saved = ", about " + base.FormatBytes(int64(float64(m.BlockReadBytes)/float64(m.BlockReads)*float64(m.FilterNegative)))
			}
			fmt.Fprintf(s.Out, "filters saved %s of blocks%s\n", output.Plural(int(m.FilterNegative), "read"), saved)
		}
		return Found, nil
	})
}

// share returns part as a percentage of all.
func share(part, all uint64) string {
	if all == 0 {
		return "-"
	}
	return base.FormatPercent(float64(part) / float64(all))
}

// A look is what the files of a store show at one moment. Sums are counted since the manifest
// in force began.
type look struct {
	at       time.Time
	manifest base.FileNum
	seq      base.Seq
	logs     map[base.FileNum]int64 // the end of each log, in bytes
	tableWrites
	runs0, tables int
	bytes         int64 // size of all tables
}

// watchStore prints the changes from one look to the next. It sees the writes of any program.
func watchStore(ctx context.Context, s *Session, every time.Duration, times int) (Status, error) {
	before, err := s.look(ctx)
	if err != nil {
		return Failed, err
	}
	out := newRates(s)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ; times != 0; times-- {
		select {
		case <-ctx.Done():
			return Found, out.end() // an interrupt is the normal end
		case <-tick.C:
		}
		now, err := s.look(ctx)
		if errors.Is(err, context.Canceled) {
			return Found, out.end()
		}
		if err != nil {
			return Failed, err
		}
		if err := out.row(before, now); err != nil {
			return Failed, err
		}
		before = now
	}
	return Found, out.end()
}

func (s *Session) look(ctx context.Context) (*look, error) {
	f, err := s.lookInto()
	if err != nil {
		return nil, err
	}
	l := &look{at: time.Now(), logs: map[base.FileNum]int64{}}
	if state := f.sal.State; state != nil {
		l.manifest, l.seq = state.ManifestNum, state.LastSeq
	}
	for _, num := range f.numbers(base.FileLog) {
		v, err := f.readLog(ctx, num, func(base.Seq, *shale.Batch) error { return nil })
		if errors.Is(err, fs.ErrNotExist) {
			continue // a writer has removed it
		}
		if err != nil {
			return nil, err
		}
		if v.Records > 0 {
			l.logs[num] = v.Length
			l.seq = max(l.seq, v.LastSeq)
		}
	}
	for _, p := range f.places() {
		l.tables++
		l.bytes += p.table.Size
	}
	l.runs0 = len(f.version().Levels[0].Runs)
	l.tableWrites, err = f.written(ctx, l.manifest)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, err
}

// A rates prints the differences between looks.
type rates struct {
	s    *Session
	list *output.Listing // nil: print text
	rows int
}

var rateTitles = []string{"time", ">writes/s", ">log/s", ">flushed/s", ">compacted/s", ">flushes", ">compactions", ">L0 runs", ">tables", ">size"}

// headEvery is the number of rows after which the titles are printed again.
const headEvery = 20

func newRates(s *Session) *rates {
	r := &rates{s: s}
	if !s.AsText() {
		r.list = s.List(s.Format, append([]string{}, rateTitles...)...)
	}
	return r
}

func (r *rates) row(a, b *look) error {
	seconds := max(b.at.Sub(a.at).Seconds(), 1e-9)
	if a.manifest != b.manifest {
		a = &look{seq: a.seq, logs: a.logs}
	}
	logged := int64(0)
	for num, length := range b.logs {
		logged += length - a.logs[num]
	}
	rate := func(n int64) int64 { return int64(float64(max(n, 0)) / seconds) }
	cells := []output.Cell{
		{Text: b.at.Format(time.TimeOnly)},
		output.NumberCell(rate(int64(b.seq) - int64(a.seq))), output.SizeCell(rate(logged)),
		output.SizeCell(rate(b.flushed - a.flushed)), output.SizeCell(rate(b.compacted - a.compacted)),
		output.NumberCell(b.flushes - a.flushes), output.NumberCell(b.compactions - a.compactions),
		output.NumberCell(b.runs0), output.NumberCell(b.tables), output.SizeCell(b.bytes),
	}
	var err error
	if r.list != nil {
		err = r.list.Row(cells...)
	} else {
		r.text(cells)
	}
	r.rows++
	if err != nil {
		return err
	}
	return r.s.Out.Flush()
}

func (r *rates) text(cells []output.Cell) {
	line := func(text func(i int) string) {
		for i := range cells {
			fmt.Fprintf(r.s.Out, "%*s", max(len(rateTitles[i])+1, 11), text(i))
		}
		fmt.Fprintln(r.s.Out)
	}
	if r.rows%headEvery == 0 {
		line(func(i int) string { return strings.TrimPrefix(rateTitles[i], ">") })
	}
	line(func(i int) string { return cells[i].Text })
}

func (r *rates) end() error {
	if r.list == nil {
		return nil
	}
	return r.list.End()
}
