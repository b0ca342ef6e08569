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

// WriterOptions describe a table that will be written.
type WriterOptions struct {
	Num        base.FileNum // the table's number; part of every checksum
	StoreID    uint64       // part of every checksum too
	Session    uint64       // a property; 0: none
	BlockSize  int          // bytes of a data block before compression; default 4 KiB
	Codec      *Codec       // of blocks; nil: none
	FilterBits float64      // bits of the filter for each key; 0 or less: no filter
	FilterKind bloom.Kind   // default: blocked
	Hasher     bloom.Hasher // of the filter

	// Builder is memory for building the filter, which writers may share if they finish one
	// after the other. Default: memory of the writer's own.
	Builder        *bloom.StaticBuilder
	PrefixRule     base.PrefixRule // which prefixes the filter knows; the zero rule: none
	Ingested       bool            // entries are puts with number 0; the manifest will state their number
	IndexPartition int             // bytes of a partition, and of an index that has only one level; default: 1 and 8 MiB
}

// Info describes a finished table. It is what the manifest needs to know.
type Info struct {
	Properties
	Size        int64
	Checksum    uint32   // crc32c of all bytes before the footer
	FilterBytes int64    // 0 if there is no filter
	Expiring    uint64   // entries that expire
	Expiry      [9]int64 // of them, when the first is over, each eighth, about, and all; 0 if there are none
}

// The writer collects blocks in a buffer of writeBuffer bytes. It writes the buffer to the
// file when it has at least writeAt bytes.
const (
	writeBuffer = 256 << 10
	writeAt     = writeBuffer - 16<<10
)

// A Writer writes one table.
//
//  1. Add collects entries in a data block. When the block is full, finishData encodes it,
//     compresses it and adds it to the index. The hash of each key goes to hashes.
//  2. Finish writes the last data block, then the filter, the index and the properties.
//  3. It computes the checksum of all of that and writes the footer, which contains it.
//  4. It syncs the file. The caller makes the file's name durable before the manifest names
//     the table.
//
// The first error is final: every later call returns it.
type Writer struct {
	// Constant.
	file vfs.File
	opts WriterOptions
	seed uint32

	// The data block that is being built, and the blocks before it.
	data  dataBuilder
	index indexBuilder
	comp  compressor
	begun bool
	last  []byte // user key of the last entry; data owns the memory
	lastT base.Trailer
	hash  uint64 // of last
	sep   []byte // buffer for a separator

	expiring expirySample
	hashes   hashCollector
	props    Properties
	estimate int64 // of the file's size in bytes, without the block that is being built

	// The output. What is in buf is not yet in the file, and not in crc.
	buf    []byte
	offset int64 // file offset behind buf
	crc    uint32
	err    error
	done   bool
}

