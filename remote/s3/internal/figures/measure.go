package main

import (
	"cmp"
	"fmt"
	"io"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/counted"
	"github.com/shaledb/shale/remote/internal/object"
)

// The figures, each with its goal.

// A figure is one line of the table.
type figure struct {
	name, value, goal string
	reached           bool
	requests          bool // it is about requests or bytes, which do not depend on the machine
}

// add adds a figure that depends on the machine.
func (b *bench) add(name, value, goal string, reached bool) {
	b.figures = append(b.figures, figure{name, value, goal, reached, false})
	fmt.Fprintf(b.notes, "%s: %s\n", name, value)
}

// addCount adds a figure that does not.
func (b *bench) addCount(name, value, goal string, reached bool) {
	b.add(name, value, goal, reached)
	b.figures[len(b.figures)-1].requests = true
}

// print prints the table.
func (b *bench) print(out io.Writer) {
	fmt.Fprintf(out, "%d entries, %d tables, %.1f MB of them; at most %.1f MB are local\n\n", b.n, b.far.tablesNow(), float64(b.near.room())/1e6, float64(b.budget)/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "|\twhat\t| measured\t| goal\t|\t|\n|\t---\t| ---\t| ---\t| ---\t|")
	for _, f := range b.figures {
		missed := ""
		if !f.reached {
			missed = "missed"
		}
		fmt.Fprintf(w, "|\t%s\t| %s\t| %s\t| %s\t|\n", f.name, f.value, f.goal, missed)
	}
	_ = w.Flush() // of a table that is only shown
}

// tablesNow returns how many tables there are.
func (s *side) tablesNow() (n int) {
	for _, l := range s.s.DB().Metrics().Levels {
		n += l.Tables
	}
	return n
}

// ask looks up n keys, every step-th one beginning with number first, and returns how long that took.
func (b *bench) ask(s *side, first, n, step int, want bool) (time.Duration, error) {
	begin := time.Now()
	var key []byte
	for i := range n {
		key = appendKey(key[:0], first+i*step)
		if has, err := s.s.DB().Has(key); err != nil || has != want {
			return 0, cmp.Or(err, fmt.Errorf("key %s: %v, want %v", key, has, want))
		}
	}
	return time.Since(begin), b.ctx.Err()
}

// quiet opens both stores again without compactions of their own. Lookups cause some, whose GETs would be counted as theirs.
func (b *bench) quiet() error {
	for _, s := range []*side{b.near, b.far} {
		if err := cmp.Or(b.settle(s), s.closeStore(), b.open(s, -1)); err != nil {
			return err
		}
	}
	return nil
}

// rounds is how often something is timed, lookups each time with other keys: what a filter was wrong about is remembered.
const rounds = 3

// absent asks both stores for the same absent keys, in turns.
func (b *bench) absent() error {
	best, before := [2]time.Duration{1 << 62, 1 << 62}, b.far.b.Counts()
	for round := range rounds {
		for i, s := range []*side{b.near, b.far} {
			took, err := b.ask(s, b.n+round*b.lookups, b.lookups, 1, false)
			if err != nil {
				return err
			}
			best[i] = min(best[i], took)
		}
	}
	gets := float64(b.far.b.Counts().Since(before).TableGets) / float64(rounds*b.lookups)
	b.addCount("GETs for an absent key", fmt.Sprintf("%.4f", gets), "0.02", gets <= 0.02)
	ratio := best[1].Seconds() / best[0].Seconds()
	b.add("time of an absent key, next to a store that is all local", fmt.Sprintf("%v, %.2f ×", (best[1]/time.Duration(b.lookups)).Round(time.Nanosecond), ratio), "1.30 ×", ratio <= 1.30)
	return nil
}

// fewPages is more than a table of a few pages has: 16 of 64 KiB.
const fewPages = 1 << 20

// present asks for keys from all over the store, one by one.
func (b *bench) present() error {
	n, most, more := max(b.lookups/100, 100), int64(0), 0
	before, begin := b.far.b.Counts(), time.Now()
	for i := range n {
		one := b.far.b.Counts()
		if _, err := b.ask(b.far, i*(b.n/n), 1, 1, true); err != nil {
			return err
		}
		gets := b.far.b.Counts().Since(one).TableGets
		if most = max(most, gets); gets > 1 {
			more++ // a filter of a level above was wrong
		}
	}
	took, gets := time.Since(begin), float64(b.far.b.Counts().Since(before).TableGets)/float64(n)
	// In tables of a few pages, lookups that happen to go from one page to the next are taken for a scan, and tables are fetched
	// ahead. So there only the mean tells.
	few := b.table < fewPages || float64(more) <= 0.03*float64(n)
	b.addCount("GETs for a present key that no cache has", fmt.Sprintf("%.2f, at most %d", gets, most), "1, and false positives", gets <= 1 && few)
	b.add("time of such a key", (took / time.Duration(n)).Round(time.Microsecond).String(), "", true)
	return nil
}

