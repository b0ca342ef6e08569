package wal

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A scanner walks the fragments of a file. It has one block of the file in memory.
type scanner struct {
	file  io.ReaderAt
	name  string
	size  int64
	codec *codec

	buf   []byte // memory for a block; nil: not allocated yet
	block []byte // the block that is loaded, a part of buf; shorter at the end of the file
	off   int64  // file offset of block
	pos   int    // where in block the next fragment begins
	last  int64  // file offset of the fragment that next has returned last, in block

	copy *rangeCopy // not nil: blocks are parts of it, and nothing else is read
}

func newScanner(file io.ReaderAt, name string, size int64, c *codec) scanner {
	s := scanner{file: file, name: name, size: size, codec: c}
	s.rewind()
	return s
}

// rewind moves to the beginning of the first block. It loads nothing: the next call of next
// does.
func (s *scanner) rewind() { s.block, s.off, s.pos = nil, headerSize-blockSize, blockSize }

// offset returns the file offset of the next fragment.
func (s *scanner) offset() int64 { return s.off + int64(s.pos) }

// seek moves to file offset off, which must be behind the header. It loads the block of that
// offset. io.EOF means that the file ends there or before.
func (s *scanner) seek(off int64) error {
	if off >= s.size {
		return io.EOF
	}
	start := off - (off-headerSize)&(blockSize-1)
	if start != s.off {
		s.off = -1 // if the read fails, no block is loaded
		switch err := s.load(start); {
		case err == io.ErrUnexpectedEOF && s.shorter():
			return s.seek(off)
		case err != nil:
			return fmt.Errorf("wal: read %s at offset %d: %w", s.name, start, err)
		}
		s.off = start
	}
	s.pos = int(off - start)
	return nil
}

// load makes block the one that begins at file offset start.
func (s *scanner) load(start int64) (err error) {
	if s.copy != nil {
		s.block, err = s.copy.block(s.file, start)
		return err
	}
	if s.buf == nil {
		s.buf = make([]byte, min(blockSize, s.size-headerSize))
	}
	s.block = s.buf[:min(int64(len(s.buf)), s.size-start)]
	return readFull(s.file, s.block, start)
}

// shorter reports whether the file is shorter than it was: its writer may have cut off what it had reserved.
func (s *scanner) shorter() bool {
	f, ok := s.file.(interface{ Size() (int64, error) })
	if !ok {
		return false
	}
	size, err := f.Size()
	if err != nil || size >= s.size {
		return false
	}
	s.size = size
	return true
}

// next returns the fragment at the current position, or behind the padding that is there, and
// moves behind it. If the bytes are no fragment, ok is false, and offset returns where they
// are. io.EOF is the end of the file.
func (s *scanner) next() (f fragment, ok bool, err error) {
	if blockSize-s.pos < minRoom {
		if err := s.seek(s.off + blockSize); err != nil {
			return f, false, err
		}
	}
	f, ok = s.codec.decodeFragment(s.block, s.off, s.pos)
	if ok {
		s.last = s.offset()
		s.pos += fragmentSize + len(f.content)
	}
	return f, ok, nil
}

// search returns the first fragment that begins at or behind off, in whatever place, and
// moves behind it.
//
// It computes the checksum only where the tag is right. That is one in 8,192 of the places
// with a valid kind, even in the remains of the log that the file was before.
func (s *scanner) search(off int64) (f fragment, found bool, err error) {
	for {
		if err := s.seek(off); err == io.EOF {
			return f, false, nil
		} else if err != nil {
			return f, false, err
		}
		for pos := s.pos; pos+fragmentSize <= len(s.block); pos++ {
			b := s.block[pos:]
			if binary.LittleEndian.Uint64(b) == 0 && len(b) >= 16 && binary.LittleEndian.Uint64(b[8:]) == 0 {
				pos += 8 // no fragment begins in these 8 bytes: a tag's first byte is never 0
				continue
			}
			if binary.LittleEndian.Uint16(b[6:])&^kindMask != s.codec.mark {
				continue
			}
			if f, found = s.codec.decodeFragment(s.block, s.off, pos); found {
				s.pos = pos + fragmentSize + len(f.content)
				return f, true, nil
			}
		}
		off = s.off + blockSize
	}
}

// tagged reports whether the bytes at off have the tag of a fragment of this log. If they are
// none, they are the beginning of a fragment that was not completely written.
func (s *scanner) tagged(off int64) (bool, error) {
	if err := s.seek(off); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if len(s.block)-s.pos < fragmentSize {
		return false, nil
	}
	tag := binary.LittleEndian.Uint16(s.block[s.pos+6:])
	return tag&^kindMask == s.codec.mark && tag&kindMask != 0, nil
}
