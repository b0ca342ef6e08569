package sstable

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/shaledb/shale/internal/base"
)

// walk shows all blocks without damage, in order, and reports what is lost between them. It
// ends when yield returns false, or after an error, which is in s.err.
func (s *Salvager) walk(yield func() bool) {
	goOn := true
	switch {
	case s.foreign != nil:
		// The blocks are those of another table, so none of their checksums would fit.
		s.gap(s.foreign, nil)
		return
	case !s.hasIndex:
		goOn = s.searchRest(yield)
	case s.r.foot.levels == 1:
		goOn = s.leaf(&s.r.index.Load().index, yield)
	default:
		goOn = s.partitions(yield)
	}
	// Only a walk that has reached the end can say what is missing.
	if goOn && s.err == nil {
		s.finish()
	}
}

// finish reports the damage that only shows at the end: keys that the filter does not know,
// and a number of entries that differs from the one expected although no block was lost.
func (s *Salvager) finish() {
	r := s.r
	if s.unknown > 0 {
		s.damaged(r.damage(r.foot.filter.offset, BlockFilter.String(), fmt.Errorf("%w: %d of %d entries", errNotInFilter, s.unknown, s.entries)))
	}
	if want := s.expected(); !s.lost && want > 0 && s.entries != want {
		s.damaged(r.damage(r.foot.props.offset, BlockProperties.String(), fmt.Errorf("%w: %d, found %d", errCounts, want, s.entries)))
	}
}

// expected returns how many entries the table should have; 0: not known.
func (s *Salvager) expected() uint64 {
	if s.o.Entries == 0 && s.hasProps {
		return s.r.props.Entries
	}
	return s.o.Entries
}

// dataEnd returns where the data blocks end, or, if that is not known, an offset behind that
// place.
func (s *Salvager) dataEnd() int64 {
	switch {
	case s.hasProps:
		return s.r.props.DataBytes
	case s.hasFooter && s.r.foot.filter.stored > 0:
		return s.r.foot.filter.offset
	case s.hasFooter:
		return s.r.foot.index.offset
	}
	return s.r.size
}

// leaf shows the blocks of an index or of a partition. It returns false if the walk has to
// end.
func (s *Salvager) leaf(x *index, yield func() bool) (goOn bool) {
	for i := range x.n {
		sep := x.separator(i)
		goOn, err := s.show(x.handle(i), &sep, yield)
		if err != nil {
			if !s.survives(err) {
				return false
			}
			s.gap(err, sep.UserKey)
			if sep.Trailer == 0 { // all versions of this key are in the block that is lost or before
				s.after = sep.UserKey
			}
		}
		if !goOn {
			return false
		}
	}
	return true
}

// survives reports whether err is damage. After any other error the walk has to end, so it
// sets s.err.
func (s *Salvager) survives(err error) bool {
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		s.err = err
		return false
	}
	return true
}

// partitions shows the blocks of an index with two levels. Where partitions can't be read, it
// searches for blocks up to the first one of the next partition that can. It returns false if
// the walk has to end.
func (s *Salvager) partitions(yield func() bool) (goOn bool) {
	top := s.r.index.Load()
	var upto []byte // the last key of the damaged partitions just before; nil: there are none
	for i := range top.n {
		sep := top.separator(i)
		h := top.handle(i)
		b, err := s.r.readBlock(h, BlockIndexPartition, false, nil)
		if err != nil {
			if !s.damaged(err) {
				s.err = err
				return false
			}
			upto = sep.UserKey
			continue
		}
		x := viewIndex(b.Bytes())
		goOn = upto == nil || s.search(x.start, upto, yield)
		upto = nil
		goOn = goOn && s.leaf(&x, yield)
		b.Release()
		if !goOn {
			return false
		}
	}
	return upto == nil || s.searchRest(yield)
}

var errNoBlock = errors.New("no block checks here, and the index does not tell where the next one is")

