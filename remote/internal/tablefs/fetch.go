package tablefs

import (
	"time"

	"github.com/shaledb/shale/remote/internal/object"
)

// How bytes of data blocks come from the bucket: from the cache of pages, or by one GET that serves everybody who needs the
// same bytes meanwhile, or from a stream, if a reader goes through the table (sequential.go).

// readData fills p with bytes of data blocks from offset off. Requires: the tail begins at or after the
// end of p.
func (s *tableState) readData(p []byte, off int64) error {
	lo, hi := off, off+int64(len(p)) // what is missing in p
	if done, err := s.readStream(p, off); done {
		return s.fails(lo, hi, err)
	}
	for {
		if lo, hi = s.fromCache(p, off, lo, hi); lo >= hi {
			return nil
		}
		if err := s.failedNow(lo, hi); err != nil {
			return err
		}
		// Either this goroutine makes the GET, or another one makes it and this one waits. If the
		// answer has only a part of what is missing, the next round asks for the rest.
		f, mine := s.join(lo, hi)
		switch {
		case mine && s.note(f.from, f.to):
			s.abort(f, f.from, false)
		case mine:
			s.fly(f)
		}
		<-f.done
		if f.err == errAborted {
			if done, err := s.readStream(p[lo-off:hi-off], lo); done {
				return s.fails(lo, hi, err)
			}
			continue
		}
		if f.err != nil {
			return s.fails(lo, hi, f.err)
		}
		lo, hi = f.copyTo(p, off, lo, hi)
	}
}

// A failure is the last read that has waited for the bucket in vain.
type failure struct {
	from, to int64
	err      error
	at       time.Time
}

// rightAfter is how long after a failure a read of a part of it takes the same error.
const rightAfter = 100 * time.Millisecond

// fails notes that a read of bytes from to to has failed, unless it has found damage, and returns err.
func (s *tableState) fails(from, to int64, err error) error {
	if err != nil && !object.IsDamage(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = failure{from, to, err, time.Now()}
	}
	return err
}

// failedNow returns the error of the read that has just failed, if the caller wants a part of that and not all, and nil the next
// time. An iterator that could not read ahead reads the block alone, as the rest may be what can't be read. But the bucket is away
// from all of it, and to wait for it once more would take as long again.
func (s *tableState) failedNow(lo, hi int64) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.failure; f.err != nil && f.from <= lo && hi <= f.to && hi-lo < f.to-f.from {
		if s.failure = (failure{}); time.Since(f.at) < rightAfter {
			return f.err
		}
	}
	return nil
}

// fromCache copies the pages that the cache has into p, which begins at offset off. lo and hi say which part of
// p is missing; the result is the part that is missing now.
func (s *tableState) fromCache(p []byte, off, lo, hi int64) (int64, int64) {
	// Pages are taken from the front and then from the back. So what is missing stays one range,
	// and is one GET.
	for lo < hi {
		n := min(hi, lo/pageSize*pageSize+pageSize) - lo
		if !s.all.pages.read(s.page(lo), p[lo-off:lo-off+n], uint32(lo%pageSize)) {
			break
		}
		lo += n
	}
	for lo < hi {
		n := hi - max(lo, (hi-1)/pageSize*pageSize)
		if !s.all.pages.read(s.page(hi-n), p[hi-n-off:hi-off], uint32((hi-n)%pageSize)) {
			break
		}
		hi -= n
	}
	return lo, hi
}

// page returns the page with an offset.
func (s *tableState) page(off int64) pageID { return pageID{s.fileID, uint32(off / pageSize)} }

// A flight is one GET that is under way, or was. All that wait for it read its bytes.
// Its bytes belong to all of them, and nobody changes them.
type flight struct {
	from, to int64 // offsets in the object

	done chan struct{} // closed when the following fields are set
	b    []byte
	err  error
}

// has reports whether the flight brings the byte at an offset.
func (f *flight) has(off int64) bool { return off >= f.from && off < f.to }

// failed reports whether the flight has come to an end without its bytes.
func (f *flight) failed() bool {
	select {
	case <-f.done:
		return f.err != nil
	default:
		return false
	}
}

// abort ends a flight that is not made, because a stream takes its place. Those who wait for it begin again, and find
// that.
func (s *tableState) abort(f *flight, at int64, back bool) {
	s.openStream(at, back)
	s.land(f, errAborted)
}

