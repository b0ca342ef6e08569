package main

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// A filter is a Bloom filter with a name. Its bits are in memory, and all that has been
// acknowledged is in the store: a dump of some generation, and a log of what was
// added since.
type filter struct {
	id   uint64
	name string

	// changing is held by whoever changes the filter or saves it, and by whoever deletes
	// it. Questions do not wait for it, only for mu.
	changing sync.Mutex
	gone     bool   // deleted; guarded by changing
	stale    bool   // a write to the store failed: memory may know more than it; guarded by changing
	gen      uint64 // of the dump in the store; guarded by changing
	slots    uint32 // number of log records of this generation; guarded by changing
	logged   int64  // bytes of them; guarded by changing
	saveAt   int64  // logged bytes from which up the filter is saved; guarded by changing

	// mu guards what follows. It is taken for writing with changing held only.
	mu      sync.RWMutex
	bf      *redisbloom.Filter // nil while the filter is being loaded, or if it can't be read
	loading *redisbloom.Loader // of BF.LOADCHUNK; nil when all chunks are there
	shape   shape
	err     error // why there is no bf
}

// Why a filter does not answer.
const (
	errLoading  = replyError("ERR the filter is being loaded: BF.LOADCHUNK has not brought its last chunk")
	errTooLarge = replyError("ERR Insufficient memory to create filter")
	errFull     = replyError("ERR non scaling filter is full")
	errInsert   = replyError("ERR problem inserting into filter")
	errBadData  = replyError("ERR received bad data")
)

// view calls fn with the bits for reading.
func (f *filter) view(fn func(*redisbloom.Filter)) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if err := f.usable(); err != nil {
		return err
	}
	fn(f.bf)
	return nil
}

// usable says why there are no bits. Requires: mu is held.
func (f *filter) usable() error {
	switch {
	case f.err != nil:
		return f.err
	case f.loading != nil:
		return errLoading
	}
	return nil
}

// add adds an item, and reports whether it was new. Requires: mu is held for
// writing, and the filter is usable.
func (f *filter) add(item []byte, most int64) (bool, error) {
	grows := f.shape.room == 0 && f.shape.next > 0
	if grows && float64(f.shape.bytes)+f.shape.next > float64(most) && !f.bf.MayContain(item) {
		return false, errInsert // it would grow too large
	}
	maybe, err := f.bf.CheckAndAdd(item)
	added := !maybe
	switch {
	case errors.Is(err, redisbloom.ErrFull):
		return false, errFull
	case err != nil:
		return false, errInsert
	case added && grows:
		f.reshape()
	case added && f.shape.room > 0:
		f.shape.room--
	}
	return added, nil
}

// reshape takes the shape from the filter. Requires: mu is held for writing.
func (f *filter) reshape() {
	_, header := f.bf.ScanDump(0)
	f.shape, _ = shapeOf(header) // it is the filter's own
}

// A shape is what a header says about the links of a filter (see package redisbloom).
type shape struct {
	links []uint64 // bytes of each
	bytes uint64   // of all
	room  uint64   // items that the last link still takes
	next  float64  // bytes of the next link; 0 if there may be none
}

// Places in a header, and options of a filter: sizes are not rounded up to a power of two; there
// is one link only.
const (
	headerLen  = 20
	linkLen    = 53
	noRounding = 1
	nonScaling = 8
)

// shapeOf reads a header. ok is false if it is too short or its sizes make no sense.
func shapeOf(header []byte) (s shape, ok bool) {
	le := binary.LittleEndian
	if len(header) < headerLen+linkLen || uint64(len(header)) != headerLen+linkLen*uint64(le.Uint32(header[8:])) {
		return shape{}, false
	}
	options, growth := le.Uint32(header[12:]), le.Uint32(header[16:])
	for at := headerLen; at < len(header); at += linkLen {
		l := header[at:]
		bytes := le.Uint64(l)
		if bytes > math.MaxUint32<<10 {
			return shape{}, false
		}
		s.links = append(s.links, bytes)
		s.bytes += bytes
		if at+linkLen < len(header) {
			continue
		}
		items, rate, entries := le.Uint64(l[16:]), math.Float64frombits(le.Uint64(l[24:])), le.Uint64(l[44:])
		s.room = entries - min(items, entries)
		if options&nonScaling == 0 {
			s.next = filterBytes(float64(entries)*float64(growth), rate/2)
		}
		if options&noRounding == 0 {
			s.next *= 2 // a power of two of bits, as in old releases
		}
	}
	return s, true
}

// filterBytes returns the size of a Bloom filter for items at a false positive rate,
// by the formula of Bloom filters: log2(1/rate)/ln 2 bits an item.
func filterBytes(items, rate float64) float64 {
	return math.Ceil(items * -math.Log(rate) / (math.Ln2 * math.Ln2) / 8)
}
