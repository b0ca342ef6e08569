package tablefs

import (
	"context"
	"errors"
	"slices"
)

// How a scan reads long pieces ahead of itself, although nobody says that it is a scan.

// Sequential reads are recognised by their misses: a reader that has to fetch the fourth neighbour in a row is likely
// to need all that follows. From there on the table is fetched in long pieces, two of them ahead of the
// reader, and not put into the cache, where they would replace pages that are asked often.
const (
	neighbours = 4       // the fetch that begins a stream
	pieceSize  = 4 << 20 // bytes of a GET
	ahead      = 2       // pieces
	// mostPadding is more than the zeros between the data blocks and the filter, which nobody reads.
	mostPadding = 64
	// maxStreams bounds the memory: each stream has up to three pieces.
	maxStreams = 8
	// idleReads is how many reads of all streams must come before one that had none of them may be dropped
	// for another.
	idleReads = 256
)

// errAborted is the error of a flight that was not made. It does not reach callers.
var errAborted = errors.New("a stream reads this")

// A run is a row of fetches that are neighbours, each behind the one before it, or each in front of it.
type run struct {
	next  int64 // where the next one would begin; in a row that goes back, where it would end
	count int
}

// runs are the rows that fetches of a table may belong to.
type runs struct {
	rows   [4]run
	oldest int // which makes room for the next one
}

// Rows that go back are recognised by what iterators ask for before they need it. With one page or less they only
// seek.
const leastBack = pageSize + 1

// A stream is a table that is read from front to back, or from back to front.
type stream struct {
	table *tableState
	back  bool // from back to front
	led   bool // the tables behind it are being fetched; guarded by table.mu

	// Guarded by table.mu.
	pieces []*flight // neighbours, in the order of reading; the reader is in the first or second one
	used   int64     // value of Tables.clock when it was last read
	ctx    context.Context
	cancel context.CancelFunc
}

// note records that bytes from to to had to be fetched. It reports whether they are the fourth neighbour in a row.
func (s *tableState) note(from, to int64) bool {
	return s.noteIn(&s.runs, to, s.edges(from, to, false), func(r *run) bool { return from <= r.next && to > r.next && from >= r.next-pageSize })
}

// noteBack is note for bytes that nobody waits for, in rows that go back.
func (s *tableState) noteBack(from, to int64) bool {
	return to-from >= leastBack &&
		s.noteIn(&s.backs, from, s.edges(from, to, true), func(r *run) bool { return to >= r.next && from < r.next && to <= r.next+pageSize })
}

// noteIn records a fetch in the one of some rows that it belongs to. next is where the next one of the row would be.
func (s *tableState) noteIn(runs *runs, next int64, e edges, belongs func(r *run) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(runs.rows[:], func(r run) bool { return r.count > 0 && belongs(&r) })
	if i < 0 {
		i = runs.oldest % len(runs.rows)
		runs.oldest++
		runs.rows[i] = run{count: s.all.rowBefore(s.File, e)}
	}
	r := &runs.rows[i]
	r.next = next
	if r.count++; r.count < neighbours {
		s.all.rowEnds(s.File, e, r.count)
		return false
	}
	// The row has become a stream, whose fetches are not noted. A row that begins later has to
	// grow again.
	*r = run{}
	return true
}

// openStream begins a stream at an offset: the pieces are behind it, or, if the stream goes back, in front of it. It
// does nothing if there are too many.
func (s *tableState) openStream(at int64, back bool) {
	first := newPiece(at, s.at.Load(), back)
	st := &stream{table: s, back: back, pieces: []*flight{first}}
	st.ctx, st.cancel = context.WithCancel(s.all.ctx)
	if s.addStream(st) {
		// Other readers see the stream now, and may already have dropped its first piece from st.pieces.
		s.all.load(st.ctx, s.File, first)
	} else {
		st.cancel()
	}
}

// addStream adds a stream to the others, in place of an idle one if there are many. It returns false if none is idle.
//
// piece takes Tables.mu while it holds tableState.mu. So here neither is taken under the other.
func (s *tableState) addStream(st *stream) bool {
	b := s.all
	b.mu.Lock()
	if len(b.live) >= maxStreams {
		i := slices.IndexFunc(b.live, func(st *stream) bool { return b.clock-st.used > idleReads })
		if i < 0 {
			b.mu.Unlock()
			return false
		}
		old := b.live[i]
		b.live = slices.Delete(b.live, i, i+1)
		b.mu.Unlock()
		old.table.removeStream(old)
		b.mu.Lock()
	}
	st.used = b.clock
	b.live = append(b.live, st)
	b.mu.Unlock()
	s.mu.Lock()
	s.streams = append(s.streams, st)
	s.mu.Unlock()
	return true
}

