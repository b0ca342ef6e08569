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

// SalvageOptions say which table to salvage.
type SalvageOptions struct {
	// As the file's name and the store's other files have it: every block's
	// checksum covers them.
	Num     base.FileNum
	StoreID uint64

	// What the manifest knows; 0: nothing is known. Seq is the number of all
	// entries, if the table was ingested.
	Seq      base.Seq
	Size     int64
	Checksum uint32
	Entries  uint64

	// Filter asks the filter for every key.
	Filter bool

	// Lost is called with each damage, by Salvage and by the Salvager's First
	// and Next: before they return the entry behind it.
	Lost func(Lost)
}

// A Lost is a damage to a table, and which entries it may have cost.
type Lost struct {
	Err error // a *base.CorruptionError
	// Entries says that entries are lost. They come behind all of After's that
	// were shown, and their keys are Upto at most. nil: there is no such key,
	// from the beginning of the table, up to its end.
	Entries     bool
	After, Upto []byte
}

// A Salvager walks the entries of a damaged table whose blocks check. It is a
// base.Iterator that only goes forward, for one pass and one goroutine. Without
// an index it searches for the blocks, of which the checksums tell the ends.
//
// It fails at nothing that is damaged: Err is that of the context, of the
// device, or base.ErrFormatTooNew.
type Salvager struct {
	ctx context.Context
	r   *Reader // its parts as far as they are readable
	o   SalvageOptions

	foreign   error // not nil: this is another table
	hasFooter bool
	hasProps  bool
	hasIndex  bool
	filter    *bloom.Static

	next func() (struct{}, bool) // moves to the next block that checks
	stop func()
	data dataBlock
	pos  int
	kv   base.KV
	key  []byte
	err  error

	last    base.InternalKey // the last entry of the blocks so far, in memory of its own
	begun   bool             // there was one
	keys    [2][]byte        // of check
	after   []byte           // what is lost comes behind this key's entries that were shown
	lost    bool             // entries
	offset  int64            // where the next block has to begin
	blocks  uint64           // that check
	entries uint64           // in them
	unknown uint64           // those that the filter does not know
}

// Salvage opens what there is of a table, whose file has so many bytes. src
// stays the caller's to close, after the Salvager.
func Salvage(ctx context.Context, src io.ReaderAt, size int64, o SalvageOptions) (*Salvager, error) {
	r := &Reader{src: src, cache: cache.New(0), stats: new(Stats), num: o.Num, name: base.TableName(o.Num),
		size: size, seed: checksumSeed(o.StoreID, o.Num)}
	s := &Salvager{ctx: ctx, r: r, o: o}
	for _, open := range []func() error{s.openFooter, s.openMeta} {
		if err := open(); err != nil && !s.damaged(err) {
			return nil, err
		}
	}
	return s, nil
}

// damaged reports err and returns true if it is damage.
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

// openFooter reads the footer from where it should be.
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

// openMeta reads properties, index and filter, each for itself.
func (s *Salvager) openMeta() error {
	r := s.r
	if !s.hasFooter {
		return nil
	}
	err := r.openProperties(tail{})
	if s.hasProps = err == nil; err != nil && !s.damaged(err) {
		return err
	}
	r.number(s.o.Seq)
	err = r.openIndex(tail{})
	if s.hasIndex = err == nil; err != nil && !s.damaged(err) {
		return err
	}
	if !s.o.Filter || r.foot.filter.stored == 0 {
		return nil
	}
	filter, err := r.readFilter(tail{})
	if errors.Is(err, base.ErrFormatTooNew) {
		return nil // a filter that is not known is none
	}
	s.filter = filter.Filter()
	return err
}

// Props returns the table's properties if they are readable.
func (s *Salvager) Props() (p Properties, ok bool) { return s.r.props, s.hasProps }

// Counts returns how many data blocks were read so far that check, and how many
// entries are in them.
func (s *Salvager) Counts() (blocks, entries uint64) { return s.blocks, s.entries }

// First implements base.Iterator.
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

// Next implements base.Iterator.
func (s *Salvager) Next() *base.KV {
	if s.next == nil || s.err != nil {
		return nil
	}
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

// Err implements base.Iterator.
func (s *Salvager) Err() error { return s.err }

// Close implements base.Iterator.
func (s *Salvager) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.data, s.pos = nil, dataBlock{}, 0
	return nil
}

var errForward = errors.New("sstable: a Salvager goes forward once")

func (s *Salvager) cannot() *base.KV {
	s.err = errForward
	return nil
}

// Last, Prev, SeekGE and SeekLT complete base.Iterator and fail.
func (s *Salvager) Last() *base.KV                   { return s.cannot() }
func (s *Salvager) Prev() *base.KV                   { return s.cannot() }
func (s *Salvager) SeekGE([]byte, base.Seq) *base.KV { return s.cannot() }
func (s *Salvager) SeekLT([]byte) *base.KV           { return s.cannot() }

// gap reports that entries up to upto are lost; nil: all that follow.
func (s *Salvager) gap(err error, upto []byte) {
	s.lost = true
	if s.o.Lost != nil {
		s.o.Lost(Lost{Err: err, Entries: true, After: bytes.Clone(s.after), Upto: bytes.Clone(upto)})
	}
}

// show checks a block's entries and shows them; it fails if they are not what
// should be at this place. sep is their separator, nil if it is not known.
func (s *Salvager) show(h handle, sep *base.InternalKey, yield func() bool) (goOn bool, err error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return false, nil
	}
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

// check returns the last key of the block, in memory of its own.
func (s *Salvager) check(d *dataBlock, sep *base.InternalKey) (last base.InternalKey, err error) {
	last = s.last
	unknown := uint64(0)
	for i := range d.n {
		suffix, _ := d.entry(i)
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
		if s.filter != nil && !s.filter.MayContain(hashWith(s.filter.Hasher(), key, hash)) {
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
