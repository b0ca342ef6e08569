package sstable

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// ReaderOptions say what table to expect, and how to read it.
type ReaderOptions struct {
	// What the manifest knows. Size 0: unknown, as for tools that were given
	// nothing but a file; then the source must have a method
	// Size() (int64, error), and number and store id are taken from the footer
	// where they are 0 here. Checksum 0 is not compared.
	Num      base.FileNum
	StoreID  uint64
	Size     int64
	Checksum uint32

	// Seq is the sequence number of all entries, if the table was ingested.
	Seq base.Seq

	Cache    *cache.Cache // nil: keeps nothing
	Stats    *Stats       // nil: nobody asks
	Sidecar  *Sidecar     // has the filter to use; nil: the one in the table is
	NoFilter bool         // leave the filter on disk

	// Retried is told of the error of a read ahead, in whose place blocks are
	// then read one by one: what is wrong with them, each tells by itself.
	// nil: nobody asks.
	Retried func(error)
}

// A Reader is an open table. Its index and its filter are resident.
type Reader struct {
	// Constant after Open.
	src     io.ReaderAt
	cache   *cache.Cache
	stats   *Stats
	retried func(error) // nil: nobody asks
	num     base.FileNum
	name    string
	size    int64
	seed    uint32
	seq     base.Seq // of all entries, which are ingested; 0: they have their own
	foot    footer
	props   Properties
	index   index // top level
	indexed int64 // bytes of memory behind index
	beside  int   // of these beside the heap; who reads index ends with KeepAlive(r)

	// filter is replaced as a whole, by Open, DropSecondUnit, LoadFilter and
	// SetSidecar. sidecar is where it comes from, nil: from the table itself. The
	// errors say why what is in either file is not used.
	filter     atomic.Pointer[LoadedFilter]
	sidecar    atomic.Pointer[Sidecar]
	filterErr  atomic.Pointer[error]
	sidecarErr atomic.Pointer[error]
}

// tailRead is how much Open reads at once from the end of the file: the
// footer, the properties, and in most tables the index.
const tailRead = 64 << 10

var tails = sync.Pool{New: func() any { return new([tailRead + 1]byte) }}

// Open reads footer, properties, index and filter of a table. It takes two or
// three reads. src stays the caller's to close.
func Open(src io.ReaderAt, o ReaderOptions) (*Reader, error) {
	r := &Reader{src: src, cache: o.Cache, stats: o.Stats, retried: o.Retried, num: o.Num, size: o.Size, name: base.TableName(o.Num)}
	if r.cache == nil {
		r.cache = cache.New(0)
	}
	if r.stats == nil {
		r.stats = new(Stats)
	}
	if err := r.findSize(); err != nil {
		return nil, err
	}
	buf := tails.Get().(*[tailRead + 1]byte)
	defer tails.Put(buf)
	t, err := r.readTail(buf[:])
	if err != nil {
		return nil, err
	}
	if err := r.openFooter(t, o); err != nil {
		return nil, err
	}
	if err := r.openProperties(t); err != nil {
		return nil, err
	}
	r.number(o.Seq)
	if err := r.openIndex(t); err != nil {
		return nil, err
	}
	r.loadForOpen(t, o)
	return r, nil
}

func (r *Reader) findSize() error {
	if r.size > 0 {
		return nil
	}
	s, ok := r.src.(interface{ Size() (int64, error) })
	if !ok {
		return errors.New("sstable: open: size unknown")
	}
	size, err := s.Size()
	if err != nil {
		return fmt.Errorf("sstable: open %s: %w", r.name, err)
	}
	r.size = size
	return nil
}

// A tail is what was read of the end of the file.
type tail struct {
	b  []byte
	at int64 // its file offset
}

// slice returns the n bytes at a file offset if they were read.
func (t tail) slice(offset int64, n int) ([]byte, bool) {
	if offset < t.at || offset-t.at > int64(len(t.b)-n) {
		return nil, false
	}
	from := int(offset - t.at)
	return t.b[from : from+n], true
}

// readTail reads the end of the file, and asks for a byte more: there must not
// be one.
func (r *Reader) readTail(buf []byte) (tail, error) {
	n := int(min(r.size, tailRead))
	at := r.size - int64(n)
	got, err := r.src.ReadAt(buf[:n+1], at)
	switch {
	case got > n:
		return tail{}, base.Corruption(r.name, r.size, "end of file", errors.New("file is longer than it should be"))
	case got == n && (err == nil || isEOF(err)):
		return tail{b: buf[:n], at: at}, nil
	}
	return tail{}, r.readError(err, BlockKind(0), at+int64(got))
}

// openFooter checks that this is the table that the caller wants.
func (r *Reader) openFooter(t tail, o ReaderOptions) error {
	fail := func(err error) error { return r.damage(max(r.size-footerSize, 0), "footer", err) }
	if r.size < footerSize {
		return fail(errTruncated)
	}
	f, err := decodeFooter(t.b, r.size)
	if err != nil {
		return fail(err)
	}
	known := o.Size > 0
	switch {
	case f.num != o.Num && (known || o.Num != 0):
		return fail(fmt.Errorf("footer of table %d", uint64(f.num)))
	case f.storeID != o.StoreID && (known || o.StoreID != 0):
		return fail(errors.New("table of another store"))
	case o.Checksum != 0 && f.checksum != o.Checksum:
		return fail(errors.New("file checksum differs from the manifest"))
	}
	r.foot = *f
	r.num, r.name = f.num, base.TableName(f.num)
	r.seed = checksumSeed(f.storeID, f.num)
	return nil
}

