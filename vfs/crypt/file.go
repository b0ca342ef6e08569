package crypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/shaledb/shale/vfs"
)

const (
	blockSize = aes.BlockSize
	// chunkSize is how many bytes are encrypted in memory at once.
	chunkSize = 256 << 10
)

var zeros [blockSize]byte

// A file is an open file. A byte stands headerSize further in the file below.
//
// In a sparse file a block that is all zeros below was never written, and reads as zeros.
// The other bytes of a block that was written in part read as anything. So the written part
// of a block must not be all zeros below: see mark.
type file struct {
	// Constant, but for begin.
	base  vfs.File
	name  string
	keys  Keys
	block cipher.Block // nil: the header is lost
	header

	sparse atomic.Bool // header.sparse, for readers

	// Owned by the writer.
	pos    int64         // of Write
	mark   int64         // bytes from here up were not written, as far as this file knows
	stream cipher.Stream // at offset next; nil: nowhere
	next   int64
	buf    []byte
}

// invalid returns the error of a call with an impossible argument.
func (f *file) invalid(op string) error {
	return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrInvalid}
}

// ReadAt reads and decrypts.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.invalid("read")
	}
	n, err := f.base.ReadAt(p, off+headerSize)
	if derr := f.decrypt(p[:n], off); derr != nil {
		return 0, derr
	}
	return n, err
}

// TryReadAt implements vfs.TryReader.
func (f *file) TryReadAt(p []byte, off int64) error {
	t, ok := f.base.(vfs.TryReader)
	if !ok {
		return vfs.ErrUnsupported
	}
	if off < 0 {
		return f.invalid("read")
	}
	if err := t.TryReadAt(p, off+headerSize); err != nil {
		return err
	}
	return f.decrypt(p, off)
}

// WillNeed implements vfs.TryReader.
func (f *file) WillNeed(off, n int64) {
	if t, ok := f.base.(vfs.TryReader); ok {
		t.WillNeed(off+headerSize, n)
	}
}

// decrypt decrypts bytes that were read from offset off.
func (f *file) decrypt(p []byte, off int64) error {
	switch {
	case f.block == nil:
		clear(p)
		return nil
	case !f.sparse.Load():
		f.newStream(off).XORKeyStream(p, p)
		return nil
	}
	from := 0 // what is decrypted next
	for at := 0; at < len(p); {
		end := min(at+blockSize-int((off+int64(at))%blockSize), len(p))
		unwritten, err := f.unwritten(p[at:end], off+int64(at))
		if err != nil {
			return err
		}
		if unwritten {
			f.xor(p[from:at], off+int64(from))
			from = end
		}
		at = end
	}
	f.xor(p[from:], off+int64(from))
	return nil
}

// xor encrypts or decrypts p in place.
func (f *file) xor(p []byte, off int64) {
	if len(p) > 0 {
		f.newStream(off).XORKeyStream(p, p)
	}
}

// unwritten reports whether the block at off is all zeros below. Of the block, p is what was
// read. A block that the end of the file cuts was written: see grow.
func (f *file) unwritten(p []byte, off int64) (bool, error) {
	if !bytes.Equal(p, zeros[:len(p)]) {
		return false, nil
	}
	if len(p) == blockSize {
		return true, nil
	}
	var whole [blockSize]byte
	n, err := f.base.ReadAt(whole[:], headerSize+off-off%blockSize)
	if err != nil && err != io.EOF {
		return false, err
	}
	return n == blockSize && whole == zeros, nil
}

// newStream returns the key stream from offset off up.
func (f *file) newStream(off int64) cipher.Stream {
	var iv [blockSize]byte
	binary.BigEndian.PutUint64(iv[8:], uint64(off/blockSize))
	s := cipher.NewCTR(f.block, iv[:])
	var skip [blockSize]byte
	s.XORKeyStream(skip[:off%blockSize], skip[:off%blockSize])
	return s
}

// Write writes at the write position.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt encrypts and writes.
func (f *file) WriteAt(p []byte, off int64) (int, error) { return f.write(f.base, p, off) }

// write encrypts p and writes it through dst, which writes to the file below.
func (f *file) write(dst io.WriterAt, p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, f.invalid("write")
	case f.block == nil:
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: errLost}
	case len(p) == 0:
		return dst.WriteAt(p, off+headerSize) // of a file that is closed, it fails
	case off > f.mark:
		// Size is asked for only here, because a log's writes follow each other.
		if size, err := f.Size(); err != nil {
			return 0, err
		} else if off > size {
			if err := f.grow(size, off); err != nil {
				return 0, err
			}
		}
	}
	for n < len(p) && err == nil {
		var m int
		m, err = f.writeChunk(dst, p[n:min(len(p), n+chunkSize)], off+int64(n))
		n += m
	}
	return n, err
}

// writeChunk encrypts and writes at most chunkSize bytes.
func (f *file) writeChunk(dst io.WriterAt, p []byte, off int64) (n int, err error) {
	b := f.encrypt(p, off)
	if off < f.mark {
		if err := f.checkOnce(b[:min(int64(len(b)), f.mark-off)], off); err != nil {
			return 0, err
		}
	}
	n, err = dst.WriteAt(b, off+headerSize)
	f.mark = max(f.mark, off+int64(n))
	if err != nil || n < len(b) {
		f.stream = nil
		return n, err
	}
	if f.sparse.Load() {
		err = f.markEnds(b, off)
	}
	return n, err
}

