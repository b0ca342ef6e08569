package redisbloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Sizes of the format, in bytes.
const (
	headerLen = 20
	linkLen   = 53
	maxChunk  = 16 << 20
	// headerIter is the iterator that goes with the header.
	headerIter = 1
)

// ScanDump returns a part of the filter, as BF.SCANDUMP does. Call it with 0 first,
// and then with the iterator that it has returned, until that is 0 and the chunk
// nil. Give every other chunk to BF.LOADCHUNK, or to a Loader, together with the
// iterator that was returned with it.
//
// The chunk is a part of the filter. The caller must not change it, and it is
// valid until the filter changes.
func (f *Filter) ScanDump(iterator int64) (next int64, chunk []byte) {
	return f.scanDump(iterator, maxChunk)
}

// scanDump is ScanDump with chunks of at most most bytes.
func (f *Filter) scanDump(iterator int64, most uint64) (next int64, chunk []byte) {
	if iterator < 0 || len(f.links) == 0 {
		return 0, nil
	}
	if iterator == 0 {
		return headerIter, f.header()
	}
	at := uint64(iterator - headerIter)
	for i := range f.links {
		l := &f.links[i]
		if at < l.bytes {
			chunk = l.bf[at:min(at+most, l.bytes):min(at+most, l.bytes)]
			return iterator + int64(len(chunk)), chunk
		}
		at -= l.bytes
	}
	return 0, nil
}

// Chunks yields all pairs that ScanDump returns, except for the last, which only
// marks the end.
func (f *Filter) Chunks() iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		for it, chunk := f.ScanDump(0); it != 0; it, chunk = f.ScanDump(it) {
			if !yield(it, chunk) {
				return
			}
		}
	}
}

// AppendBinary appends the chunks of BF.SCANDUMP, one after the other and without their
// iterators: the header, and the bits of all links. Redis has no such form; it is for files
// and encoders. For the zero value it returns [ErrParameters] and dst as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.links) == 0 {
		return dst, fmt.Errorf("redisbloom: write filter: %w: no links", ErrParameters)
	}
	dst = append(dst, f.header()...)
	for i := range f.links {
		dst = append(dst, f.links[i].bf...)
	}
	return dst, nil
}

// MarshalBinary returns the bytes that AppendBinary appends.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary replaces the filter by the one that MarshalBinary wrote as b. It keeps
// nothing of b. The errors are those of Load. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	if len(b) < headerLen {
		return damage("a header of %d bytes", len(b))
	}
	n := headerLen + linkLen*uint64(binary.LittleEndian.Uint32(b[8:]))
	if n > uint64(len(b)) {
		return damage("a header of %d bytes in %d", n, len(b))
	}
	var l Loader
	if err := l.LoadChunk(headerIter, b[:n]); err != nil {
		return err
	}
	at := int64(headerIter)
	for b = b[n:]; len(b) > 0; {
		if l.link == len(l.f.links) {
			return damage("%d bytes behind the last link", len(b))
		}
		chunk := b[:min(uint64(len(b)), l.f.links[l.link].bytes)]
		at += int64(len(chunk))
		if err := l.LoadChunk(at, chunk); err != nil {
			return err
		}
		b = b[len(chunk):]
	}
	made, err := l.Filter()
	if err == nil {
		*f = *made
	}
	return err
}

// WriteTo writes the bytes of MarshalBinary. The header says how many there are, so that
// ReadFrom finds their end.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	b, err := f.AppendBinary(nil)
	if err != nil {
		return 0, err
	}
	wrote, err := w.Write(b)
	if err != nil {
		return int64(wrote), fmt.Errorf("redisbloom: write filter: %w", err)
	}
	return int64(wrote), nil
}

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and replaces the filter by
// it. The memory that it takes grows with the bytes that arrive. The errors are those of
// UnmarshalBinary; io.EOF if r has ended, and io.ErrUnexpectedEOF if it ends inside. After an
// error the filter is as it was.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	var b bytes.Buffer
	more := func(length uint64) error {
		read, err := io.CopyN(&b, r, int64(min(length, math.MaxInt64)))
		if n += read; errors.Is(err, io.EOF) && n > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("redisbloom: read filter: %d bytes: %w", n, err)
		}
		return nil
	}
	if err := more(headerLen); err != nil {
		return n, err
	}
	if err := more(linkLen * uint64(binary.LittleEndian.Uint32(b.Bytes()[8:]))); err != nil {
		return n, err
	}
	made, err := parseHeader(b.Bytes(), (*link).check)
	if err != nil {
		return n, err
	}
	bits := uint64(0)
	for i := range made.links {
		if bits += made.links[i].bytes; bits > math.MaxInt/2 {
			return n, damage("%d links of more than %d bytes", len(made.links), bits)
		}
	}
	if err := more(bits); err != nil {
		return n, err
	}
	return n, f.UnmarshalBinary(b.Bytes())
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// header returns the encoded header: everything but the bits.
func (f *Filter) header() []byte {
	b := make([]byte, 0, headerLen+linkLen*len(f.links))
	b = binary.LittleEndian.AppendUint64(b, f.items)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.links)))
	b = binary.LittleEndian.AppendUint32(b, f.options)
	b = binary.LittleEndian.AppendUint32(b, f.growth)
	for i := range f.links {
		l := &f.links[i]
		for _, v := range []uint64{l.bytes, l.bits, l.items, math.Float64bits(l.errorRate), math.Float64bits(l.bpe)} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		b = binary.LittleEndian.AppendUint32(b, l.hashes)
		b = binary.LittleEndian.AppendUint64(b, l.entries)
		b = append(b, l.n2)
	}
	return b
}

