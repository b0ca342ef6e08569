package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// damage makes the error for bytes that are not what they should be. What a
// newer version wrote is not damaged.
func (r *Reader) damage(offset int64, part string, err error) error {
	return damageOf(r.name, offset, part, err)
}

func damageOf(name string, offset int64, part string, err error) error {
	if errors.Is(err, base.ErrFormatTooNew) {
		return fmt.Errorf("sstable: %s at offset %d: %s: %w", name, offset, part, err)
	}
	return base.Corruption(name, offset, part, err)
}

// readError makes the error for a read that came back short: damage if the
// file ends there, else what the device said.
func (r *Reader) readError(err error, kind BlockKind, offset int64) error {
	if err == nil || isEOF(err) {
		part := "end of file"
		if kind != 0 {
			part = kind.String()
		}
		return base.Corruption(r.name, offset, part, errTruncated)
	}
	return fmt.Errorf("sstable: read %s at offset %d: %w", r.name, offset, err)
}

// readAt fills b from the file.
func (r *Reader) readAt(b []byte, offset int64, kind BlockKind) error {
	n, err := r.src.ReadAt(b, offset)
	if n < len(b) {
		return r.readError(err, kind, offset)
	}
	r.stats.ReadCalls.Add(1)
	return nil
}

// block returns a data block or index partition, pinned: from the cache, or
// from the file and then into the cache if fill is set. Its structure has
// been checked.
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
	b, err := r.readBlock(h, kind, fill, t)
	if err != nil {
		return nil, err
	}
	if fill {
		b = r.cache.Insert(k, b)
	}
	return b, nil
}

// readBlock reads a block into a buffer of the cache's: one for it to be kept in
// if fill is set. A raw block stays where it was read, with its tail behind it.
func (r *Reader) readBlock(h handle, kind BlockKind, fill bool, t *Trace) (*cache.Block, error) {
	stored := r.alloc(h, h.stored+blockTail, fill && h.stored == h.raw)
	if err := r.readAt(stored.Bytes(), h.offset, kind); err != nil {
		stored.Release()
		return nil, err
	}
	r.countRead(h, kind, t)
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
	b := r.alloc(h, h.raw, fill)
	err = r.expand(b.Bytes(), payload, c, h, kind)
	stored.Release()
	if err != nil {
		b.Release()
		return nil, err
	}
	r.numberBlock(b.Bytes(), kind)
	return b, nil
}

// numberBlock gives the entries of a data block of an ingested table their number:
// in the block's header, from which all of it count. The payload is our own.
func (r *Reader) numberBlock(payload []byte, kind BlockKind) {
	if r.seq > 0 && kind == BlockData {
		binary.LittleEndian.PutUint64(payload[dataSeq:], uint64(r.seq))
	}
}

// alloc returns a buffer for the block at h: one to be kept in the cache, or one
// for a while.
func (r *Reader) alloc(h handle, n int, keep bool) *cache.Block {
	if keep {
		return r.cache.AllocAt(cache.Key{File: uint64(r.num), Offset: uint64(h.offset)}, n)
	}
	return r.cache.Alloc(n)
}

func (r *Reader) countRead(h handle, kind BlockKind, t *Trace) {
	r.stats.BlockReads.Add(1)
	r.stats.BlockReadBytes.Add(uint64(h.stored) + blockTail)
	t.add(kind, h, false)
}

// expand decompresses a payload into dst and checks it.
func (r *Reader) expand(dst, payload []byte, c Compression, h handle, kind BlockKind) error {
	if err := decompress(dst, payload, c); err != nil {
		return r.damage(h.offset, kind.String(), err)
	}
	return r.checkPayload(dst, h, kind)
}

// checkPayload checks the structure of a decompressed payload once, so that
// views on it need not.
func (r *Reader) checkPayload(payload []byte, h handle, kind BlockKind) error {
	err := errRawLength
	if len(payload) == h.raw {
		if kind == BlockData {
			err = checkData(payload)
		} else {
			err = checkPartition(payload, h.offset)
		}
	}
	if err != nil {
		return r.damage(h.offset, kind.String(), err)
	}
	return nil
}
