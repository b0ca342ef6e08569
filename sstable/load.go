package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/vfs"
)

// isEOF reports whether err means that a file ended before or within a read.
func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// nameOf returns the name that errors have for the file in src: the one that src gives itself, as a file that is
// an object of a bucket does, or else file.
func nameOf(src io.ReaderAt, file string) string {
	if named, ok := src.(interface{ ErrorName() string }); ok {
		if name := named.ErrorName(); name != "" {
			return name
		}
	}
	return file
}

// damage returns the error for a part of the file that is not what it should be. If err says that a newer program
// wrote it, or part is "", which stands for a read that failed, the result does not count as damage. It is not
// inlined, as it has many callers.
//
//go:noinline
func (r *Reader) damage(offset int64, part string, err error) error {
	return damageOf(nameOf(r.src, base.TableName(r.num)), offset, part, err)
}

// damageOf is damage for a file of any name.
func damageOf(name string, offset int64, part string, err error) error {
	switch {
	case part == "":
		return fmt.Errorf("sstable: read %s at offset %d: %w", name, offset, err)
	case errors.Is(err, base.ErrFormatTooNew):
		return fmt.Errorf("sstable: %s at offset %d: %s: %w", name, offset, part, err)
	}
	return base.Corruption(name, offset, part, err)
}

// readError returns the error for a read that returned too few bytes. It is damage if the
// file ends there, else it is the error of the device.
func (r *Reader) readError(err error, kind BlockKind, offset int64) error {
	if err == nil || isEOF(err) {
		part := "end of file"
		if kind != 0 {
			part = kind.String()
		}
		return r.damage(offset, part, errTruncated)
	}
	return r.damage(offset, "", err)
}

// readAt fills b from the file. Its error is that of readError.
func (r *Reader) readAt(b []byte, offset int64, kind BlockKind) error {
	return r.readFrom(r.src, b, offset, kind)
}

// readFrom is readAt for a view of the file.
func (r *Reader) readFrom(src io.ReaderAt, b []byte, offset int64, kind BlockKind) error {
	n, err := src.ReadAt(b, offset)
	if n < len(b) {
		return r.readError(err, kind, offset)
	}
	r.stats.ReadCalls.Add(1)
	return nil
}

// block returns a data block, an index or an index partition, pinned, whose structure was checked. It
// takes the block from the cache. If it is not there, it reads the block from the file and,
// if fill is set, puts it into the cache.
func (r *Reader) block(h handle, kind BlockKind, fill bool, t *Trace) (*cache.Block, error) {
	k := cache.Key{File: uint64(r.num), Offset: uint64(h.offset)}
	if b := r.cache.Get(k); b != nil {
		r.stats.CacheHits.Add(1)
		if t != nil {
			t.add(kind, h, true)
		}
		return b, nil
	}
	r.stats.CacheMisses.Add(1)
	if kind == BlockData { // of a lookup: iterators come here for parts of the index only
		r.sought.Add(1)
	}
	b, err := r.readBlock(h, kind, fill, t)
	if err != nil {
		return nil, err
	}
	// Another goroutine may have inserted the block meanwhile. Then b becomes that one.
	if fill {
		b = r.cache.Insert(k, b)
	}
	return b, nil
}

// Sought returns how many data blocks were read from the file because somebody went to a place in it: lookups, and seeks
// of iterators that use the cache. Blocks that were in the cache don't count, nor do those of a compaction, and of a
// scan the first one of a table only. It wraps round.
func (r *Reader) Sought() uint32 { return r.sought.Load() }

// readBlock reads a block from the file and returns it, pinned. It takes these steps: read,
// check the checksum, decompress, check the structure, and number the entries of an ingested
// table. After that nothing checks the block again.
//
// fill says that the caller will insert the block into the cache, so that its memory is taken
// where it can stay. An uncompressed block remains in the buffer that it was read into, which
// is longer by the tail.
//
// If the block is damaged and the file is on another machine, it is fetched and read once more.
func (r *Reader) readBlock(h handle, kind BlockKind, fill bool, t *Trace) (b *cache.Block, err error) {
	for again := false; ; again = true {
		stored := r.allocStored(h, fill)
		if err = r.readAt(stored.Bytes(), h.offset, kind); err != nil {
			stored.Release()
		} else {
			r.countRead(h, kind, t)
			b, err = r.openStored(stored, h, kind, fill)
		}
		if err == nil || again || !r.refetch(err) {
			return b, err
		}
	}
}

