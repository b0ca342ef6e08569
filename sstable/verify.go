package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// verifyRead is the number of bytes that Verify reads at once of what is in no data block.
const verifyRead = 256 << 10

var (
	errFileChecksum = errors.New("file checksum mismatch")
	errTag          = errors.New("tag is not the key's")
	errSeparator    = errors.New("separator does not separate")
	errCounts       = errors.New("properties do not fit the entries")
	errPadding      = errors.New("padding is not zero")
)

// Verify reads the whole table and checks all that a table promises: the checksums of the
// file and of every block, the order of entries and separators, tags, counts and bounds, and
// that the filter knows every key and prefix. It reads from the file, not from the cache or
// from the index in memory.
func (r *Reader) Verify(ctx context.Context) error { return r.VerifyWith(ctx, nil, nil) }

// VerifyWith is Verify for a table with a sidecar, whose filter it checks too. s may be nil. It calls each for each entry that is
// right, whose memory is valid until the next one; nil: it calls nothing.
func (r *Reader) VerifyWith(ctx context.Context, s *Sidecar, each func(key base.InternalKey, value []byte)) error {
	sum := &summed{file: r, end: r.size - footerSize}
	// The error of a block has an offset, so it comes first. The checksum covers what is in no block.
	if err := r.verifyBlocks(ctx, sum, s, each); err != nil {
		return err
	}
	return r.verifyFile(ctx, sum)
}

// A summed is a source that computes the checksum of the file while it is read from front to back, so that
// Verify reads the data blocks once.
type summed struct {
	file *Reader
	end  int64 // of what the checksum covers
	at   int64 // how far crc has come
	crc  uint32
}

// ReadAt implements io.ReaderAt. What lies behind a gap is not summed.
func (s *summed) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.src.ReadAt(p, off)
	if to := min(off+int64(n), s.end); off <= s.at && s.at < to {
		s.crc = crc32.Update(s.crc, castagnoli, p[s.at-off:to-off])
		s.at = to
	}
	return n, err
}

// verifyBlocks checks everything but the checksum of the file. It opens the table a second
// time, so that footer, properties and index are read from the file. Then it walks all data
// blocks in the order of the index, and reads them from src. At the end it compares what it has counted with the
// properties, and checks the bytes between the blocks.
func (r *Reader) verifyBlocks(ctx context.Context, src io.ReaderAt, s *Sidecar, each func(key base.InternalKey, value []byte)) error {
	r, err := Open(r.src, ReaderOptions{Num: r.num, StoreID: r.foot.storeID, Size: r.size, Checksum: r.foot.checksum,
		Seq: r.seq, Cache: r.cache, Stats: r.stats, NoFilter: true})
	if err != nil {
		return err
	}
	r.src = src
	v := verifier{r: r, given: s, each: each}
	if err := v.readFilters(); err != nil {
		return err
	}
	if err := r.eachLeaf(func(x *index) error { return v.leaf(ctx, x) }); err != nil {
		return err
	}
	if err := v.finish(); err != nil {
		return err
	}
	return v.padding()
}

// verifyFile reads what sum has not read yet, and compares the checksum of the file with the footer's.
func (r *Reader) verifyFile(ctx context.Context, sum *summed) error {
	for buf := make([]byte, min(verifyRead, r.size)); sum.at < sum.end; {
		if err := base.ContextError(ctx); err != nil {
			return err
		}
		at, b := sum.at, buf[:min(int64(len(buf)), sum.end-sum.at)]
		if n, err := sum.ReadAt(b, at); n < len(b) {
			return r.readError(err, 0, at+int64(n))
		}
	}
	if sum.crc != r.foot.checksum {
		return r.damage(-1, "file", errFileChecksum)
	}
	return nil
}

// verifyBlock is readBlock for Verify. A summed is no vfs.RemoteFile, so it sees to it that a damaged block is fetched again.
func verifyBlock(r *Reader, h handle, kind BlockKind) (*cache.Block, error) {
	b, err := r.readBlock(h, kind, false, nil)
	if sum, ok := r.src.(*summed); ok && err != nil && sum.file.refetch(err) {
		sum.at, sum.crc = 0, 0 // it has the wrong bytes: verifyFile reads all for it
		b, err = r.readBlock(h, kind, false, nil)
	}
	return b, err
}

