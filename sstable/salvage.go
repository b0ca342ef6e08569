package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// SalvageOptions say which table to salvage, and how.
type SalvageOptions struct {
	// The table's number and its store, as the name of the file and the other files of the
	// store have them. Every block's checksum covers both.
	Num     base.FileNum
	StoreID uint64

	// What the manifest says; 0 where it is not known. Seq is the number of all entries, if
	// the table was ingested. Entries is how many entries the table has.
	Seq      base.Seq
	Size     int64
	Checksum uint32
	Entries  uint64

	// Filter says that each key is looked up in the table's filter, which must know it.
	Filter bool

	// Lost is called for each damage, by Salvage and by the First and Next of the Salvager.
	// It is called before these return the entry that follows the damage. nil: damage is not
	// reported.
	Lost func(Lost)
}

// A Lost describes a damage to a table, and the entries that it may have cost.
type Lost struct {
	Err error // a *base.CorruptionError
	// Entries says that entries are lost. They come after all those that were shown of the
	// key After, and their keys are at most Upto. After is nil if they may be the first
	// entries of the table, and Upto is nil if they may be the last ones.
	Entries     bool
	After, Upto []byte
}

// A Salvager walks those entries of a damaged table that are in undamaged blocks. It is a
// base.Iterator that only goes forward, once. It belongs to one goroutine.
//
//  1. Salvage reads footer, properties, index and filter. It notes which of them can be read.
//  2. First starts walk, which goes through the index. Where a part of the index is damaged,
//     it searches the file for blocks: a block ends where its checksum fits.
//  3. Each block is checked by itself, and against the entries before it, and then Next shows
//     its entries. Lost is called for a block that fails.
//
// Damage is never an error of the Salvager. Err returns only errors of the context, of the
// device, or base.ErrFormatTooNew.
type Salvager struct {
	ctx context.Context
	r   *Reader // with the parts that could be read
	o   SalvageOptions

	// Constant after Salvage: what the parts behind the data blocks say.
	foreign   error // why the footer shows that this is another table; nil: it does not
	hasFooter bool
	hasProps  bool
	hasIndex  bool
	filter    *bloom.Static

	// The position of the iterator: an entry of the block that walk has found last.
	next func() (struct{}, bool) // moves to the next block without damage
	stop func()
	data dataBlock
	pos  int
	kv   base.KV
	key  []byte
	err  error

	// What walk has found so far.
	last    base.InternalKey // the last entry of the blocks so far, in memory of its own
	begun   bool             // last is set
	keys    [2][]byte        // buffers of check
	after   []byte           // lost entries come after those of this key that were shown
	lost    bool             // some entries are lost
	offset  int64            // where the next block should begin
	blocks  uint64           // blocks without damage so far
	entries uint64           // entries in these blocks
	unknown uint64           // entries that the filter does not know
}

// Salvage opens what can be read of a table whose file has size bytes. Its error is that of
// the device, or base.ErrFormatTooNew. src must stay open until the Salvager is closed, and
// the caller closes it.
func Salvage(ctx context.Context, src io.ReaderAt, size int64, o SalvageOptions) (*Salvager, error) {
	r := &Reader{src: src, cache: cache.New(0), stats: new(Stats), num: o.Num,
		size: size, seed: checksumSeed(o.StoreID, o.Num)}
	s := &Salvager{ctx: ctx, r: r, o: o}
	for _, open := range []func() error{s.openFooter, s.openMeta} {
		if err := open(); err != nil && !s.damaged(err) {
			return nil, err
		}
	}
	return s, nil
}

// damaged reports whether err is damage. If so, it calls Lost.
func (s *Salvager) damaged(err error) bool {
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		return false
	}
	if s.o.Lost != nil {
		s.o.Lost(Lost{Err: err})
	}
	return true
}

// openFooter reads the footer from the place where it should be. A file that is too short has
// none. A footer of another table is not used: none of the blocks can be those of the wanted
// table then, so foreign is set.
func (s *Salvager) openFooter() error {
	r, want := s.r, s.o.Size
	if want == 0 {
		want = r.size
	}
	if r.size != want {
		s.damaged(r.damage(min(r.size, want), "end of file", fmt.Errorf("file has %d bytes, not %d", r.size, want)))
	}
	if r.size < want {
		return nil
	}
	r.size = want
	b := make([]byte, min(r.size, maxFooter))
	if err := r.readAt(b, r.size-int64(len(b)), 0); err != nil {
		return err
	}
	at := max(r.size-footerSize, 0)
	f, err := decodeFooter(b, r.size)
	switch {
	case err != nil:
		return r.damage(at, "footer", err)
	case f.num != s.o.Num:
		err = fmt.Errorf("footer of table %d", uint64(f.num))
	case f.storeID != s.o.StoreID:
		err = errors.New("table of another store")
	case s.o.Checksum != 0 && f.checksum != s.o.Checksum:
		err = errors.New("file checksum differs from the manifest")
	default:
		r.foot, s.hasFooter = *f, true
		return nil
	}
	s.foreign = r.damage(at, "footer", err)
	return nil
}

