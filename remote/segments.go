package remote

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
)

const (
	// segmentsAhead is how many segments are fetched at the same time. A strict store may have tens of thousands of
	// small ones, and the time goes into the way to the bucket and back.
	segmentsAhead = 64
	// aheadBytes is how many bytes these have together, unless one is longer.
	aheadBytes = 64 << 20
)

// A segmentList reads a store's list of segments, in order, and several ahead.
type segmentList struct {
	b       Bucket
	storeID uint64
	heads   bool // only the headers are read
	atOnce  int  // 0: segmentsAhead; 1: the caller's goroutine reads them
}

// A listed segment is one of the list, which may have been read without its body.
type listed struct {
	*Segment
	length int64  // of the body, in bytes
	sum    uint32 // the crc32c of the body, as the header states it
}

// at returns where the segment stands.
func (s listed) at() object.Position { return object.Position{Log: s.Log, Offset: s.Offset} }

// end returns where the body ends in the log.
func (s listed) end() object.Position {
	return object.Position{Log: s.Log, Offset: s.Offset + s.length}
}

// after returns the place where the list goes on behind s.
func (s listed) after() object.Position { return object.BehindSegment(s.Segment, s.length) }

// from yields the segments from a place on. Each one says where the next one stands, and those that a
// LIST names are fetched ahead. It ends where the list of segments does, or with an error. That wraps fs.ErrNotExist if a
// segment is missing although others follow: it was collected, or the bucket has lost it.
func (l segmentList) from(ctx context.Context, at object.Position) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		var fetches sync.WaitGroup
		defer fetches.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for c, err := range l.ahead(ctx, at, &fetches) {
			if err != nil {
				yield(listed{}, err)
				return
			}
			// A LIST may leave out what was made meanwhile, although it has what follows that.
			for at.Before(c.at) {
				s, err := l.read(ctx, at, -1)
				if !yield(s, err) || err != nil {
					return
				}
				at = s.after()
			}
			if c.at.Before(at) {
				continue // not in the list: nothing of shale's leaves such an object
			}
			s, err := c.get()
			if !yield(s, err) || err != nil {
				return
			}
			at = s.after()
		}
	}
}

// A coming is a segment that is being fetched.
type coming struct {
	at   object.Position
	size int64                  // of what is fetched, in bytes
	get  func() (listed, error) // waits for it
}

// ahead yields the segments that a LIST has from a place on, and fetches them meanwhile, which the caller waits for.
func (l segmentList) ahead(ctx context.Context, from object.Position, fetches *sync.WaitGroup) iter.Seq2[coming, error] {
	if l.atOnce == 0 {
		l.atOnce = segmentsAhead
	}
	return func(yield func(coming, error) bool) {
		var queue []coming
		var failed error
		size := int64(0) // of those in the queue
		for info, err := range l.b.List(ctx, object.SegmentFolder, object.JustBefore(from)) {
			if failed = err; err != nil {
				break
			}
			name, ok := ParseName(info.Name)
			if !ok {
				continue
			}
			c := coming{at: object.Position{Log: name.Num, Offset: name.Offset}, size: info.Size}
			if l.heads {
				c.size = object.SegmentHeader
			}
			for size += c.size; len(queue) == l.atOnce || len(queue) > 0 && size > aheadBytes; queue = queue[1:] {
				if !yield(queue[0], nil) {
					return
				}
				size -= queue[0].size
			}
			c.get = l.fetch(ctx, c.at, info.Size, fetches)
			queue = append(queue, c)
		}
		for _, c := range queue {
			if !yield(c, nil) {
				return
			}
		}
		if failed != nil {
			yield(coming{}, failed)
		}
	}
}

// fetch begins to read a segment that a LIST has named. The result waits for it.
func (l segmentList) fetch(ctx context.Context, at object.Position, size int64, fetches *sync.WaitGroup) func() (listed, error) {
	if l.atOnce == 1 {
		return func() (listed, error) { return l.read(ctx, at, size) }
	}
	var s listed
	var err error
	done := make(chan struct{})
	fetches.Go(func() {
		s, err = l.read(ctx, at, size)
		close(done)
	})
	return func() (listed, error) {
		<-done
		return s, err
	}
}

// read reads the segment at a place. size is that of the object as a LIST states it, or negative if it is not known.
func (l segmentList) read(ctx context.Context, at object.Position, size int64) (listed, error) {
	return twice(func() (listed, error) {
		guess := segmentGuess
		switch {
		case l.heads:
			return readHead(ctx, l.b, l.storeID, at)
		case size > object.SegmentHeader+object.MaxBody:
			return listed{}, base.Corruption(at.String(), -1, "segment", fmt.Errorf("it has %d bytes", size))
		case size >= 0:
			guess = int(size) + 1 // all of it, and its end, with one request
		}
		s, err := readGuessed(ctx, l.b, l.storeID, at, guess)
		if err != nil {
			return listed{}, err
		}
		return listed{Segment: s, length: int64(len(s.Body))}, nil
	})
}