// copyTo copies what the flight has of p, which begins at off and of which lo to hi are missing. It returns
// the part that is missing now. If the flight has bytes in the middle only, the missing part stays as it was.
func (f *flight) copyTo(p []byte, off, lo, hi int64) (int64, int64) {
	from, to := max(lo, f.from), min(hi, f.to)
	switch {
	case from >= to:
	case from == lo:
		copy(p[from-off:to-off], f.b[from-f.from:])
		lo = to
	case to == hi:
		copy(p[from-off:to-off], f.b[from-f.from:])
		hi = from
	}
	return lo, hi
}

// join returns the flight that brings a part of [lo, hi). mine says that there was none: the caller must call fly.
func (s *tableState) join(lo, hi int64) (f *flight, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		if f.from < hi && lo < f.to {
			return f, false
		}
	}
	from, to := span(lo, hi, s.at.Load())
	f = &flight{from: from, to: to, done: make(chan struct{})}
	s.flights = append(s.flights, f)
	return f, true
}

// span returns which bytes are fetched if [lo, hi) is missing, of data that ends at end: whole pages. Bytes of two
// pages that fit into one are fetched as a part of each, so that a block costs one GET of a page.
// For example, a block from 60 to 70 KiB is fetched with the bytes from 32 to 96 KiB: half of each
// page.
func span(lo, hi, end int64) (from, to int64) {
	first, last := lo/pageSize, (hi-1)/pageSize
	from, to = first*pageSize, (last+1)*pageSize
	if last == first+1 && hi-lo <= pageSize {
		from = max(min(lo, last*pageSize-pageSize/2), hi-pageSize)
		to = from + pageSize
	}
	return from, min(to, end)
}

// mostCached is the longest fetch that goes to the cache. A caller that fetches more reads it once.
const mostCached = 4 * pageSize

// fly makes the GET of a flight.
func (s *tableState) fly(f *flight) {
	b := make([]byte, f.to-f.from)
	err := s.all.get(s.all.ctx, s.File, b, f.from)
	if err == nil && len(b) <= mostCached {
		s.fill(f.from, b)
	}
	f.b = b
	s.land(f, err)
}

// fill puts bytes from offset off into the cache, page by page. The first and the last page may be there in part.
func (s *tableState) fill(off int64, b []byte) {
	for len(b) > 0 {
		n := min(int64(len(b)), pageSize-off%pageSize)
		s.all.pages.write(s.page(off), b[:n], uint32(off%pageSize))
		off, b = off+n, b[n:]
	}
}

// land ends a flight, and wakes the readers that wait for it. The cache has its bytes already, so a reader that comes later
// finds them there; after an error it makes a flight of its own.
func (s *tableState) land(f *flight, err error) {
	f.err = err
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.flights {
		if s.flights[i] == f {
			s.flights = append(s.flights[:i], s.flights[i+1:]...)
			break
		}
	}
	close(f.done)
}

// prefetch fetches [lo, hi) in the background, unless it is there or under way, or too much else is. The caller does not wait
// and learns of no error: whoever reads these bytes asks again.
func (s *tableState) prefetch(lo, hi int64) {
	from, to := lo, hi
	for lo < hi && s.cached(max(lo, (hi-1)/pageSize*pageSize), hi) {
		hi = max(lo, (hi-1)/pageSize*pageSize) // a reader that goes back has this page
	}
	if lo == hi || s.all.ctx.Err() != nil || s.streaming(lo) {
		return
	}
	// Fetches that nobody waits for are the first to be left out when there are many.
	select {
	case s.all.permits <- struct{}{}:
	default:
		return
	}
	f, mine := s.join(lo, hi)
	if mine && s.noteBack(from, to) {
		s.abort(f, f.to, true)
		mine = false
	}
	if !mine {
		<-s.all.permits
		return
	}
	s.all.background.Go(func() {
		s.fly(f)
		<-s.all.permits
	})
}

// cached reports whether the cache has all of [lo, hi).
func (s *tableState) cached(lo, hi int64) bool {
	for lo < hi {
		n := min(hi, lo/pageSize*pageSize+pageSize) - lo
		from := uint32(lo % pageSize)
		if !s.all.pages.holds(s.page(lo), from, from+uint32(n)) {
			return false
		}
		lo += n
	}
	return true
}