// openMeta reads properties, index and filter. Each is read by itself, whether the others can
// be read or not.
func (s *Salvager) openMeta() error {
	r := s.r
	if !s.hasFooter {
		return nil
	}
	err := r.openProperties(tail{}, 0)
	if s.hasProps = err == nil; err != nil && !s.damaged(err) {
		return err
	}
	r.Number(s.o.Seq)
	err = r.openIndex(tail{}, ReaderOptions{})
	if s.hasIndex = err == nil; err != nil && !s.damaged(err) {
		return err
	}
	if !s.o.Filter || r.foot.filter.stored == 0 {
		return nil
	}
	filter, err := r.readFilter(tail{})
	if errors.Is(err, base.ErrFormatTooNew) {
		return nil // a filter of an unknown format is like no filter
	}
	s.filter = filter.Filter()
	return err
}

// Props returns the table's properties, and whether they could be read.
func (s *Salvager) Props() (p Properties, ok bool) { return s.r.props, s.hasProps }

// Counts returns the number of data blocks without damage that were read so far, and the
// number of entries in them.
func (s *Salvager) Counts() (blocks, entries uint64) { return s.blocks, s.entries }

// First moves to the first entry. It may be called once. walk calls a function for each
// block, and Pull makes it wait there until Next has shown all entries of the block.
func (s *Salvager) First() *base.KV {
	if s.stop != nil {
		s.err = errForward
		return nil
	}
	s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.walk(func() bool { return yield(struct{}{}) })
	})
	return s.Next()
}

// Next moves one entry forward. The entry is valid until the next call.
func (s *Salvager) Next() *base.KV {
	if s.next == nil || s.err != nil {
		return nil
	}
	// All entries of the block were shown. next resumes walk, which sets data and pos.
	if s.pos == s.data.n {
		if _, ok := s.next(); !ok {
			return nil
		}
	}
	suffix, value := s.data.entry(s.pos)
	s.key = append(append(s.key[:0], s.data.prefix...), suffix...)
	s.kv = base.KV{InternalKey: base.InternalKey{UserKey: s.key, Trailer: s.data.trailer(s.pos)}, Value: value}
	s.pos++
	return &s.kv
}

// Err returns the error that ended the last movement, which is never one for damage, or nil.
func (s *Salvager) Err() error { return s.err }

// Close ends the walk and gives up its memory.
func (s *Salvager) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.data, s.pos = nil, dataBlock{}, 0
	return nil
}

var errForward = errors.New("sstable: a Salvager goes forward once")

// cannot sets the error of the movements that a Salvager does not have.
func (s *Salvager) cannot() *base.KV {
	s.err = errForward
	return nil
}

// Last fails: a Salvager only goes forward.
func (s *Salvager) Last() *base.KV { return s.cannot() }

// Prev fails, as Last does.
func (s *Salvager) Prev() *base.KV { return s.cannot() }

// SeekGE fails, as Last does.
func (s *Salvager) SeekGE([]byte, base.Seq) *base.KV { return s.cannot() }

// SeekLT fails, as Last does.
func (s *Salvager) SeekLT([]byte) *base.KV { return s.cannot() }

// gap calls Lost for entries that are lost: from after up to upto, or to the end of the table
// if upto is nil.
func (s *Salvager) gap(err error, upto []byte) {
	s.lost = true
	if s.o.Lost != nil {
		s.o.Lost(Lost{Err: err, Entries: true, After: bytes.Clone(s.after), Upto: bytes.Clone(upto)})
	}
}

// show reads the block at h, checks it, and shows its entries with yield. It fails if the
// block can't be read, or if its entries do not belong in this place. sep is the block's
// separator; nil: not known. goOn is false if the walk has to end. While yield runs, data is
// the block: Next, which has made the walk go on, takes the entries from it.
func (s *Salvager) show(h handle, sep *base.InternalKey, yield func() bool) (goOn bool, err error) {
	if err := base.ContextError(s.ctx); err != nil {
		s.err = err
		return false, nil
	}
	// Even if the block is damaged, the next one begins behind it.
	s.offset = h.offset + int64(h.stored) + blockTail
	b, err := s.r.readBlock(h, BlockData, false, nil)
	if err != nil {
		return true, err
	}
	defer b.Release()
	d := viewData(b.Bytes())
	last, err := s.check(&d, sep)
	if err != nil {
		return true, s.r.damage(h.offset, BlockData.String(), err)
	}
	s.last, s.begun, s.after = last, true, last.UserKey
	s.blocks++
	s.entries += uint64(d.n)
	s.data, s.pos = d, 0
	goOn = yield()
	s.data, s.pos = dataBlock{}, 0
	return goOn, nil
}

// check checks the entries of a block: their order, also against the block before, their tags
// and the separator. It returns the last key, in memory of its own. The unknown entries of a
// block count only if the block is good.
func (s *Salvager) check(d *dataBlock, sep *base.InternalKey) (last base.InternalKey, err error) {
	last = s.last
	unknown := uint64(0)
	for i := range d.n {
		suffix, _ := d.entry(i)
		// Two buffers in turn, because the last key is compared with this one.
		key := append(append(s.keys[i&1][:0], d.prefix...), suffix...)
		s.keys[i&1] = key
		k := base.InternalKey{UserKey: key, Trailer: d.trailer(i)}
		if (s.begun || i > 0) && base.Compare(last, k) >= 0 {
			return last, errOutOfOrder
		}
		hash := bloom.Hash(key)
		if d.b[dataHeader+i] != byte(hash) {
			return last, errTag
		}
		if s.filter != nil && !s.filter.MayContainHash(hashWith(s.filter.Hasher(), key, hash)) {
			unknown++
		}
		last = k
	}
	if sep != nil && base.Compare(last, *sep) > 0 {
		return last, errSeparator
	}
	s.unknown += unknown
	last.UserKey = bytes.Clone(last.UserKey)
	return last, nil
}
