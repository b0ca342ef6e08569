package sstable

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// ReaderOptions say which table to expect, and how to read it.
type ReaderOptions struct {
	// What the manifest says about the table. Open fails if the file differs.
	//
	// A Size of 0 means that nothing is known: a tool was given a file without a store. Then
	// the source must have a method Size() (int64, error), and a Num or StoreID of 0 is taken
	// from the footer. A Checksum of 0 is not compared.
	Num      base.FileNum
	StoreID  uint64
	Size     int64
	Checksum uint32

	// Session is the session that the table must be of, if it has one; 0: it is not known.
	Session uint64

	// Seq is the sequence number of all entries, if the table was ingested. Other tables
	// ignore it.
	Seq base.Seq

	Cache    *cache.Cache // for blocks; nil: a cache that keeps nothing
	Stats    *Stats       // counts reads; nil: nothing is counted
	Rules    *RulesInUse  // counts the rules of filters in memory; nil: nothing is counted
	Sidecar  *Sidecar     // the file with the filter to use; nil: use the one in the table
	NoFilter bool         // do not load a filter
	NoIndex  bool         // do not load the index: see HasIndex

	// Later makes Open read the file once. It checks footer and properties, and loads of the
	// index and the filter only what this read has brought along. The rest is left for whoever
	// needs it first, or for LoadIndex and LoadFilter: see needed.go.
	Later bool

	// Unread is called, with the number of the table, by a lookup that could not read a filter which Open has left.
	// LoadFilter returns the reason. If Unread is nil, nobody is called.
	Unread func(base.FileNum)

	// Retried is called with the error of a failed read ahead. The iterator then reads the
	// blocks one by one, and returns an error only if it comes to a block that can't be read.
	// nil: the error is dropped.
	Retried func(error)
}

// A Reader is an open table. Open reads its properties, its index and its filter, which stay
// in memory. A lookup needs only data blocks from the file, and partitions if the index is
// large. The index may also be left out, or be dropped later; then lookups read it through the
// cache.
//
// What the Reader has in memory may be off the Go heap, where it is freed when nothing leads
// to its owner any more: a loadedIndex or a LoadedFilter.
type Reader struct {
	// Constant after Open.
	src     io.ReaderAt
	try     tryReader // src, if it can read without waiting; nil: it can't
	cache   *cache.Cache
	stats   *Stats
	rules   *RulesInUse
	retried func(error)        // ReaderOptions.Retried
	unread  func(base.FileNum) // ReaderOptions.Unread
	num     base.FileNum
	size    int64
	seed    uint32
	seq     base.Seq // number of all entries of an ingested table; 0: entries have their own
	foot    footer
	props   Properties

	// index is the index in memory, or its top level; nil: it is read through the cache. Open,
	// LoadIndex and DropIndex replace it as a whole. It is next to filter, so that the lookup
	// that has asked the filter has this pointer too.
	index atomic.Pointer[loadedIndex]

	// filter is the filter in memory; nil: there is none. Open, DropSecondUnit, DropFilter,
	// LoadFilter and SetSidecar replace it as a whole, while lookups go on with what they
	// have loaded. sidecar is the file that the filter in use comes from; nil: the table
	// itself. The two errors say why the filter in the table, or that in the sidecar, is not
	// used.
	filter     atomic.Pointer[LoadedFilter]
	sidecar    atomic.Pointer[Sidecar]
	filterErr  atomic.Pointer[error]
	indexErr   atomic.Pointer[error] // of the last LoadIndex
	sidecarErr atomic.Pointer[error]
	stored     atomic.Pointer[bloom.Stored] // the filter in the table, once AskStored has asked it

	// What Open has left for whoever needs it first: leftIndex, leftFilter. One goroutine at a
	// time reads the index, and one the filter, so that nothing is read twice.
	left    atomic.Uint32
	loading [2]sync.Mutex

	sought atomic.Uint32 // see Sought
}

// tailRead is the number of bytes that Open reads at once from the end of the file. They
// contain the footer, the properties, and in most tables the index.
//
// With ReaderOptions.Later, laterRead bytes are read. They contain the footer of any version.
const (
	tailRead  = 64 << 10
	laterRead = maxFooter
)