// encrypt returns p encrypted, until the next call.
func (f *file) encrypt(p []byte, off int64) []byte {
	if f.stream == nil || f.next != off {
		f.stream = f.newStream(off)
	}
	if cap(f.buf) < len(p) {
		f.buf = make([]byte, len(p))
	}
	b := f.buf[:len(p)]
	f.stream.XORKeyStream(b, p)
	f.next = off + int64(len(p))
	return b
}

// checkOnce returns ErrRewritten if b, encrypted, has other bytes than the file at off.
func (f *file) checkOnce(b []byte, off int64) error {
	old := make([]byte, len(b))
	n, err := f.base.ReadAt(old, off+headerSize)
	if err != nil && err != io.EOF {
		return err
	}
	same := n == len(b)
	for i := 0; same && i < n; i++ {
		same = old[i] == b[i] || old[i] == 0
	}
	if !same {
		return &fs.PathError{Op: "write", Path: f.name, Err: ErrRewritten}
	}
	return nil
}

// markEnds makes sure that the blocks in which a write begins and ends are not all zeros
// below. b was written to off. If its part of a block is, which happens to one of 4,000
// writes, the rest of the block gets zeros, encrypted.
func (f *file) markEnds(b []byte, off int64) error {
	end := off + int64(len(b))
	for _, at := range []int64{off - off%blockSize, end - end%blockSize} {
		from, to := max(at, off), min(at+blockSize, end)
		if from >= to || to-from == blockSize || !bytes.Equal(b[from-off:to-off], zeros[:to-from]) {
			continue
		}
		if unwritten, err := f.unwritten(zeros[:1], at); err != nil {
			return err
		} else if unwritten {
			if err := errors.Join(f.writeZeros(at, from), f.writeZeros(to, at+blockSize)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeZeros writes zeros, encrypted, where nothing was written. They take at most a block.
func (f *file) writeZeros(from, to int64) error {
	if from >= to {
		return nil
	}
	b := zeros
	f.xor(b[:to-from], from)
	n, err := f.base.WriteAt(b[:to-from], from+headerSize)
	if err == nil && n < int(to-from) {
		err = io.ErrShortWrite
	}
	return err
}

// grow makes the bytes from size, the end of the file up to now, to end zeros.
func (f *file) grow(size, end int64) error {
	if !f.sparse.Load() {
		h := f.header
		h.sparse = true
		if err := f.writeHeader(h); err != nil {
			return err
		}
	}
	// The blocks at both ends have other bytes, or are cut by the end of the file.
	first := min(end, (size+blockSize-1)/blockSize*blockSize)
	last := max(first, end-end%blockSize)
	return errors.Join(f.writeZeros(size, first), f.writeZeros(last, end))
}

// resize makes the file size bytes long with call, which gets the size below.
func (f *file) resize(op string, size int64, call func(below int64) error) error {
	if size < 0 {
		return f.invalid(op)
	}
	old, err := f.Size()
	if err != nil {
		return err
	}
	if size > old && f.block == nil {
		return &fs.PathError{Op: op, Path: f.name, Err: errLost}
	}
	cut := size - size%blockSize // of a block that is cut, all counts as written
	hole := false
	if size < old && cut < size && f.sparse.Load() {
		if hole, err = f.unwritten(zeros[:1], cut); err != nil {
			return err
		}
	}
	switch err := call(size + headerSize); {
	case err != nil:
		return err
	case hole:
		return f.writeZeros(cut, size)
	case size > old:
		return f.grow(old, size)
	}
	return nil
}

// Truncate changes the size.
func (f *file) Truncate(size int64) error { return f.resize("truncate", size, f.base.Truncate) }

// Preallocate reserves blocks below.
func (f *file) Preallocate(size int64) error {
	if size == 0 {
		return f.invalid("preallocate")
	}
	return f.resize("preallocate", size, f.base.Preallocate)
}

// Renew implements vfs.WriteOnce: with another nonce, all bytes are others.
func (f *file) Renew() error { return f.begin(true) }

// Sync makes the data and the header durable.
func (f *file) Sync() error { return f.base.Sync() }

// Size returns the length in bytes, without the header.
func (f *file) Size() (int64, error) {
	size, err := f.base.Size()
	return max(size-headerSize, 0), err
}

func (f *file) Close() error { return f.base.Close() }

// Unwrap returns the file below, which package vfs asks for a file of the operating system.
func (f *file) Unwrap() vfs.File { return f.base }

// Map maps the file below, if it can be mapped.
func (f *file) Map(size int64) (vfs.Mapping, error) {
	m, ok := f.base.(vfs.Mapper)
	if !ok {
		return nil, vfs.ErrUnsupported
	}
	if size <= 0 {
		return nil, f.invalid("mmap")
	}
	base, err := m.Map(size + headerSize)
	if err != nil {
		return nil, err
	}
	return &mapping{base, f}, nil
}

// A mapping is a mapping of a file.
type mapping struct {
	vfs.Mapping
	file *file
}

// WriteAt encrypts p into the mapping below.
func (m *mapping) WriteAt(p []byte, off int64) (int, error) { return m.file.write(m.Mapping, p, off) }