func (r *Reader) openProperties(t tail) error {
	h := r.foot.props
	payload, err := r.readMeta(t, h, BlockProperties, alignedBytes)
	if err != nil {
		return err
	}
	p, err := decodeProperties(payload)
	if err != nil {
		return r.damage(h.offset, BlockProperties.String(), err)
	}
	if p.DataBytes > r.foot.index.offset {
		return r.damage(h.offset, BlockProperties.String(), errPropsValue)
	}
	r.props = *p
	return nil
}

// number gives the entries of an ingested table their number.
func (r *Reader) number(seq base.Seq) {
	if r.props.ingested == 1 {
		r.seq, r.props.MinSeq, r.props.MaxSeq = seq, seq, seq
	}
}

func (r *Reader) openIndex(t tail) error {
	payload, err := r.readMeta(t, r.foot.index, BlockIndex, func(n int) []byte {
		b, beside := residentBytes(r, n)
		if beside {
			r.beside = n
		}
		return b
	})
	if err != nil {
		return err
	}
	if err := checkIndex(payload, r.foot.index.offset); err != nil {
		return r.damage(r.foot.index.offset, BlockIndex.String(), err)
	}
	r.index = viewIndex(payload)
	r.indexed = int64(len(payload))
	return nil
}

// readMeta returns the payload of a block that stays in memory, decompressed
// into memory of alloc's.
func (r *Reader) readMeta(t tail, h handle, kind BlockKind, alloc func(n int) []byte) ([]byte, error) {
	b, ok := t.slice(h.offset, h.stored+blockTail)
	if !ok {
		b = make([]byte, h.stored+blockTail)
		if err := r.readAt(b, h.offset, kind); err != nil {
			return nil, err
		}
	}
	payload, c, err := openBlock(b, r.seed, kind, h.offset)
	if err != nil {
		return nil, r.damage(h.offset, kind.String(), err)
	}
	raw := alloc(h.raw)
	if c != noCompression {
		err = decompress(raw, payload, c)
	} else if copy(raw, payload) != len(payload) || len(payload) != h.raw {
		err = errRawLength
	}
	if err != nil {
		return nil, r.damage(h.offset, kind.String(), err)
	}
	return raw, nil
}

var errFilterKeys = errors.New("filter of other keys than the table's")

// readFilter reads the filter in the table into memory whose lines are cache
// lines.
func (r *Reader) readFilter(t tail) (*LoadedFilter, error) {
	h := r.foot.filter
	l := &LoadedFilter{rule: r.props.prefixRule}
	b := l.alloc(h.stored + blockTail)
	if cached, ok := t.slice(h.offset, len(b)); ok {
		copy(b, cached)
	} else if err := r.readAt(b, h.offset, BlockFilter); err != nil {
		return nil, err
	}
	f, err := r.openFilter(b)
	if err != nil {
		return nil, err
	}
	l.filter = *f
	return l, nil
}

// openFilter returns the filter that b, its block, begins with.
func (r *Reader) openFilter(b []byte) (*bloom.Static, error) {
	h := r.foot.filter
	r.stats.FilterReads.Add(1)
	f, err := openFilterBlock(b, r.seed, h.offset)
	if err == nil && f.Keys() != min(r.props.Keys+r.props.prefixes, math.MaxUint32) {
		err = errFilterKeys
	}
	if err != nil {
		return nil, r.damage(h.offset, BlockFilter.String(), err)
	}
	return f, nil
}

// openFilterBlock checks a filter block, of a table or a sidecar, and returns the
// filter that it begins with.
func openFilterBlock(b []byte, seed uint32, offset int64) (*bloom.Static, error) {
	payload, c, err := openBlock(b, seed, BlockFilter, offset)
	if err != nil {
		return nil, err
	}
	if c != noCompression {
		return nil, fmt.Errorf("%w (filter with %v)", base.ErrFormatTooNew, c)
	}
	f, err := bloom.OpenStatic(payload)
	if errors.Is(err, bloom.ErrUnknown) {
		err = fmt.Errorf("%w (%w)", base.ErrFormatTooNew, err)
	}
	return f, err
}

// alignedBytes allocates n bytes whose address is a multiple of filterAlign.
func alignedBytes(n int) []byte {
	b := make([]byte, n+filterAlign-1)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (filterAlign - 1))
	return b[skip : skip+n : skip+n]
}

func loadError(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// Props returns the table's properties. Slices in it must not be changed.
func (r *Reader) Props() Properties { return r.props }

// Checksum returns the file's checksum as the footer has it.
func (r *Reader) Checksum() uint32 { return r.foot.checksum }

// FilterBytes returns the length of the filter in the table, in use or not.
func (r *Reader) FilterBytes() int64 { return int64(r.foot.filter.stored) }

// Rank returns about which part of the table comes before key, by counting blocks,
// or partitions of the index. Nothing is read.
func (r *Reader) Rank(key []byte) float64 {
	i := r.index.search(key, base.NewTrailer(base.MaxSeq, base.KindMax))
	runtime.KeepAlive(r)
	return min(1, (float64(i)+0.5)/float64(r.index.n))
}

// MemoryBytes returns what the resident index and filter take.
func (r *Reader) MemoryBytes() (index, filter int64) {
	if f := r.Filter(); f != nil {
		filter = int64(f.SizeBytes())
	}
	return r.indexed, filter
}