// search shows the blocks from s.offset up to end, where no index says where they are. It
// knows where a block begins only if the one before it is good. So at the first damage it
// gives up the rest up to end, and reports that entries up to upto are lost. It returns false
// if the walk has to end.
func (s *Salvager) search(end int64, upto []byte, yield func() bool) (goOn bool) {
	for s.offset < end && !s.complete() {
		h, err := s.findBlock(s.offset, end)
		if err == nil {
			if goOn, err = s.show(h, nil, yield); !goOn {
				return false
			}
		}
		if err == nil {
			continue
		}
		if !s.survives(err) {
			return false
		}
		s.gap(err, upto)
		s.offset = end
		if upto != nil {
			s.after = upto
		}
	}
	return true
}

// searchRest is search up to the end of the data blocks. If that end is not known, only the
// expected number of entries shows that none is missing. Otherwise it reports that entries
// may be.
func (s *Salvager) searchRest(yield func() bool) (goOn bool) {
	before := s.lost
	if !s.search(s.dataEnd(), nil, yield) {
		return false
	}
	if !s.hasProps && s.lost == before && !s.complete() {
		s.gap(s.r.damage(s.offset, BlockData.String(), errTruncated), nil)
	}
	return true
}

// complete reports whether all entries have been shown. It returns false if their number is
// not known.
func (s *Salvager) complete() bool {
	want := s.expected()
	return !s.lost && want > 0 && s.entries == want
}

// maxChances limits how often a search may find a length whose checksum fits while nothing
// else does. Each costs a read of the block. Without a limit, a file that was made for this
// purpose could have its bytes read once for each of its lengths.
const maxChances = 4

// findBlock looks for a data block that begins at offset and ends at or before end. It tries
// one length after the other, extends the checksum by one byte each time, and compares it
// with the four bytes that follow. By chance, a wrong length passes with a probability of
// 2^-32, and then the structure of the block does not fit.
func (s *Salvager) findBlock(offset, end int64) (handle, error) {
	end = min(end, s.r.size)
	in := bufio.NewReaderSize(io.NewSectionReader(s.r.src, offset, end-offset), int(min(end-offset, 64<<10)))
	crc := extendChecksum(extendChecksum(s.r.seed, uint64(BlockData), 1), uint64(offset), 8)
	// crc is that of n bytes of payload. Each step adds one byte: for this length it is the
	// compression byte, and for the next one the last byte of the payload.
	for n, chances := 0, 0; n <= maxStored && chances < maxChances; n++ {
		b, err := in.Peek(blockTail) // for a payload of n bytes: the compression and the checksum
		if err != nil {
			if !isEOF(err) {
				return handle{}, s.r.readError(err, BlockData, offset+int64(n))
			}
			break
		}
		crc = extendChecksum(crc, uint64(b[0]), 1)
		if crc == binary.LittleEndian.Uint32(b[1:]) {
			if h, err := s.plausible(offset, n, Compression(b[0])); err == nil || !s.survives(err) {
				return h, err
			}
			chances++
		}
		if _, err := in.Discard(1); err != nil {
			return handle{}, s.r.readError(err, BlockData, offset+int64(n))
		}
	}
	return handle{}, s.r.damage(offset, BlockData.String(), errNoBlock)
}

// plausible checks a block of n bytes whose checksum fits, by reading it. It returns the
// complete handle. Its decompressed length is the one that the compressed bytes state.
func (s *Salvager) plausible(offset int64, n int, c Compression) (h handle, err error) {
	payload := make([]byte, n)
	if err := s.r.readAt(payload, offset, BlockData); err != nil {
		return h, err
	}
	h = handle{offset: offset, stored: n, raw: n}
	switch c {
	case snappyCompression:
		h.raw, err = snappy.DecodedLen(payload)
	case zstdCompression:
		h.raw, err = zstdLen(payload)
	}
	if err != nil || h.raw > maxStored || uint64(h.raw) > uint64(n)*maxRatio {
		return h, s.r.damage(offset, BlockData.String(), errRawLength)
	}
	b, err := s.r.readBlock(h, BlockData, false, nil)
	if err == nil {
		b.Release()
	}
	return h, err
}

// zstdLen returns the decompressed length of a zstd frame. Frames of less than 256 bytes do
// not state it, so they are decompressed.
func zstdLen(payload []byte) (int, error) {
	var frame zstd.Header
	if err := frame.Decode(payload); err != nil || frame.HasFCS {
		return int(min(frame.FrameContentSize, maxStored)), err
	}
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	out, err := d.DecodeAll(payload, make([]byte, 0, 256))
	return len(out), err
}