// tails has buffers for laterRead bytes. Longer ones are made for those that open a table alone.
var tails = sync.Pool{New: func() any { return new([laterRead + 1]byte) }}

// Open opens a table. It reads the end of the file, then the parts that were not in it: in
// all, two or three reads. It checks the footer against the options, then the properties and
// the index, unless the options leave that out. A filter that can't be read is no error: see
// FilterErr and SidecarErr.
//
// src must stay open as long as the Reader is used. The caller closes it.
func Open(src io.ReaderAt, o ReaderOptions) (*Reader, error) {
	r := newReader(src, o)
	if err := r.findSize(); err != nil {
		return nil, err
	}
	var buf []byte
	if o.Later {
		pooled := tails.Get().(*[laterRead + 1]byte)
		defer tails.Put(pooled)
		buf = pooled[:]
	} else {
		buf = make([]byte, tailRead+1)
	}
	t, err := r.readTail(buf)
	if err != nil {
		return nil, err
	}
	if err := r.openFooter(t, o); err != nil {
		return nil, err
	}
	if err := r.openProperties(t, o.Session); err != nil {
		return nil, err
	}
	r.Number(o.Seq)
	if err := r.openIndex(t, o); err != nil {
		return nil, err
	}
	r.loadForOpen(t, o)
	return r, nil
}

// newReader returns a Reader that has read nothing.
func newReader(src io.ReaderAt, o ReaderOptions) *Reader {
	r := &Reader{src: src, cache: o.Cache, stats: o.Stats, rules: o.Rules, retried: o.Retried, unread: o.Unread, num: o.Num, size: o.Size}
	r.try, _ = src.(tryReader)
	if r.cache == nil {
		r.cache = cache.New(0)
	}
	if r.stats == nil {
		r.stats = new(Stats)
	}
	return r
}

// OpenLost returns a Reader of a table of which Open has returned err, which lasts. Whatever needs an entry reads from the
// file and fails, as long as that is damaged. A sidecar is used as ever: keys says how many its filter must have.
func OpenLost(src io.ReaderAt, o ReaderOptions, keys uint64, err error) *Reader {
	r := newReader(src, o)
	r.seed = checksumSeed(o.StoreID, o.Num)
	r.props.Keys = keys
	// The index is taken for what stands where the footer should be. That has never the checksum of an index.
	n := min(r.size, footerSize) - blockTail
	r.foot = footer{num: o.Num, storeID: o.StoreID, levels: 1, index: handle{offset: max(r.size-footerSize, 0), stored: int(max(n, 1)), raw: int(max(n, 1))}}
	r.filterErr.Store(&err)
	r.indexErr.Store(&err)
	r.loadForOpen(tail{}, o)
	return r
}

// openIndex loads the index for Open, unless the options leave it for later.
func (r *Reader) openIndex(t tail, o ReaderOptions) error {
	if o.NoIndex {
		return nil
	}
	if o.Later && !t.holds(r.foot.index) {
		r.left.Or(leftIndex)
		return nil
	}
	x, err := r.readIndex(t)
	if err == nil {
		r.index.Store(x)
	}
	return err
}

// findSize asks the source for the size of the file, if the options do not state it.
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
		return fmt.Errorf("sstable: open %s: %w", nameOf(r.src, base.TableName(r.num)), err)
	}
	r.size = size
	return nil
}

// A tail is the end of the file, as far as Open has read it.
type tail struct {
	b  []byte
	at int64 // its file offset
}

// slice returns the n bytes at a file offset, and true, if the tail contains all of them.
func (t tail) slice(offset int64, n int) ([]byte, bool) {
	if offset < t.at || offset-t.at > int64(len(t.b)-n) {
		return nil, false
	}
	from := int(offset - t.at)
	return t.b[from : from+n], true
}

// holds reports whether the tail contains all of block h.
func (t tail) holds(h handle) bool {
	_, ok := t.slice(h.offset, h.stored+blockTail)
	return ok
}

