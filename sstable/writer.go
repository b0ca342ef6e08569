package sstable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// WriterOptions describe a table to be written.
type WriterOptions struct {
	Num            base.FileNum    // stands in every checksum
	StoreID        uint64          // likewise
	BlockSize      int             // bytes of a data block before compression; default 4 KiB
	Codec          *Codec          // of blocks; nil: none
	FilterBits     float64         // filter bits a key; 0 or less: no filter
	FilterKind     bloom.Kind      // default: blocked
	Hasher         bloom.Hasher    // of the filter
	PrefixRule     base.PrefixRule // prefixes that the filter knows
	Ingested       bool            // entries, puts with number 0, get the one that the manifest will state
	indexPartition int             // bytes of index above which it has two levels; default 1 MiB
}

// Info describes a finished table: what the manifest needs to know.
type Info struct {
	Properties
	Size        int64
	Checksum    uint32 // crc32c of all bytes in front of the footer
	FilterBytes int64  // 0 if there is no filter
}

// Blocks are collected in a buffer of writeBuffer bytes, which goes to the file
// when it is nearly full.
const (
	writeBuffer = 256 << 10
	writeAt     = writeBuffer - 16<<10
)

// A Writer writes one table. Its first error is final.
type Writer struct {
	// Constant.
	file vfs.File
	opts WriterOptions
	seed uint32

	// The block in the making and those before it.
	data  dataBuilder
	index indexBuilder
	comp  compressor
	begun bool
	last  []byte // user key of the last entry, within data
	lastT base.Trailer
	hash  uint64 // of last
	sep   []byte // the last separator

	hashes   hashCollector
	props    Properties
	estimate int64 // of the file's size, without the block in the making

	// Output.
	buf    []byte
	offset int64 // file offset behind buf
	crc    uint32
	err    error
	done   bool
}

// NewWriter starts a table in the empty file f, which stays the caller's to
// close. The writer ends with Finish or Abandon, or keeps memory.
func NewWriter(f vfs.File, o WriterOptions) *Writer {
	if o.BlockSize <= 0 {
		o.BlockSize = 4 << 10
	}
	if o.indexPartition <= 0 {
		o.indexPartition = defaultPartition
	}
	w := &Writer{
		file: f,
		opts: o,
		seed: checksumSeed(o.StoreID, o.Num),
		comp: compressor{codec: o.Codec},
		buf:  make([]byte, 0, writeBuffer),
	}
	if o.FilterBits > 0 {
		w.hashes = newHashCollector(o.Hasher, o.PrefixRule)
	}
	return w
}

var errNumbered = errors.New("sstable: entries to be ingested have sequence numbers, or are no puts of distinct keys")

var errFinished = errors.New("sstable: writer is finished")

// Add appends an entry. Entries come in strictly ascending order; key and
// value are copied.
func (w *Writer) Add(k base.InternalKey, value []byte) error {
	if w.err != nil {
		return w.err
	}
	newKey := true
	if w.begun {
		c := bytes.Compare(w.last, k.UserKey)
		if c > 0 || c == 0 && w.lastT <= k.Trailer {
			return w.fail(fmt.Errorf("sstable: add %v: not after %v", k,
				base.InternalKey{UserKey: w.last, Trailer: w.lastT}))
		}
		newKey = c != 0
	}
	if len(k.UserKey) > maxKeySize || len(value) > maxValueSize || k.Kind() > base.KindPut {
		return w.fail(refusal(k, value))
	}
	if !w.begun {
		w.begun = true
		w.props.Smallest = append([]byte{}, k.UserKey...) // not nil, which stands for no bound
		w.props.MinSeq = base.MaxSeq
	}
	if newKey {
		w.hash = bloom.Hash(k.UserKey)
		w.hashes.addKey(k.UserKey, w.hash)
		w.props.Keys++
	}
	if w.full(k, value) {
		if err := w.finishData(k.UserKey, false); err != nil {
			return err
		}
	}
	kind := k.Kind()
	w.props.kinds |= 1 << kind
	if kind == base.KindDelete {
		w.props.Tombstones++
	}
	w.last, w.lastT = w.data.add(k, value, byte(w.hash)), k.Trailer
	return nil
}

// refusal says why a table can't hold the entry.
func refusal(k base.InternalKey, value []byte) error {
	switch {
	case len(k.UserKey) > maxKeySize:
		return fmt.Errorf("sstable: add: key of %d bytes", len(k.UserKey))
	case len(value) > maxValueSize:
		return fmt.Errorf("sstable: add: value of %d bytes", len(value))
	}
	return fmt.Errorf("sstable: add: kind %v", k.Kind())
}

// count counts the entries of the data block.
func (w *Writer) count() {
	p, d := &w.props, &w.data
	p.MinSeq, p.MaxSeq = min(p.MinSeq, d.minSeq), max(p.MaxSeq, d.maxSeq)
	p.Entries += uint64(len(d.entries))
	p.RawKeyBytes += uint64(len(d.keys))
	p.RawValueBytes += uint64(len(d.values))
	p.DataBlocks++
}

// full tells whether the block should be closed before the entry: it would
// grow too large, and is nearly full or would be dwarfed.
func (w *Writer) full(k base.InternalKey, value []byte) bool {
	entry, limit := len(k.UserKey)+len(value), w.opts.BlockSize
	if w.data.sizeAtMost()+entry <= limit {
		return false
	}
	size := w.data.size()
	return size > 0 && size+entry > limit && (size >= limit-limit/10 || entry >= limit)
}