// eachLeaf calls fn for the index, or for each of its partitions. The separator of a
// partition must be that of its last block. Requires: the index is in memory.
func (r *Reader) eachLeaf(fn func(x *index) error) error {
	top := r.index.Load()
	if r.foot.levels == 1 {
		return fn(&top.index)
	}
	for i := range top.n {
		h := top.handle(i)
		b, err := verifyBlock(r, h, BlockIndexPartition)
		if err != nil {
			return err
		}
		x := viewIndex(b.Bytes())
		if base.Compare(x.separator(x.n-1), top.separator(i)) != 0 {
			err = r.damage(h.offset, BlockIndexPartition.String(), errSeparator)
		} else {
			err = fn(&x)
		}
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// separator returns a copy of separator i, with the prefix. Its user key is not nil, even if it is
// empty: a Salvager takes nil for the end of the table.
func (x *index) separator(i int) base.InternalKey {
	key := append(append([]byte{}, x.prefix...), x.suffix(i)...)
	return base.InternalKey{UserKey: key, Trailer: x.trailer(i)}
}

// A verifier walks the blocks of a table in order. It checks each entry against the one
// before, and asks the filters for each key. It computes the properties again, to compare
// them with those in the table at the end.
type verifier struct {
	r       *Reader
	own     filterCheck // of the filter in the table
	sidecar filterCheck
	given   *Sidecar                                 // nil: none
	each    func(key base.InternalKey, value []byte) // nil: none

	got      Properties
	last     base.InternalKey // the last entry, in memory of its own
	lastSep  base.InternalKey
	offset   int64 // where the next data block must begin
	position int64 // where the current one begins
}

// damage returns the error for damage in the current block.
func (v *verifier) damage(err error) error { return v.r.damage(v.position, BlockData.String(), err) }

// leaf checks the blocks of an index or of a partition.
func (v *verifier) leaf(ctx context.Context, x *index) error {
	for i := range x.n {
		if err := base.ContextError(ctx); err != nil {
			return err
		}
		if err := v.block(x.handle(i), x.separator(i)); err != nil {
			return err
		}
	}
	return nil
}

// block checks a data block: it follows the one before without a gap, and no entry is after
// its separator.
func (v *verifier) block(h handle, sep base.InternalKey) error {
	v.position = h.offset
	if h.offset != v.offset {
		return v.damage(fmt.Errorf("block should begin at %d", v.offset))
	}
	v.offset += int64(h.stored) + blockTail
	b, err := verifyBlock(v.r, h, BlockData)
	if err != nil {
		return err
	}
	defer b.Release()
	d := viewData(b.Bytes())
	for i := range d.n {
		if err := v.entry(&d, i); err != nil {
			return err
		}
	}
	if base.Compare(v.last, sep) > 0 {
		return v.damage(errSeparator)
	}
	v.lastSep = sep
	v.got.DataBlocks++
	return nil
}

// entry checks entry i of a block: its order, its tag, and that the filters know its key. It
// counts the entry.
func (v *verifier) entry(d *dataBlock, i int) error {
	suffix, value := d.entry(i)
	t := d.trailer(i)
	p := &v.got
	key := append(append([]byte(nil), d.prefix...), suffix...)
	k := base.InternalKey{UserKey: key, Trailer: t}
	// Versions of one key follow each other, so a key is new if it differs from the last one.
	newKey := p.Entries == 0 || !bytes.Equal(key, v.last.UserKey)
	switch {
	case p.Entries > 0 && base.Compare(v.last, k) >= 0:
		return v.damage(errOutOfOrder)
	case i == 0 && p.DataBlocks > 0 && base.Compare(v.lastSep, k) >= 0:
		return v.damage(errSeparator)
	}
	hash := bloom.Hash(key)
	if d.b[dataHeader+i] != byte(hash) {
		return v.damage(errTag)
	}
	if err := v.own.key(key, hash); err != nil {
		return v.r.damage(v.r.foot.filter.offset, BlockFilter.String(), err)
	}
	if err := v.sidecar.key(key, hash); err != nil {
		return v.given.damage(0, BlockFilter.String(), err)
	}
	if p.Entries == 0 {
		p.Smallest, p.MinSeq, p.MaxSeq = key, t.Seq(), t.Seq()
	}
	if newKey {
		p.Keys++
	}
	if t.Kind() == base.KindDelete {
		p.Tombstones++
	}
	p.Entries++
	p.kinds |= 1 << t.Kind()
	p.MinSeq, p.MaxSeq = min(p.MinSeq, t.Seq()), max(p.MaxSeq, t.Seq())
	p.RawKeyBytes += uint64(len(key))
	p.RawValueBytes += uint64(len(value))
	v.last = k
	if v.each != nil {
		v.each(k, value)
	}
	return nil
}

// finish compares the properties that were computed with those in the table. It takes the
// ones that entries do not show from the table itself.
func (v *verifier) finish() error {
	v.got.Largest = v.last.UserKey
	v.got.DataBytes = v.offset
	v.got.prefixes = v.own.prefixes
	want := v.r.props
	// These can't be computed from the entries. Partitions is compared with the index below.
	v.got.Partitions, v.got.FilterBits, v.got.prefixRule = want.Partitions, want.FilterBits, want.prefixRule
	v.got.ingested, v.got.Session = want.ingested, want.Session
	// The encodings are compared, so that no property is forgotten.
	if got := v.got.appendTo(nil); !bytes.Equal(got, want.appendTo(nil)) {
		return v.r.damage(v.r.foot.props.offset, BlockProperties.String(), errCounts)
	}
	levels := 1
	if want.Partitions > 0 {
		levels = 2
	}
	if levels != v.r.foot.levels || levels == 2 && want.Partitions != uint64(v.r.index.Load().n) {
		return v.r.damage(v.r.foot.index.offset, BlockIndex.String(), errCounts)
	}
	return nil
}

// padding checks the zeros between the data blocks and the filter. No block's checksum covers
// them.
func (v *verifier) padding() error {
	if v.r.foot.filter.stored == 0 {
		return nil
	}
	var buf [filterAlign]byte
	// -offset modulo filterAlign is the number of bytes up to the next multiple of it.
	b := buf[:-v.offset&(filterAlign-1)]
	if v.offset+int64(len(b)) != v.r.foot.filter.offset {
		return v.r.damage(v.r.foot.filter.offset, BlockFilter.String(), errCounts)
	}
	if len(b) == 0 {
		return nil
	}
	if err := v.r.readAt(b, v.offset, BlockFilter); err != nil {
		return err
	}
	for i, x := range b {
		if x != 0 {
			return v.r.damage(v.offset+int64(i), "padding", errPadding)
		}
	}
	return nil
}