// readTail reads the end of the file into buf, up to all of it but its last byte. It asks for one byte more
// than there should be, and fails if it gets it: a file that is too long is damaged.
func (r *Reader) readTail(buf []byte) (tail, error) {
	n := int(min(r.size, int64(len(buf)-1)))
	at := r.size - int64(n)
	got, err := r.src.ReadAt(buf[:n+1], at)
	switch {
	case got > n:
		return tail{}, r.damage(r.size, "end of file", errors.New("file is longer than it should be"))
	case got == n && (err == nil || isEOF(err)):
		return tail{b: buf[:n], at: at}, nil
	}
	return tail{}, r.readError(err, BlockKind(0), at+int64(got))
}

// openFooter reads the footer, and checks that the file is the table that the caller wants.
// All later checks of blocks use the number and the store id from the footer.
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
	r.num = f.num
	// From here on, blocks of other tables do not check.
	r.seed = checksumSeed(f.storeID, f.num)
	return nil
}

// openProperties reads the properties. They stay in memory of their own: Smallest and Largest
// are parts of it.
func (r *Reader) openProperties(t tail, session uint64) error {
	h := r.foot.props
	payload, err := r.readMeta(t, h, BlockProperties, alignedBytes)
	if err != nil {
		return err
	}
	p, err := decodeProperties(payload)
	if err != nil {
		return r.damage(h.offset, BlockProperties.String(), err)
	}
	if session != 0 && p.Session != 0 && p.Session != session {
		return r.damage(h.offset, BlockProperties.String(), fmt.Errorf("session is %016x, want %016x: "+
			"the table belongs to another state of the store, as if a copy was put over newer files", p.Session, session))
	}
	// Readers limit reads ahead by DataBytes, so it must be within the file.
	if p.DataBytes > r.foot.index.offset {
		return r.damage(h.offset, BlockProperties.String(), errPropsValue)
	}
	r.props = *p
	return nil
}

// Number gives all entries of an ingested table their sequence number. Other tables keep
// theirs. Open does that with ReaderOptions.Seq. A table that is opened before its number is
// known gets it later, before anybody reads an entry: blocks in the cache have the number.
func (r *Reader) Number(seq base.Seq) {
	if r.props.ingested == 1 {
		r.seq, r.props.MinSeq, r.props.MaxSeq = seq, seq, seq
	}
}

// readMeta reads a block that stays in memory, from t if it is there, else from the file. It
// checks the block and returns its payload, decompressed, in memory from alloc.
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

// readFilter reads the filter in the table, from t if it is there, else from the file. Its
// memory is aligned to cache lines.
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

// openFilter checks the filter block b, and returns the filter in it. The number of keys must
// be that of the properties. A filter of fewer keys would deny some of the table's.
func (r *Reader) openFilter(b []byte) (*bloom.Static, error) {
	h := r.foot.filter
	r.stats.FilterReads.Add(1)
	f, err := openFilterBlock(b, r.seed, h.offset)
	if err == nil && f.Count() != min(r.props.Keys+r.props.prefixes, math.MaxUint32) {
		err = errFilterKeys
	}
	if err != nil {
		return nil, r.damage(h.offset, BlockFilter.String(), err)
	}
	return f, nil
}

// openFilterBlock checks the filter block b, of a table or of a sidecar, and returns the
// filter in it. The filter is a view of b.
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

// alignedBytes allocates n bytes at an address that is a multiple of filterAlign.
func alignedBytes(n int) []byte {
	b := make([]byte, n+filterAlign-1)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (filterAlign - 1))
	return b[skip : skip+n : skip+n]
}

// loadError returns the error in p, or nil.
func loadError(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// Props returns the table's properties. The caller must not change the slices in it.
func (r *Reader) Props() Properties { return r.props }

// Checksum returns the checksum of the file that its footer states.
func (r *Reader) Checksum() uint32 { return r.foot.checksum }

// FilterBytes returns the length of the filter in the table, whether it is in use or not.
func (r *Reader) FilterBytes() int64 { return int64(r.foot.filter.stored) }

// MemoryBytes returns how many bytes of memory the index and the filter take now.
func (r *Reader) MemoryBytes() (index, filter int64) {
	if r.HasIndex() {
		index = r.IndexBytes()
	}
	if f := r.Filter(); f != nil {
		filter = int64(f.SizeBytes())
	}
	return index, filter
}