// parseHeader decodes a header, and checks each link. The links of its result have no bits yet.
func parseHeader(b []byte, check func(*link) error) (*Filter, error) {
	if len(b) < headerLen {
		return nil, damage("a header of %d bytes", len(b))
	}
	f := &Filter{
		items:   binary.LittleEndian.Uint64(b),
		options: binary.LittleEndian.Uint32(b[12:]),
		growth:  binary.LittleEndian.Uint32(b[16:]),
	}
	n := binary.LittleEndian.Uint32(b[8:])
	switch b = b[headerLen:]; {
	case f.options&^knownFlags != 0 || f.options&force64 == 0:
		return nil, fmt.Errorf("redisbloom: load: %w: options %d", bloom.ErrUnknown, f.options)
	case n == 0 || uint64(len(b)) != linkLen*uint64(n):
		return nil, damage("%d links in %d bytes", n, len(b))
	}
	f.links = make([]link, n)
	var items uint64
	for i := range f.links {
		l := &f.links[i]
		l.parse(b[i*linkLen:][:linkLen])
		if err := check(l); err != nil {
			return nil, damage("link %d: %v", i, err)
		}
		if items+l.items < items {
			return nil, damage("link %d: %d items", i, l.items)
		}
		items += l.items
	}
	if items != f.items {
		return nil, damage("%d items, the links have %d", f.items, items)
	}
	return f, nil
}

// parse decodes a link of linkLen bytes.
func (l *link) parse(b []byte) {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	*l = link{
		bytes:     word(0),
		bits:      word(8),
		items:     word(16),
		errorRate: math.Float64frombits(word(24)),
		bpe:       math.Float64frombits(word(32)),
		hashes:    binary.LittleEndian.Uint32(b[40:]),
		entries:   word(44),
		n2:        b[52],
	}
}

// check returns an error for values that no link has, as Redis does, and for a link that
// is too large for any server.
func (l *link) check() error {
	switch {
	case !(l.errorRate > 0 && l.errorRate < 1):
		return fmt.Errorf("error rate %v", l.errorRate)
	case l.bytes == 0 || l.bytes > min(maxLinkBytes, math.MaxInt) || l.bits != 8*l.bytes:
		return fmt.Errorf("%d bits in %d bytes", l.bits, l.bytes)
	case l.n2 > 63 || l.n2 > 0 && l.bits < 1<<l.n2:
		return fmt.Errorf("n2 %d of %d bits", l.n2, l.bits)
	case !(l.bpe > 0 && l.bpe < 2*maxHashes) || l.hashes != hashesOf(l.bpe) || l.hashes > maxHashes:
		return fmt.Errorf("%d hashes for %v bits an entry", l.hashes, l.bpe)
	}
	return nil
}

// A Loader makes a filter from the chunks of BF.SCANDUMP, as BF.LOADCHUNK does. The zero
// value is ready for the header. Chunks may have any size within their link, but must come
// in order and without a gap. The Loader allocates memory for the bytes that have come, not
// for those that the header promises.
type Loader struct {
	f    *Filter
	link int   // index of the link that the next chunk belongs to
	at   int64 // iterator of the last chunk
}

// LoadChunk takes the next chunk, and the iterator that came with it. It keeps nothing of
// chunk. After an error nothing has changed, and the chunk may be sent again.
func (l *Loader) LoadChunk(iterator int64, chunk []byte) error {
	if l.f == nil {
		if iterator != headerIter {
			return damage("iterator %d, the header comes first, with 1", iterator)
		}
		f, err := parseHeader(chunk, (*link).check)
		if err != nil {
			return err
		}
		l.f, l.at = f, headerIter
		return nil
	}
	switch {
	case l.link == len(l.f.links):
		return damage("iterator %d after the end", iterator)
	case len(chunk) == 0 || l.at > math.MaxInt64-int64(len(chunk)) || iterator != l.at+int64(len(chunk)):
		return damage("iterator %d with %d bytes after iterator %d", iterator, len(chunk), l.at)
	}
	to := &l.f.links[l.link]
	left := to.bytes - uint64(len(to.bf))
	if uint64(len(chunk)) > left {
		return damage("%d bytes for link %d, which lacks %d", len(chunk), l.link, left)
	}
	if cap(to.bf)-len(to.bf) < len(chunk) {
		// Grow doubles the slice at least, but not above the size of the link.
		to.bf = slices.Grow(to.bf, int(min(left, uint64(max(len(chunk), len(to.bf))))))
	}
	to.bf = append(to.bf, chunk...)
	l.at = iterator
	if uint64(len(to.bf)) == to.bytes {
		l.link++
	}
	return nil
}

// Filter returns the filter. The Loader is then empty and ready for another one. If chunks
// are missing, Filter returns an error and nothing changes.
func (l *Loader) Filter() (*Filter, error) {
	switch {
	case l.f == nil:
		return nil, damage("no header")
	case l.link < len(l.f.links):
		return nil, damage("it ends in link %d of %d", l.link, len(l.f.links))
	}
	f := l.f
	*l = Loader{}
	return f, nil
}

// Load makes a filter from chunks, such as those of [Filter.Chunks].
func Load(chunks iter.Seq2[int64, []byte]) (*Filter, error) {
	var l Loader
	for it, chunk := range chunks {
		if err := l.LoadChunk(it, chunk); err != nil {
			return nil, err
		}
	}
	return l.Filter()
}

func damage(format string, args ...any) error {
	return fmt.Errorf("redisbloom: load: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}