// NewWriter starts a table in the empty file f. The caller closes f. It must also call Finish
// or Abandon, or the memory of the hashes is never freed.
func NewWriter(f vfs.File, o WriterOptions) *Writer {
	if o.BlockSize <= 0 {
		o.BlockSize = 4 << 10
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

// Add appends an entry. It copies key and value. Requires: the entry is after the one before
// it, as internal keys; otherwise Add fails.
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
	if len(k.UserKey) > maxKeySize || len(value) > maxValueSize || !k.Kind().InTables() {
		return w.fail(refusal(k, value))
	}
	if !w.begun {
		w.begun = true
		w.props.Smallest = append([]byte{}, k.UserKey...) // not nil: a nil bound means that there is none
		w.props.MinSeq = base.MaxSeq
	}
	// All versions of a key share one hash, and the filter gets it once.
	if newKey {
		w.hash = bloom.Hash(k.UserKey)
		w.hashes.addKey(k.UserKey, w.hash)
		w.props.Keys++
	}
	// The block is finished before the entry is added, because its separator depends on this
	// key.
	if w.full(k, value) {
		if err := w.finishData(k.UserKey, false); err != nil {
			return err
		}
	}
	kind := k.Kind()
	w.props.kinds |= 1 << kind
	switch kind {
	case base.KindDelete:
		w.props.Tombstones++
	case base.KindExpiring:
		w.expiring.add(w.hash, value)
	}
	w.last, w.lastT = w.data.add(k, value, byte(w.hash)), k.Trailer
	return nil
}

// refusal returns the error for an entry that a table can't hold.
func refusal(k base.InternalKey, value []byte) error {
	switch {
	case len(k.UserKey) > maxKeySize:
		return fmt.Errorf("sstable: add: key of %d bytes", len(k.UserKey))
	case len(value) > maxValueSize:
		return fmt.Errorf("sstable: add: value of %d bytes", len(value))
	}
	return fmt.Errorf("sstable: add: kind %v", k.Kind())
}

// count adds the entries of the finished data block to the properties.
func (w *Writer) count() {
	p, d := &w.props, &w.data
	p.MinSeq, p.MaxSeq = min(p.MinSeq, d.minSeq), max(p.MaxSeq, d.maxSeq)
	p.Entries += uint64(len(d.entries))
	p.RawKeyBytes += uint64(len(d.keys))
	p.RawValueBytes += uint64(len(d.values))
	p.DataBlocks++
}

// full reports whether the block should be finished before the entry is added. The entry
// would make it larger than BlockSize. And the block is nearly full already, or the entry is
// at least as large as a block, which would make lookups of the others read it.
func (w *Writer) full(k base.InternalKey, value []byte) bool {
	entry, limit := len(k.UserKey)+len(value), w.opts.BlockSize
	if w.data.sizeAtMost()+entry <= limit {
		return false
	}
	size := w.data.size()
	return size > 0 && size+entry > limit && (size >= limit-limit/10 || entry >= limit)
}

// finishData writes the data block, and adds it to the index. next is the user key that
// follows; last says that there is none.
//
// The separator is as short as possible. Only if versions of one key are in this block and
// the next, it has to be the last entry itself, with its trailer.
func (w *Writer) finishData(next []byte, last bool) error {
	raw := w.data.finish()
	if _, err := w.writeBlock(BlockData, raw, true); err != nil {
		return err
	}
	switch {
	case last:
		// No key follows that the separator would have to be before.
		w.index.add(w.last, 0, w.offset, len(raw))
	case bytes.Equal(w.last, next):
		// Versions of one key are in both blocks, so only a trailer can separate them.
		w.index.add(w.last, w.lastT, w.offset, len(raw))
	default:
		w.sep = separator(w.sep[:0], w.last, next)
		w.index.add(w.sep, 0, w.offset, len(raw))
	}
	w.count()
	w.data.reset()
	// The filter and the index are written at the end. The index is assumed to shrink to
	// half.
	filter := int64(float64(len(w.hashes.list.all)) * max(w.opts.FilterBits, 0) / 8)
	w.estimate = w.offset + filter + int64(w.index.size()/2) + footerSize
	return nil
}

// writeBlock appends a block to the buffer, and writes the buffer if it is nearly full.
// compress says that the payload may be compressed.
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

// flush writes the buffer to the file and adds it to the file's checksum.
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
	// A large block has made the buffer grow. Its memory is kept for as long as the next ones are large too.
	if cap(w.buf) > 2*writeBuffer && len(w.buf) <= 2*writeBuffer {
		w.buf = make([]byte, 0, writeBuffer)
	}
	w.buf = w.buf[:0]
	return nil
}

// fail makes err the error of all later calls, and returns it.
func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// EstimatedSize returns about how many bytes the file would have if it were finished now.
func (w *Writer) EstimatedSize() int64 {
	return w.estimate + int64(len(w.data.keys)+len(w.data.values))
}

// Abandon ends a writer whose table is not wanted. The caller removes the file.
func (w *Writer) Abandon() {
	w.hashes.release()
	w.done, w.err = true, cmp.Or(w.err, errFinished)
}

// Finish writes what follows the data blocks and makes the content of the file durable. It
// ends the writer, whether it succeeds or not.
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

// finish writes everything that follows the entries. The footer is last, because it has the
// offsets of the other parts and the checksum over all of them. Until it is written, the file
// is not a table.
func (w *Writer) finish() (Info, error) {
	if !w.data.empty() {
		if err := w.finishData(nil, true); err != nil {
			return Info{}, err
		}
	}
	w.props.Session = w.opts.Session
	w.props.Largest = append([]byte{}, w.last...) // not nil, like Smallest
	// The data blocks end here: the filter's padding begins.
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
	// After the filter and the index, because writing these sets properties.
	if foot.props, err = w.writeBlock(BlockProperties, w.props.appendTo(nil), false); err != nil {
		return Info{}, err
	}
	if err := w.flush(); err != nil {
		return Info{}, err
	}
	// flush has added everything before the footer to w.crc.
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
		Expiring:    w.expiring.n,
		Expiry:      w.expiring.quantiles(),
	}, nil
}

// writeIndex writes the index. A large index is cut into partitions, and foot.levels becomes
// 2. The separator of a partition in the top level is that of its last block.
func (w *Writer) writeIndex(foot *footer) (handle, error) {
	x := &w.index
	// An index with one level stays in memory as a whole. Of a large index only the top level
	// does, and its partitions are in the cache like data blocks.
	limit, partition := w.opts.IndexPartition, w.opts.IndexPartition
	if partition <= 0 {
		limit, partition = defaultIndex, defaultPartition
	}
	if x.size() > limit && x.n() > 1 {
		top := indexBuilder{start: w.offset}
		for from := 0; from < x.n(); {
			to := x.cut(from, partition)
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
