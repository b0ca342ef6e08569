package remote

import (
	"context"
	"errors"
	"slices"
)

// Sequential reads are recognised by their misses: who has to fetch the fourth neighbour in a row is likely
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

// A run is a row of fetches that are neighbours.
type run struct {
	next  int64 // where the next one would begin
	count int
}

// A stream is a table that is read from front to back.
type stream struct {
	table *tableState

	// Guarded by table.mu.
	pieces []*flight // neighbours; the reader is in the first or second one
	used   int64     // value of bucketFiles.clock when it was last read
	ctx    context.Context
	cancel context.CancelFunc
}

// note records that bytes from to to had to be fetched. It reports whether they are the fourth neighbour in a row.
func (s *tableState) note(from, to int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		r := &s.runs[i]
		if r.count == 0 || from > r.next || to <= r.next || from < r.next-pageSize {
			continue
		}
		r.next = to
		if r.count++; r.count < neighbours {
			return false
		}
		*r = run{}
		return true
	}
	s.runs[s.nextRun%len(s.runs)] = run{next: to, count: 1}
	s.nextRun++
	return false
}

// openStream begins a stream at an offset. It does nothing if there are too many.
func (s *tableState) openStream(from int64) {
	b := s.all
	b.mu.Lock()
	if len(b.live) >= maxStreams {
		i := slices.IndexFunc(b.live, func(st *stream) bool { return b.clock-st.used > idleReads })
		if i < 0 {
			b.mu.Unlock()
			return
		}
		old := b.live[i]
		b.live = slices.Delete(b.live, i, i+1)
		b.mu.Unlock()
		old.table.removeStream(old)
		b.mu.Lock()
	}
	st := &stream{table: s, used: b.clock}
	st.ctx, st.cancel = context.WithCancel(b.ctx)
	b.live = append(b.live, st)
	b.mu.Unlock()
	s.mu.Lock()
	s.streams = append(s.streams, st)
	s.growLocked(st, from)
	s.mu.Unlock()
}

// growLocked begins to fetch the next piece of a stream. The first one begins at from.
func (s *tableState) growLocked(st *stream, from int64) {
	if n := len(st.pieces); n > 0 {
		from = st.pieces[n-1].to
	}
	f := &flight{from: from, to: min(from+pieceSize, s.at.Load()), done: make(chan struct{})}
	st.pieces = append(st.pieces, f)
	s.all.background.Go(func() {
		s.all.counts.streams.Add(1)
		f.b = make([]byte, f.to-f.from)
		f.err = s.all.get(st.ctx, s.storedFile, f.b, f.from)
		close(f.done)
	})
}

// readStream fills p from a stream that has its bytes. done is false if there is none.
func (s *tableState) readStream(p []byte, off int64) (done bool, err error) {
	for first := true; len(p) > 0; first = false {
		f, st := s.piece(off, off+int64(len(p)))
		if f == nil {
			// Another reader may have dropped the stream after the first round.
			if !first {
				return true, s.readData(p, off)
			}
			return false, nil
		}
		<-f.done
		if f.err != nil {
			s.all.dropStream(st)
			if st.ctx.Err() != nil && s.all.ctx.Err() == nil {
				continue // it was dropped for another one
			}
			return true, f.err
		}
		n := copy(p, f.b[off-f.from:])
		p, off = p[n:], off+int64(n)
		if off > s.at.Load()-mostPadding {
			s.all.dropStream(st) // all was read
		}
	}
	return true, nil
}

// piece returns the piece of a stream that has offset off, and the stream. It drops the pieces before, and sees
// to it that those up to to and two more are under way.
func (s *tableState) piece(off, to int64) (*flight, *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		last := st.pieces[len(st.pieces)-1]
		if off < st.pieces[0].from || off >= last.to {
			continue
		}
		s.all.mu.Lock()
		s.all.clock++
		st.used = s.all.clock
		s.all.mu.Unlock()
		i := slices.IndexFunc(st.pieces, func(f *flight) bool { return off < f.to })
		// A reader of several goroutines, or one that looks back a little, may need the piece before.
		st.pieces = slices.Delete(st.pieces, 0, max(i-1, 0))
		f := st.pieces[min(i, 1)]
		for at := s.at.Load(); ; {
			last := st.pieces[len(st.pieces)-1]
			if last.to >= at || last.to >= max(to, f.to)+ahead*pieceSize {
				break
			}
			s.growLocked(st, 0)
		}
		return f, st
	}
	return nil, nil
}

// streaming reports whether a stream has offset off.
func (s *tableState) streaming(off int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.streams, func(st *stream) bool {
		return off >= st.pieces[0].from && off < st.pieces[len(st.pieces)-1].to
	})
}

// removeStream takes a stream from its table, and ends its requests.
func (s *tableState) removeStream(st *stream) {
	st.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(other *stream) bool { return other == st })
}

// dropStream ends a stream.
func (b *bucketFiles) dropStream(st *stream) {
	b.mu.Lock()
	b.live = slices.DeleteFunc(b.live, func(other *stream) bool { return other == st })
	b.mu.Unlock()
	st.table.removeStream(st)
}

// dropStreams ends all streams of a table.
func (b *bucketFiles) dropStreams(s *tableState) {
	s.mu.Lock()
	all := slices.Clone(s.streams)
	s.mu.Unlock()
	for _, st := range all {
		b.dropStream(st)
	}
}