// scan goes through both stores, in turns, and then reads the same objects without a store. Like times of lookups these are the
// best of some rounds.
func (b *bench) scan() error {
	best, read := [2]time.Duration{1 << 62, 1 << 62}, counted.Counts{}
	for range rounds {
		for i, s := range []*side{b.near, b.far} {
			before, begin, n := s.b.Counts(), time.Now(), 0
			for _, err := range s.s.DB().Scan(shale.Range{}) {
				if err != nil {
					return err
				}
				n++
			}
			took := time.Since(begin)
			if n != b.n {
				return fmt.Errorf("a scan has %d entries, want %d", n, b.n)
			}
			if i == 1 && took < best[i] {
				read = s.b.Counts().Since(before)
			}
			best[i] = min(best[i], took)
		}
	}
	alone, err := b.readAll(read.TableGetBytes)
	if err != nil {
		return err
	}
	rate, ratio := float64(read.TableGetBytes)/best[1].Seconds(), best[1].Seconds()/best[0].Seconds()
	b.add("scan, next to a store that is all local", fmt.Sprintf("%.0f MB/s of tables, %.2f ×", rate/1e6, ratio), "", true)
	b.add("the same, next to the server's own throughput", fmt.Sprintf("%.0f %%", 100*rate/alone), "80 %", rate >= 0.8*alone)
	b.addCount("GETs of a scan", fmt.Sprintf("%d for %.1f MB", read.TableGets, float64(read.TableGetBytes)/1e6), "", true)
	return nil
}

// pieceSize is what a scan and a compaction read with a GET.
const pieceSize = 4 << 20

// readAll reads tables up to about n bytes, as a scan does: in pieces, three at a time. It returns bytes a second.
func (b *bench) readAll(n int64) (float64, error) {
	var tables []remote.Info
	for info, err := range b.far.b.Bucket.List(b.ctx, object.TableFolder, "") {
		if err != nil {
			return 0, err
		}
		if n > 0 {
			tables = append(tables, info)
		}
		n -= info.Size
	}
	begin, read := time.Now(), atomic.Int64{}
	group, ctx := errgroup.WithContext(b.ctx)
	group.SetLimit(3)
	for _, t := range tables {
		for at := int64(0); at < t.Size; at += pieceSize {
			group.Go(func() error {
				p := make([]byte, min(pieceSize, t.Size-at))
				n, err := b.far.b.Bucket.ReadAt(ctx, t.Name, p, at)
				read.Add(int64(n))
				return err
			})
		}
	}
	err := group.Wait()
	return float64(read.Load()) / time.Since(begin).Seconds(), err
}

// reopen closes and opens both stores, in turns.
func (b *bench) reopen() error {
	best, most := [2]time.Duration{1 << 62, 1 << 62}, int64(0)
	tables := b.far.tablesNow()
	for range rounds {
		for i, s := range []*side{b.near, b.far} {
			// What a compaction has made after the last step would be looked for in the bucket.
			if err := cmp.Or(b.settle(s), s.closeStore()); err != nil {
				return err
			}
			before, begin := s.b.Counts(), time.Now()
			if err := b.open(s, 0); err != nil {
				return err
			}
			best[i], most = min(best[i], time.Since(begin)), max(most, s.b.Counts().Since(before).TableGets)
		}
	}
	b.addCount(fmt.Sprintf("GETs of tables to open again with %d", tables), fmt.Sprint(most), "0", most == 0)
	ratio := best[1].Seconds() / best[0].Seconds()
	b.add("time to open, next to a store that is all local", fmt.Sprintf("%v, %.2f ×", best[1].Round(time.Millisecond), ratio), "1.50 ×", ratio <= 1.50)
	return nil
}

// compaction rewrites the store.
func (b *bench) compaction() error {
	if err := b.settle(b.far); err != nil {
		return err
	}
	places, err := b.far.s.Places()
	if err != nil {
		return err
	}
	most := 0 // a GET for 4 MiB, and one for what is left of each table
	for _, l := range places {
		most += l.Bucket.Tables + int(l.Bucket.Bytes/pieceSize)
	}
	before, tables := b.far.b.Counts(), b.far.tables.Load()
	if err := cmp.Or(b.far.s.DB().Compact(b.ctx, shale.Range{}), b.settle(b.far)); err != nil {
		return err
	}
	n, made := b.far.b.Counts().Since(before), b.far.tables.Load()-tables
	// In a small store, whose cache has few pages, they depend on which tables are read at the same time.
	b.add("GETs of a compaction of all", fmt.Sprintf("%d for %.1f MB", n.TableGets, float64(n.TableGetBytes)/1e6), fmt.Sprintf("%d: one for 4 MiB of a table", most), int(n.TableGets) <= most)
	puts := float64(n.TablePuts) / float64(max(made, 1))
	b.addCount("PUTs for a table that was made", fmt.Sprintf("%.2f", puts), "1", puts <= 1)
	return nil
}

// room says how far the budget was exceeded.
func (b *bench) room() error {
	over, most := b.far.highest.Load()-b.budget, b.memtable+b.far.atATime()
	b.addCount("the most room, beyond the budget", fmt.Sprintf("%.1f MB", float64(max(over, 0))/1e6),
		fmt.Sprintf("%.1f MB: a memtable and what compactions make at a time", float64(most)/1e6), over <= most)
	return nil
}
