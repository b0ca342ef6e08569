package sstable

import (
	"context"
	"errors"
	"io"

	"github.com/shaledb/shale/internal/base"
)

// A Part is one of the parts that a table's file is made of.
type Part struct {
	Kind          BlockKind // 0: it is no block
	Name          string
	Offset, Bytes int64 // as stored, checksum included

	// Of blocks; 0 where they are not known.
	Raw         int64 // bytes once decompressed
	Compression Compression
	Entries     int // of a data block; of an index, the blocks that it names

	// Separator, of data blocks and partitions that an index names: no entry
	// of the block is behind it. First is a data block's first entry.
	Separator, First *base.InternalKey

	Err error // what is wrong with it: a *base.CorruptionError, or base.ErrFormatTooNew
}

// Parts calls fn for the parts of a table's file, of size bytes, in the order in
// which they stand there, and ends at fn's first error. Each is read and
// checked for itself. What an index does not tell of, because it is damaged, is
// searched for. o's Filter and Lost are not used. It is for tools.
//
// An error that is not fn's is that of the context or the device.
func Parts(ctx context.Context, src io.ReaderAt, size int64, o SalvageOptions, fn func(Part) error) error {
	p := parts{fn: fn}
	o.Filter = false
	o.Lost = func(l Lost) { p.err = l.Err } // of footer and length, for when that is all
	s, err := Salvage(ctx, src, size, o)
	if err != nil {
		return err
	}
	defer s.Close()
	p.s, p.r = s, s.r
	if err := p.blocks(); err != nil {
		return err
	}
	if !s.hasFooter {
		err := p.err
		if s.foreign != nil {
			err = s.foreign
		}
		return p.emit(Part{Name: "unreadable", Offset: p.offset, Bytes: size - p.offset, Err: err})
	}
	return p.behind(size)
}

// parts walks the parts of one file.
type parts struct {
	s          *Salvager
	r          *Reader
	fn         func(Part) error
	err        error  // met when the table was opened
	offset     int64  // up to which data blocks were shown
	end        int64  // of the part that was shown last
	partitions []Part // read with the data blocks, and shown behind them
}

func (p *parts) emit(part Part) error {
	if err := p.s.ctx.Err(); err != nil {
		return err
	}
	if hole := part.Offset - p.end; hole > 0 {
		// Without an index nobody knows its partitions, for instance.
		if err := p.fn(Part{Name: "unknown", Offset: p.end, Bytes: hole}); err != nil {
			return err
		}
	}
	p.end = part.Offset + part.Bytes
	return p.fn(part)
}

// read reads a block and returns its payload, nil if it can't be read, and what
// is known of it. Its error is that of the device.
func (p *parts) read(h handle, kind BlockKind) (part Part, payload []byte, err error) {
	part = Part{Kind: kind, Name: kind.String(), Offset: h.offset, Bytes: int64(h.stored) + blockTail, Raw: int64(h.raw)}
	b := make([]byte, h.stored+blockTail)
	if err := p.r.readAt(b, h.offset, kind); err != nil {
		return part, nil, p.note(&part, err)
	}
	payload, c, err := openBlock(b, p.r.seed, kind, h.offset)
	if err != nil {
		return part, nil, p.note(&part, p.r.damage(h.offset, kind.String(), err))
	}
	part.Compression = c
	if kind == BlockProperties || kind == BlockFilter {
		return part, payload, nil
	}
	if c != noCompression {
		raw := make([]byte, h.raw)
		if err := decompress(raw, payload, c); err != nil {
			return part, nil, p.note(&part, p.r.damage(h.offset, kind.String(), err))
		}
		payload = raw
	}
	if kind != BlockIndex {
		err = p.r.checkPayload(payload, h, kind)
	} else if err = checkIndex(payload, h.offset); err != nil {
		err = p.r.damage(h.offset, kind.String(), err)
	}
	if err != nil {
		return part, nil, p.note(&part, err)
	}
	return part, payload, nil
}

// note keeps err as the part's, unless it is none of the file's.
func (p *parts) note(part *Part, err error) error {
	var c *base.CorruptionError
	if errors.As(err, &c) || errors.Is(err, base.ErrFormatTooNew) {
		part.Err = err
		return nil
	}
	return err
}