// newPiece returns the piece of a table whose data ends at end that a reader comes to at an offset.
func newPiece(at, end int64, back bool) *flight {
	f := &flight{from: at, to: min(at+pieceSize, end), done: make(chan struct{})}
	if back {
		f.from, f.to = max(at-pieceSize, 0), at
	}
	return f
}

// load fetches a piece in the background.
func (b *Tables) load(ctx context.Context, of File, f *flight) {
	b.background.Go(func() {
		f.b = make([]byte, f.to-f.from)
		f.err = b.get(ctx, of, f.b, f.from)
		close(f.done)
	})
}

// growLocked begins to fetch the next piece of a stream.
func (s *tableState) growLocked(st *stream) {
	f := newPiece(st.end(), s.at.Load(), st.back)
	st.pieces = append(st.pieces, f)
	s.all.load(st.ctx, s.File, f)
}

// end returns where the last piece ends, in the direction of reading.
func (st *stream) end() int64 {
	last := st.pieces[len(st.pieces)-1]
	if st.back {
		return last.from
	}
	return last.to
}

// has reports whether a piece has an offset, or will have it.
func (st *stream) has(off int64) bool {
	from, to := st.pieces[0], st.pieces[len(st.pieces)-1]
	if st.back {
		from, to = to, from
	}
	return off >= from.from && off < to.to
}

// reaches reports whether the stream goes to the end of the data, or on for ahead pieces behind bytes from to to.
func (st *stream) reaches(from, to, end int64) bool {
	if st.back {
		return st.end() == 0 || st.end() <= from-ahead*pieceSize
	}
	return st.end() >= end || st.end() >= to+ahead*pieceSize
}

// readStream fills p from a stream that has its bytes. done is false if there is none.
func (s *tableState) readStream(p []byte, off int64) (done bool, err error) {
	s.follow(off)
	start := off
	for first := true; len(p) > 0; first = false {
		f, st, left := s.piece(off, off+int64(len(p)))
		if f == nil {
			// Another reader may have dropped the stream after the first round.
			if !first {
				return true, s.readData(p, off)
			}
			return false, nil
		}
		if left >= 0 {
			s.all.leadOn(s.File, st.back, left)
		}
		stale := f.failed() // before anybody came to need it: the bucket may be back
		<-f.done
		if f.err != nil {
			stale = stale || st.ctx.Err() != nil // it was dropped for another one
			s.all.dropStream(st)
			if stale && s.all.ctx.Err() == nil {
				continue
			}
			return true, f.err
		}
		n := copy(p, f.b[off-f.from:])
		p, off = p[n:], off+int64(n)
		if !st.back && off > s.at.Load()-mostPadding || st.back && len(p) == 0 && start < mostPadding {
			s.all.dropStream(st) // all was read
		}
	}
	return true, nil
}

// piece returns the piece of a stream that has offset off, and the stream. It drops the pieces before, and sees
// to it that those up to to and two more are under way. If the table has not as many, left is how many bytes the stream
// has to read, the first time; otherwise it is -1.
func (s *tableState) piece(off, to int64) (f *flight, st *stream, left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if !st.has(off) {
			continue
		}
		s.all.mu.Lock()
		s.all.clock++
		st.used = s.all.clock
		s.all.mu.Unlock()
		i := slices.IndexFunc(st.pieces, func(f *flight) bool { return f.has(off) })
		// A reader of several goroutines, or one that looks back a little, may need the piece before.
		st.pieces = slices.Delete(st.pieces, 0, max(i-1, 0))
		f := st.pieces[min(i, 1)]
		at := s.at.Load()
		for !st.reaches(min(off, f.from), max(to, f.to), at) {
			s.growLocked(st)
		}
		left := at - off
		if st.back {
			left = off
		}
		if st.led || left >= ahead*pieceSize {
			return f, st, -1
		}
		st.led = true
		return f, st, left
	}
	return nil, nil, -1
}

// streaming reports whether a stream has offset off. Then nothing need be fetched ahead for it.
func (s *tableState) streaming(off int64) bool {
	s.follow(off)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.streams, func(st *stream) bool { return st.has(off) })
}

// removeStream takes a stream from its table, and ends its requests.
func (s *tableState) removeStream(st *stream) {
	st.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(other *stream) bool { return other == st })
}

// dropStream ends a stream. Readers that wait for a piece of it get an error of the context, and read the
// bytes by themselves.
func (b *Tables) dropStream(st *stream) {
	b.mu.Lock()
	b.live = slices.DeleteFunc(b.live, func(other *stream) bool { return other == st })
	b.mu.Unlock()
	st.table.removeStream(st)
}

// dropStreams ends all streams of a table.
func (b *Tables) dropStreams(s *tableState) {
	s.mu.Lock()
	all := slices.Clone(s.streams)
	s.mu.Unlock()
	for _, st := range all {
		b.dropStream(st)
	}
}
