package sstable

import "github.com/shaledb/shale/vfs"

// A pass is how an iterator with IterOptions.Readahead reads a file that is on another machine: by a stream, which ends where
// the pass does. A file can come to lie there during a pass, so the iterator looks with each window until it has a stream.
type pass struct {
	stream vfs.Stream // nil: there is none so far
	end    int64      // offset up to which the pass may need blocks; 0: not known yet
}

// close ends the stream, if there is one.
func (p *pass) close() {
	if p.stream != nil {
		_ = p.stream.Close() // all that was needed was read
	}
}

// streamFor returns the stream for a pass that comes to a block with this stride (loadOn), or nil if the file is to be
// read. A stream goes from front to back only.
func (i *Iterator) streamFor(stride int) vfs.Stream {
	p := &i.pass
	if stride < 0 {
		return nil
	}
	if remote, ok := i.r.src.(vfs.RemoteFile); ok && p.stream == nil {
		if p.end == 0 {
			p.end = i.endOfPass()
		}
		p.stream = remote.Stream(p.end)
	}
	return p.stream
}

// endOfPass returns where the data ends that a pass up to IterOptions.Upper needs. The first key at or after Upper is in the
// block that the index names for it, or begins the one behind that.
func (i *Iterator) endOfPass() int64 {
	x, upper := i.root, i.opts.Upper
	if upper == nil {
		return i.r.props.DataBytes
	}
	if i.r.foot.levels > 1 {
		top := min(x.search(upper, beforeAll), x.n-1)
		b, err := i.r.block(x.handle(top), BlockIndexPartition, false, nil)
		if err != nil {
			return i.r.props.DataBytes // if the pass comes to the partition, it reports that
		}
		defer b.Release()
		part := viewIndex(b.Bytes())
		x = &part
	}
	last := x.handle(min(x.search(upper, beforeAll)+1, x.n-1))
	return last.offset + int64(last.stored+blockTail)
}
