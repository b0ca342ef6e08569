package remote

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/shaledb/shale/internal/base"
)

const (
	// segmentsAhead is how many segments a restore and Verify fetch at the same time. A strict store may have tens of
	// thousands of small ones, and the time goes into the way to the bucket and back.
	segmentsAhead = 64
	// aheadBytes is how many bytes these have together, unless one is longer.
	aheadBytes = 64 << 20
)

// A segmentList reads a store's list of segments, in order, and several ahead.
type segmentList struct {
	b       Bucket
	storeID uint64
}

// from yields the segments from a place on. Each one says where the next one stands, and those that a
// LIST names are fetched ahead. It ends where the list of segments does. An error, which ends it too,
// is damage that names the object, if a segment does not check, or is missing although others follow.
func (l segmentList) from(ctx context.Context, at place) iter.Seq2[*Segment, error] {
	return func(yield func(*Segment, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next, stop := iter.Pull(l.ahead(ctx, at))
		defer stop()
		for c, more := next(); more; {
			var s *Segment
			err := c.err
			switch found := (place{c.name.Num, c.name.Offset}); {
			case err != nil:
			case found.before(at):
				c, more = next() // not in the list: nothing of shale's leaves such an object
				continue
			case found == at:
				s, err = c.get()
				c, more = next()
			default:
				// A LIST may leave out what was made meanwhile, although it has what follows that.
				s, err = twice(func() (*Segment, error) { return readSegment(ctx, l.b, l.storeID, at) })
				err = missing(err, at.String(), "segment before "+c.name.String())
			}
			if !yield(s, err) || err != nil {
				return
			}
			at = s.after()
		}
	}
}

// A coming is a segment that is being fetched, or an error of the LIST.
type coming struct {
	name Name
	size int64
	err  error
	get  func() (*Segment, error) // waits for it
}

// ahead yields the segments that a LIST has from a place on, and fetches them meanwhile.
func (l segmentList) ahead(ctx context.Context, at place) iter.Seq[coming] {
	return func(yield func(coming) bool) {
		var queue []coming
		size := int64(0) // of those in the queue
		after := logFolder(at.log)
		if at.off > 0 {
			after = justBefore(at)
		}
		for info, err := range l.b.List(ctx, segmentFolder, after) {
			name, ok := ParseName(info.Name)
			if err == nil && (!ok || name.Kind != KindSegment) {
				continue
			}
			c := coming{name: name, size: info.Size, err: err}
			for size += c.size; len(queue) == segmentsAhead || len(queue) > 0 && size > aheadBytes; queue = queue[1:] {
				if !yield(queue[0]) {
					return
				}
				size -= queue[0].size
			}
			if err == nil {
				c.get = l.fetch(ctx, info)
			}
			queue = append(queue, c)
		}
		for _, c := range queue {
			if !yield(c) {
				return
			}
		}
	}
}

// fetch begins to read a segment that a LIST has named. The result waits for it.
func (l segmentList) fetch(ctx context.Context, info Info) func() (*Segment, error) {
	type result struct {
		s   *Segment
		err error
	}
	done := make(chan result, 1)
	// It ends by itself, or when the caller's context is done.
	go func() {
		s, err := twice(func() (*Segment, error) {
			src, err := readWhole(ctx, l.b, info)
			if err != nil {
				return nil, err
			}
			return DecodeSegment(info.Name, l.storeID, src)
		})
		done <- result{s, missing(err, info.Name, "segment")}
	}()
	return func() (*Segment, error) {
		r := <-done
		return r.s, r.err
	}
}

// readWhole reads an object whose size a LIST has stated, by one call. The caller checks the bytes
// against the checksums in them.
func readWhole(ctx context.Context, b Bucket, info Info) ([]byte, error) {
	if info.Size <= 0 || info.Size > segmentHeader+maxBody {
		return nil, base.Corruption(info.Name, -1, "segment", fmt.Errorf("it has %d bytes", info.Size))
	}
	src := make([]byte, info.Size)
	n, err := b.ReadAt(ctx, info.Name, src, 0)
	if err == io.EOF {
		src, err = src[:n], nil // the decoder says that it is too short
	}
	return src, err
}
