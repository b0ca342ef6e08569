package sstable

import (
	"context"
	"errors"
	"io"

	"github.com/shaledb/shale/internal/base"
)

// A Part is one of the parts of a table's file: a block, the footer, padding, or bytes that
// belong to none of these.
type Part struct {
	Kind          BlockKind // 0: this part is not a block
	Name          string
	Offset, Bytes int64 // in the file; Bytes includes the block's tail

	// Known only of blocks, and 0 where they could not be read.
	Raw         int64 // bytes once decompressed
	Compression Compression
	Entries     int // entries of a data block; blocks that an index or partition names

	// Separator is set for data blocks and partitions that a readable index names: no entry
	// of the block is after it. First is the first entry of a data block.
	Separator, First *base.InternalKey

	Err error // what is wrong with it: a *base.CorruptionError, or base.ErrFormatTooNew
}

// Parts calls fn for each part of a table's file, of size bytes, in the order of their
// offsets. It ends at fn's first error, and returns it. It is for tools.
//
// Each part is read and checked by itself, so damage in one does not hide the others. If an
// index is damaged, Parts searches for the blocks that it would have named. Bytes that it
// can't explain are parts too, so the parts cover the whole file. o.Filter and o.Lost are
// ignored.
//
// Any other error is that of the context or of the device, or base.ErrFormatTooNew for a
// footer or properties of a newer program.
func Parts(ctx context.Context, src io.ReaderAt, size int64, o SalvageOptions, fn func(Part) error) error {
	p := parts{fn: fn}
	o.Filter = false
	o.Lost = func(l Lost) { p.err = l.Err } // without a footer, this explains the rest
	s, err := Salvage(ctx, src, size, o)
	if err != nil {
		return err
	}
	defer s.Close()
	p.s, p.r = s, s.r
	if err := p.blocks(); err != nil {
		return err
	}
	// Without a footer it is not known what the bytes behind the data blocks are.
	if !s.hasFooter {
		err := p.err
		if s.foreign != nil {
			err = s.foreign
		}
		return p.emit(Part{Name: "unreadable", Offset: p.offset, Bytes: size - p.offset, Err: err})
	}
	return p.behind(size)
}

// A parts shows the parts of one file, from its beginning to its end.
//
//  1. Salvage reads what is behind the data blocks, as far as that is readable.
//  2. blocks shows the data blocks, by the index, or by searching for them where the index is
//     damaged. It reads the partitions of the index on the way.
//  3. behind shows the rest: padding, filter, partitions, index, properties and footer.
//
// emit shows each part, and what is unknown between two of them.
type parts struct {
	s          *Salvager
	r          *Reader
	fn         func(Part) error
	err        error  // the last damage that was found when the table was opened
	offset     int64  // where the last data block ends that was shown
	end        int64  // where the last part ends that was shown
	partitions []Part // read before their data blocks, and shown after all of them
}

// emit shows a part. If bytes between it and the last one were not shown, it first shows them
// as "unknown".
func (p *parts) emit(part Part) error {
	if err := base.ContextError(p.s.ctx); err != nil {
		return err
	}
	if hole := part.Offset - p.end; hole > 0 {
		// For example, the partitions of an index that can't be read.
		if err := p.fn(Part{Name: "unknown", Offset: p.end, Bytes: hole}); err != nil {
			return err
		}
	}
	p.end = part.Offset + part.Bytes
	return p.fn(part)
}

// read reads and checks a block. It returns what is known about it, and its payload, or nil
// if the block can't be read: then part.Err says why. Its own error is that of the device.
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
	// The writer never compresses these two. Their content is checked by the caller.
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
	// A data block or a partition must have the length that the index states.
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

// note makes err the part's error if the file is to blame: it is damaged, or from a newer
// program. Otherwise it returns err.
func (p *parts) note(part *Part, err error) error {
	var c *base.CorruptionError
	if errors.As(err, &c) || errors.Is(err, base.ErrFormatTooNew) {
		part.Err = err
		return nil
	}
	return err
}

// blocks shows the data blocks, and reads the partitions of the index. Where a partition is
// damaged, it searches for data blocks up to the first one of the next partition that is
// readable.
func (p *parts) blocks() error {
	s := p.s
	if !s.hasIndex {
		return p.search(s.dataEnd())
	}
	top := s.r.index.Load()
	if s.r.foot.levels == 1 {
		return p.leaf(&top.index)
	}
	// damaged says that the partition before could not be read, so its data blocks have to be
	// found.
	damaged := false
	for i := range top.n {
		h := top.handle(i)
		part, payload, err := p.read(h, BlockIndexPartition)
		if err != nil {
			return err
		}
		sep := top.separator(i)
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

// leaf shows the data blocks of an index or of a partition.
func (p *parts) leaf(x *index) error {
	for i := range x.n {
		sep := x.separator(i)
		if err := p.data(x.handle(i), &sep); err != nil {
			return err
		}
	}
	return nil
}

// data shows the data block at h. sep is nil if it is not known.
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

// search shows the data blocks that it finds from p.offset up to end. At the first place
// where no block begins it gives up, and shows the rest up to end as one unreadable part.
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

// behind shows what follows the data blocks, in the order of the file. Requires: the footer
// is readable.
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

// padding shows the n zeros that align the filter, and checks that they are zeros.
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

// filter shows the filter block. If the properties are readable, it checks the filter too:
// they say how many keys it must have.
func (p *parts) filter() error {
	part, payload, err := p.read(p.r.foot.filter, BlockFilter)
	if err != nil {
		return err
	}
	if payload != nil && p.s.hasProps {
		if _, err := p.r.readFilter(tail{}); err != nil {
			if err := p.note(&part, err); err != nil {
				return err
			}
		}
	}
	return p.emit(part)
}