// refetch drops what was fetched of a file whose block does not check, and reports whether there was something. Damage without an
// offset is that the file is gone, and not of what was fetched.
func (r *Reader) refetch(err error) bool {
	var damage *base.CorruptionError
	far, ok := r.src.(vfs.RemoteFile)
	return ok && errors.As(err, &damage) && damage.Offset >= 0 && far.Refetch() == nil
}

// openStored is readBlock for the bytes of block h, which were read into stored. It takes over
// the pin of stored.
func (r *Reader) openStored(stored *cache.Block, h handle, kind BlockKind, fill bool) (*cache.Block, error) {
	payload, c, err := openBlock(stored.Bytes(), r.seed, kind, h.offset)
	if err != nil {
		stored.Release()
		return nil, r.damage(h.offset, kind.String(), err)
	}
	if c == noCompression {
		if err := r.checkPayload(payload, h, kind); err != nil {
			stored.Release()
			return nil, err
		}
		r.numberBlock(payload, kind)
		return stored, nil
	}
	b, err := r.unpack(r.alloc(h, h.raw, fill), payload, c, h, kind)
	stored.Release()
	return b, err
}

// unpack fills b with the entries of a block, and returns it. After an error it releases b.
func (r *Reader) unpack(b *cache.Block, payload []byte, c Compression, h handle, kind BlockKind) (*cache.Block, error) {
	var err error
	if c != noCompression {
		err = r.expand(b.Bytes(), payload, c, h, kind)
	} else if err = r.checkPayload(payload, h, kind); err == nil {
		copy(b.Bytes(), payload)
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	r.numberBlock(b.Bytes(), kind)
	return b, nil
}

// numberBlock writes the sequence number of an ingested table into a data block's header,
// from which the numbers of all entries count. In the file it is 0. The checksum was checked
// before, and no other goroutine sees the payload yet. Requires: the payload is a copy of the
// caller's own.
func (r *Reader) numberBlock(payload []byte, kind BlockKind) {
	if r.seq > 0 && kind == BlockData {
		binary.LittleEndian.PutUint64(payload[dataSeq:], uint64(r.seq))
	}
}

// alloc returns a buffer of n bytes for the block at h. keep says that the block will be
// inserted into the cache.
func (r *Reader) alloc(h handle, n int, keep bool) *cache.Block {
	if keep {
		return r.cache.AllocAt(cache.Key{File: uint64(r.num), Offset: uint64(h.offset)}, n)
	}
	return r.cache.Alloc(n)
}

// allocStored returns a buffer for the bytes of the block at h as they are in the file. Only a
// block that is stored uncompressed stays in this buffer.
func (r *Reader) allocStored(h handle, keep bool) *cache.Block {
	return r.alloc(h, h.stored+blockTail, keep && h.stored == h.raw)
}

// countRead counts a block that was read from the file.
func (r *Reader) countRead(h handle, kind BlockKind, t *Trace) {
	r.stats.BlockReads.Add(1)
	r.stats.BlockReadBytes.Add(uint64(h.stored) + blockTail)
	if kind != BlockData {
		r.stats.IndexReads.Add(1)
	}
	t.add(kind, h, false)
}

// expand decompresses a payload into dst and checks its structure.
func (r *Reader) expand(dst, payload []byte, c Compression, h handle, kind BlockKind) error {
	if err := decompress(dst, payload, c); err != nil {
		return r.damage(h.offset, kind.String(), err)
	}
	return r.checkPayload(dst, h, kind)
}

// checkPayload checks the length and the structure of a decompressed payload. It runs once
// for each block that is read. The views of the block rely on it.
func (r *Reader) checkPayload(payload []byte, h handle, kind BlockKind) error {
	err := errRawLength
	if len(payload) == h.raw {
		switch kind {
		case BlockData:
			err = checkData(payload)
		case BlockIndex:
			err = checkIndex(payload, h.offset)
		default:
			err = checkPartition(payload, h.offset)
		}
	}
	if err != nil {
		return r.damage(h.offset, kind.String(), err)
	}
	return nil
}
