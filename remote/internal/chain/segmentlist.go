package chain

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// The list of segments is a chain: each one says where the next one stands. To follow it one by one
// takes a way to the bucket and back for each. So a LIST guesses which segments come, they are
// fetched at the same time, and the chain then decides which of them count.

const (
	// segmentsAhead is how many segments are fetched at the same time. A strict store may have tens of thousands of
	// small ones, and the time goes into the way to the bucket and back.
	segmentsAhead = 64
	// aheadBytes is how many bytes these have together, unless one is longer.
	aheadBytes = 64 << 20
)

// A SegmentList reads a store's list of segments, in order, and several ahead.
type SegmentList struct {
	Bucket  bucket.Bucket
	StoreID uint64
	Heads   bool // only the headers are read
	AtOnce  int  // 0: segmentsAhead; 1: the caller's goroutine reads them
}

// A Listed segment is one of the list, which may have been read without its body.
// Its body, if it was read, is memory of its own and belongs to the caller.
type Listed struct {
	*object.Segment
	Length int64  // of the body, in bytes
	Sum    uint32 // the crc32c of the body, as the header states it
}

// At returns where the segment stands.
func (s Listed) At() object.Position { return object.Position{Log: s.Log, Offset: s.Offset} }

// BodyEnd returns where the body ends in the log.
func (s Listed) BodyEnd() object.Position {
	return object.Position{Log: s.Log, Offset: s.Offset + s.Length}
}

// After returns the place where the list goes on behind s.
func (s Listed) After() object.Position { return object.BehindSegment(s.Segment, s.Length) }

// From yields the segments from a place on. Each one says where the next one stands, and those that a
// LIST names are fetched ahead. It ends where the list of segments does, or with an error. That wraps fs.ErrNotExist if a
// segment is missing although others follow: it was collected, or the bucket has lost it.
func (l SegmentList) From(ctx context.Context, at object.Position) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		// Deferred calls run from the last one up: the context ends first, and then the fetches
		// that nobody needs any more return soon.
		var fetches sync.WaitGroup
		defer fetches.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for c, err := range l.ahead(ctx, at, &fetches) {
			if err != nil {
				yield(Listed{}, err)
				return
			}
			// A LIST may leave out a segment that was made meanwhile, although it has later ones.
			for at.Before(c.At) {
				s, err := l.read(ctx, at, -1)
				if !yield(s, err) || err != nil {
					return
				}
				at = s.After()
			}
			if c.At.Before(at) {
				continue // not in the list: nothing of shale's leaves such an object
			}
			s, err := c.get()
			if !yield(s, err) || err != nil {
				return
			}
			at = s.After()
		}
	}
}

// A coming is a segment that is being fetched.
// It counts against aheadBytes until it is handed over.
type coming struct {
	At   object.Position
	size int64                  // of what is fetched, in bytes
	get  func() (Listed, error) // waits for it
}

// ahead yields the segments that a LIST has from a place on, and fetches them meanwhile, which the caller waits for.
func (l SegmentList) ahead(ctx context.Context, from object.Position, fetches *sync.WaitGroup) iter.Seq2[coming, error] {
	if l.AtOnce == 0 {
		l.AtOnce = segmentsAhead
	}
	return func(yield func(coming, error) bool) {
		var queue []coming
		var failed error
		size := int64(0) // of those in the queue
		for info, err := range l.Bucket.List(ctx, object.SegmentFolder, object.JustBefore(from)) {
			if failed = err; err != nil {
				break
			}
			name, ok := object.ParseName(info.Name)
			if !ok {
				continue
			}
			c := coming{At: object.Position{Log: name.Num, Offset: name.Offset}, size: info.Size}
			if l.Heads {
				c.size = object.SegmentHeader
			}
			// Before one more is fetched, the oldest ones are handed over until there is room for
			// it, in number and in bytes. A segment that is longer than aheadBytes is fetched
			// alone.
			for size += c.size; len(queue) == l.AtOnce || len(queue) > 0 && size > aheadBytes; queue = queue[1:] {
				if !yield(queue[0], nil) {
					return
				}
				size -= queue[0].size
			}
			c.get = l.fetch(ctx, c.At, info.Size, fetches)
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

// fetch begins to read a segment that a LIST has named. The result waits for it. A segment that is collected meanwhile is an
// error only if the walk comes to it.
func (l SegmentList) fetch(ctx context.Context, at object.Position, size int64, fetches *sync.WaitGroup) func() (Listed, error) {
	if l.AtOnce == 1 {
		return func() (Listed, error) { return l.read(ctx, at, size) }
	}
	var s Listed
	var err error
	done := make(chan struct{})
	fetches.Go(func() {
		s, err = l.read(ctx, at, size)
		close(done)
	})
	return func() (Listed, error) {
		<-done
		return s, err
	}
}

// read reads the segment at a position. size is the size of the object in a LIST, or negative if it is not known.
func (l SegmentList) read(ctx context.Context, at object.Position, size int64) (Listed, error) {
	return Twice(func() (Listed, error) {
		guess := SegmentGuess
		switch {
		case l.Heads:
			return readHead(ctx, l.Bucket, l.StoreID, at)
		case size > object.SegmentHeader+object.MaxBody:
			return Listed{}, base.Corruption(at.String(), -1, "segment", fmt.Errorf("it has %d bytes", size))
		case size >= 0:
			guess = int(size) + 1 // all of it, and its end, with one request
		}
		s, err := readGuessed(ctx, l.Bucket, l.StoreID, at, guess)
		if err != nil {
			return Listed{}, err
		}
		return Listed{Segment: s, Length: int64(len(s.Body))}, nil
	})
}