// blocks shows the data blocks.
func (p *parts) blocks() error {
	s := p.s
	if !s.hasIndex {
		return p.search(s.dataEnd())
	}
	if s.r.foot.levels == 1 {
		return p.leaf(&s.r.index)
	}
	damaged := false
	for i := range s.r.index.n {
		h := s.r.index.handle(i)
		part, payload, err := p.read(h, BlockIndexPartition)
		if err != nil {
			return err
		}
		sep := s.r.index.separator(i)
		part.Separator = &sep
		if payload == nil {
			damaged = true
			p.partitions = append(p.partitions, part)
			continue
		}
		x := viewIndex(payload)
		part.Entries = x.n
		p.partitions = append(p.partitions, part)
		if damaged {
			if err := p.search(x.start); err != nil {
				return err
			}
		}
		damaged = false
		if err := p.leaf(&x); err != nil {
			return err
		}
	}
	if damaged {
		return p.search(s.dataEnd())
	}
	return nil
}

func (p *parts) leaf(x *index) error {
	for i := range x.n {
		sep := x.separator(i)
		if err := p.data(x.handle(i), &sep); err != nil {
			return err
		}
	}
	return nil
}

// data shows a data block. sep is nil if it is not known.
func (p *parts) data(h handle, sep *base.InternalKey) error {
	part, payload, err := p.read(h, BlockData)
	if err != nil {
		return err
	}
	part.Separator = sep
	if payload != nil {
		d := viewData(payload)
		part.Entries = d.n
		suffix, _ := d.entry(0)
		part.First = &base.InternalKey{UserKey: append(append([]byte{}, d.prefix...), suffix...), Trailer: d.trailer(0)}
	}
	p.offset = h.offset + part.Bytes
	return p.emit(part)
}

// search shows the data blocks that are found up to end, and as one part what
// is behind the first place where none is.
func (p *parts) search(end int64) error {
	for p.offset < end {
		h, err := p.s.findBlock(p.offset, end)
		if err != nil {
			part := Part{Name: "unreadable", Offset: p.offset, Bytes: end - p.offset}
			if err := p.note(&part, err); err != nil {
				return err
			}
			p.offset = end
			return p.emit(part)
		}
		if err := p.data(h, nil); err != nil {
			return err
		}
	}
	return nil
}

// behind shows what follows the data blocks. Requires: the footer is readable.
func (p *parts) behind(size int64) error {
	f := &p.r.foot
	if gap := f.filter.offset - p.offset; f.filter.stored > 0 && gap > 0 && gap < filterAlign {
		if err := p.padding(gap); err != nil {
			return err
		}
	}
	if f.filter.stored > 0 {
		if err := p.filter(); err != nil {
			return err
		}
	}
	for _, part := range p.partitions {
		if err := p.emit(part); err != nil {
			return err
		}
	}
	part, payload, err := p.read(f.index, BlockIndex)
	if err != nil {
		return err
	}
	if payload != nil {
		part.Entries = viewIndex(payload).n
	}
	if err := p.emit(part); err != nil {
		return err
	}
	if part, payload, err = p.read(f.props, BlockProperties); err != nil {
		return err
	}
	if payload != nil {
		_, err = decodeProperties(payload)
		if err != nil {
			part.Err = p.r.damage(f.props.offset, BlockProperties.String(), err)
		}
	}
	if err := p.emit(part); err != nil {
		return err
	}
	if err := p.emit(Part{Name: "footer", Offset: p.r.size - footerSize, Bytes: footerSize}); err != nil || size <= p.r.size {
		return err
	}
	return p.emit(Part{Name: "unknown", Offset: p.r.size, Bytes: size - p.r.size,
		Err: p.r.damage(p.r.size, "end of file", errors.New("file is longer than it should be"))})
}

func (p *parts) padding(n int64) error {
	part := Part{Name: "padding", Offset: p.offset, Bytes: n}
	b := make([]byte, n)
	if err := p.r.readAt(b, p.offset, BlockFilter); err != nil {
		if err := p.note(&part, err); err != nil {
			return err
		}
	}
	for i, x := range b {
		if x != 0 {
			part.Err = p.r.damage(p.offset+int64(i), "padding", errPadding)
			break
		}
	}
	return p.emit(part)
}

func (p *parts) filter() error {
	part, payload, err := p.read(p.r.foot.filter, BlockFilter)
	if err != nil {
		return err
	}
	if payload != nil && p.s.hasProps { // they have the number of keys
		if _, err := p.r.readFilter(tail{}); err != nil {
			if err := p.note(&part, err); err != nil {
				return err
			}
		}
	}
	return p.emit(part)
}
