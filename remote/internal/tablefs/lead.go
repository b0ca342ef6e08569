package tablefs

import (
	"context"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// How a scan goes from a table to the next one of its run without a wait, although each is a file of its own.

// maxLeads is how many tables are fetched in part before a reader comes to them. It bounds the memory, to 64 MiB.
const maxLeads = 16

// A lead is the first piece of a table to which a stream in the table next to it leads. The first reader that comes there
// makes a stream of it. Such a table need not be open.
type lead struct {
	fileID
	piece  *flight
	back   bool
	used   int64 // value of Tables.clock when it began
	ctx    context.Context
	cancel context.CancelFunc
}

// Order says in which runs the tables are, and so where a scan goes on. Know does so too.
func (b *Tables) Order(v *manifest.Version) { b.order.Store(v) }

// runOf returns the tables of the run that has f, and which one f is. If none has it, the index is -1.
func (b *Tables) runOf(f File) ([]*manifest.Table, int) {
	if v := b.order.Load(); v != nil {
		for l := range v.Levels {
			for _, run := range v.Levels[l].Runs {
				if i := slices.IndexFunc(run.Tables, func(t *manifest.Table) bool { return uint64(t.Num) == f.Num }); i >= 0 {
					return run.Tables, i
				}
			}
		}
	}
	return nil, -1
}

// An edges says whether a fetch is at the first or at the last data of a table, in the direction of reading. The first page
// may be there already: it is fetched ahead without being noted when an iterator comes to a table.
type edges struct{ back, first, last bool }

func (s *tableState) edges(from, to int64, back bool) edges {
	at := s.at.Load()
	if back {
		return edges{back, to >= at-mostPadding || to >= at-pageSize && s.cached(to, at), from == 0}
	}
	return edges{back, from <= pageSize && s.cached(0, from), to >= at-mostPadding}
}

// An endedRow is a row of fetches up to the end of a table.
type endedRow struct {
	fileID
	back  bool
	count int
}

// mostEnded is how many of them are kept.
const mostEnded = 8

// rowEnds notes a row of count fetches, if it has come to the end of the table: it may go on in the next one.
func (b *Tables) rowEnds(f File, e edges, count int) {
	if !e.last {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended[max(len(b.ended)-mostEnded+1, 0):], endedRow{f.fileID, e.back, count})
}

// rowBefore returns how many fetches the row has that ended with the table from which a scan comes to f. If tables are short,
// a scan is recognised so.
func (b *Tables) rowBefore(f File, e edges) int {
	b.mu.Lock()
	some := len(b.ended) > 0
	b.mu.Unlock()
	if !e.first || !some {
		return 0
	}
	run, i := b.runOf(f)
	if i -= step(e.back); i < 0 || i >= len(run) {
		return 0
	}
	before := FileOf(run[i]).fileID
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.ended, func(r endedRow) bool { return r.fileID == before && r.back == e.back })
	if at < 0 {
		return 0
	}
	count := b.ended[at].count
	b.ended = slices.Delete(b.ended, at, at+1)
	return count
}

// step returns what is added to the index of a table in its run to come to the next one.
func step(back bool) int {
	if back {
		return -1
	}
	return 1
}

// leadOn begins to fetch the tables behind f, or before it, as much as a stream in f, which has left bytes to read there, has
// ahead of its reader. It stops at a table that is not in the bucket: such a one has no tail here.
func (b *Tables) leadOn(f File, back bool, left int64) {
	run, i := b.runOf(f)
	for i >= 0 && left < ahead*pieceSize {
		if i += step(back); i < 0 || i == len(run) {
			return
		}
		next := FileOf(run[i])
		end, there := b.Tails.begins(next.fileID)
		if !there || end > 0 && !b.addLead(next, end, back) {
			return
		}
		left += end
	}
}

// addLead begins to fetch the first piece of a table whose data ends at an offset, unless that is under way. It returns
// false if there are too many.
func (b *Tables) addLead(f File, end int64, back bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(b.live, func(st *stream) bool { return st.table.fileID == f.fileID && st.back == back }) {
		return true
	}
	if i := slices.IndexFunc(b.leads, func(l *lead) bool { return l.fileID == f.fileID && l.back == back }); i >= 0 {
		b.leads[i].used = b.clock // the scan comes nearer
		return true
	}
	b.dropLeads(func(l *lead) bool { return b.clock-l.used > idleReads })
	if len(b.leads) >= maxLeads {
		return false
	}
	l := &lead{fileID: f.fileID, back: back, used: b.clock}
	l.ctx, l.cancel = context.WithCancel(b.ctx)
	from := int64(0)
	if back {
		from = end
	}
	l.piece = newPiece(from, end, back)
	b.leads = append(b.leads, l)
	b.load(l.ctx, f, l.piece)
	return true
}

// dropLeads ends the leads that which names. Requires: b.mu is held.
func (b *Tables) dropLeads(which func(*lead) bool) {
	b.leads = slices.DeleteFunc(b.leads, func(l *lead) bool {
		if which(l) {
			l.cancel()
			return true
		}
		return false
	})
}

// follow makes a stream of the lead that has offset off of the table, if there is one. If its piece has failed,
// readStream drops that stream.
func (s *tableState) follow(off int64) {
	b := s.all
	b.mu.Lock()
	i := slices.IndexFunc(b.leads, func(l *lead) bool { return l.fileID == s.fileID && l.piece.has(off) })
	if i < 0 {
		b.mu.Unlock()
		return
	}
	l := b.leads[i]
	b.leads = slices.Delete(b.leads, i, i+1)
	b.mu.Unlock()
	if !s.addStream(&stream{table: s, back: l.back, pieces: []*flight{l.piece}, ctx: l.ctx, cancel: l.cancel}) {
		l.cancel()
	}
}
