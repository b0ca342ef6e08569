package bloom

import (
	"encoding/binary"
	"io"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// A Stored is a serialized filter that is asked where it lies, in a file for example, and is never in memory. A question
// reads only what has the answer: of a Blocked one line of 64 bytes, and one more for a key that passes the first of two units; of
// a Fuse three times 4 bytes. Any number of goroutines may ask it at once.
//
// Its checksum is one over all bytes, so a Stored can't check it. The caller must know otherwise that each read returns what was
// written: where a bit of a Blocked has become 0, keys that it holds are denied.
type Stored struct {
	// Constant after construction.
	first, second lines.Unit // without Bytes, and only if fuse is nil; second has 0 lines if there is none
	fuse          *Fuse      // without its bytes
	hasher        Hasher
}

// StoredEnd is how many bytes at the end of a serialized filter [OpenStored] needs.
const StoredEnd = form.TrailerLen + fuseSeedLen

// OpenStored returns the filter of size bytes, in its serialized form, whose last StoredEnd bytes are end. It does not
// keep end. The errors are those of [OpenStatic], but that for the checksum.
func OpenStored(end []byte, size int64) (*Stored, error) {
	if len(end) != StoredEnd || size <= StoredEnd {
		return nil, form.Damage("%d bytes of %d, want the last %d", len(end), size, StoredEnd)
	}
	if form.Trailer(end)[0] == form.KindFuse {
		t, err := parseFuse(end, size, everyHash)
		if err != nil {
			return nil, err
		}
		f := newFuse(end, t)
		f.bytes = nil
		return &Stored{fuse: f, hasher: t.hasher}, nil
	}
	t, err := parseTrailer(end, size, everyHash)
	if err != nil {
		return nil, err
	}
	return &Stored{
		first:  lines.Unit{Lines: uint64(t.lines[0]), K: t.k[0]},
		second: lines.Unit{Lines: uint64(t.lines[1]), K: t.k[1]},
		hasher: t.hasher,
	}, nil
}

// Hasher returns the function that keys have to be hashed with.
func (s *Stored) Hasher() Hasher { return s.hasher }

// MayContainHash is that of a [Static], for the filter whose bytes begin at offset off of src. What it reads goes into buf.
// After an error the answer is maybe. It allocates nothing.
func (s *Stored) MayContainHash(src io.ReaderAt, off int64, h uint64, buf *[lineBytes]byte) (maybe bool, err error) {
	if s.fuse != nil {
		return s.fuse.mayContainIn(src, off, h, buf)
	}
	maybe, err = mayContainLine(src, off, s.first, h, buf)
	if maybe && err == nil && s.second.Lines > 0 {
		maybe, err = mayContainLine(src, off+int64(s.first.Lines)*lineBytes, s.second, lines.SecondHash(h), buf)
	}
	return maybe, err
}

// mayContainLine reports whether the unit whose lines begin at offset off of src may have h.
func mayContainLine(src io.ReaderAt, off int64, u lines.Unit, h uint64, buf *[lineBytes]byte) (maybe bool, err error) {
	if err := readFull(src, buf[:], off+int64(lines.Place(h, u.Lines))*lineBytes); err != nil {
		return true, err
	}
	return lines.Has(buf[:], 1, u.K, h), nil
}

// mayContainIn is MayContainHash for a filter whose fingerprints begin at offset off of src.
func (f *Fuse) mayContainIn(src io.ReaderAt, off int64, h uint64, buf *[lineBytes]byte) (maybe bool, err error) {
	h = form.Finish(h + f.seed)
	first, _ := bits.Mul64(h, f.span)
	second, third := fusePlaces(h, first, f.length)
	x := uint32(h) ^ uint32(h>>32)
	for _, place := range [...]uint64{first, second, third} {
		at := place * f.r // in bits
		if err := readFull(src, buf[:4], off+int64(at>>3)); err != nil {
			return true, err
		}
		x ^= binary.LittleEndian.Uint32(buf[:]) >> (at & 7)
	}
	return x&f.mask == 0, nil
}

// readFull fills p from offset off of src.
func readFull(src io.ReaderAt, p []byte, off int64) error {
	n, err := src.ReadAt(p, off)
	if n < len(p) {
		return err
	}
	return nil
}