// finishData writes the data block. next is the user key that follows, unless
// this is the last block.
func (w *Writer) finishData(next []byte, last bool) error {
	raw := w.data.finish()
	if _, err := w.writeBlock(BlockData, raw, true); err != nil {
		return err
	}
	switch {
	case last:
		w.index.add(w.last, 0, w.offset, len(raw))
	case bytes.Equal(w.last, next):
		w.index.add(w.last, w.lastT, w.offset, len(raw))
	default:
		w.sep = separator(w.sep[:0], w.last, next)
		w.index.add(w.sep, 0, w.offset, len(raw))
	}
	w.count()
	w.data.reset()
	filter := int64(float64(len(w.hashes.list.all)) * max(w.opts.FilterBits, 0) / 8)
	w.estimate = w.offset + filter + int64(w.index.size()/2) + footerSize
	return nil
}

// writeBlock writes a payload, compressed if that is wanted and worth it.
func (w *Writer) writeBlock(kind BlockKind, raw []byte, compress bool) (handle, error) {
	stored, c := raw, noCompression
	if compress {
		stored, c = w.comp.compress(raw)
	}
	h := handle{offset: w.offset, stored: len(stored), raw: len(raw)}
	start := len(w.buf)
	w.buf = append(w.buf, stored...)
	w.buf = appendBlockTail(w.buf, start, c, w.seed, kind, w.offset)
	w.offset += int64(len(w.buf) - start)
	if len(w.buf) >= writeAt {
		return h, w.flush()
	}
	return h, nil
}

// flush hands the buffer to the file.
func (w *Writer) flush() error {
	if w.err != nil {
		return w.err
	}
	w.crc = crc32.Update(w.crc, castagnoli, w.buf)
	if n, err := w.file.Write(w.buf); err != nil || n < len(w.buf) {
		if err == nil {
			err = errors.New("short write")
		}
		return w.fail(fmt.Errorf("sstable: write table %d: %w", uint64(w.opts.Num), err))
	}
	if cap(w.buf) > 2*writeBuffer {
		w.buf = make([]byte, 0, writeBuffer)
	}
	w.buf = w.buf[:0]
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// EstimatedSize returns about how large the file would be if it were finished
// now.
func (w *Writer) EstimatedSize() int64 {
	return w.estimate + int64(len(w.data.keys)+len(w.data.values))
}

// Abandon ends the writer of a table that is not to be.
func (w *Writer) Abandon() {
	w.hashes.release()
	w.done, w.err = true, cmp.Or(w.err, errFinished)
}

// Finish writes what follows the data blocks and makes the file durable. The
// writer is of no use afterwards.
func (w *Writer) Finish() (Info, error) {
	defer w.hashes.release()
	if w.err == nil && w.done {
		w.err = errFinished
	}
	w.done = true
	if w.err != nil {
		return Info{}, w.err
	}
	info, err := w.finish()
	if err != nil {
		return Info{}, w.fail(err)
	}
	w.err = errFinished
	return info, nil
}

func (w *Writer) finish() (Info, error) {
	if !w.data.empty() {
		if err := w.finishData(nil, true); err != nil {
			return Info{}, err
		}
	}
	w.props.Largest = append([]byte{}, w.last...) // likewise
	w.props.DataBytes = w.offset
	if w.opts.Ingested {
		if w.props.ingested = 1; !w.props.unnumbered() {
			return Info{}, errNumbered
		}
	}
	foot := footer{num: w.opts.Num, storeID: w.opts.StoreID, levels: 1}
	var err error
	if foot.filter, err = w.writeFilter(); err != nil {
		return Info{}, err
	}
	if foot.index, err = w.writeIndex(&foot); err != nil {
		return Info{}, err
	}
	if foot.props, err = w.writeBlock(BlockProperties, w.props.appendTo(nil), false); err != nil {
		return Info{}, err
	}
	if err := w.flush(); err != nil {
		return Info{}, err
	}
	foot.checksum = w.crc
	w.buf = foot.appendTo(w.buf)
	w.offset += footerSize
	if err := w.flush(); err != nil {
		return Info{}, err
	}
	if err := w.file.Sync(); err != nil {
		return Info{}, fmt.Errorf("sstable: sync table %d: %w", uint64(w.opts.Num), err)
	}
	return Info{
		Properties:  w.props,
		Size:        w.offset,
		Checksum:    foot.checksum,
		FilterBytes: int64(foot.filter.stored),
	}, nil
}

// writeIndex writes the index, cut into partitions if it is large.
func (w *Writer) writeIndex(foot *footer) (handle, error) {
	x := &w.index
	if x.size() > w.opts.indexPartition && x.n() > 1 {
		top := indexBuilder{start: w.offset}
		for from := 0; from < x.n(); {
			to := x.cut(from, w.opts.indexPartition)
			raw := x.payload(from, to)
			if _, err := w.writeBlock(BlockIndexPartition, raw, true); err != nil {
				return handle{}, err
			}
			top.add(x.key(to-1), x.trailers[to-1], w.offset, len(raw))
			from = to
		}
		w.props.Partitions = uint64(top.n())
		foot.levels = 2
		x = &top
	}
	return w.writeBlock(BlockIndex, x.payload(0, x.n()), true)
}
