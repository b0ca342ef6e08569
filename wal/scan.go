package wal

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A scanner walks the fragments of a file, block by block.
type scanner struct {
	file  io.ReaderAt
	name  string
	size  int64
	codec *codec

	buf   []byte // blockSize bytes
	block []byte // of buf: the block in memory, shorter at the end of the file
	off   int64  // its file offset
	pos   int    // the next fragment in it
}

func newScanner(file io.ReaderAt, name string, size int64, c *codec) scanner {
	s := scanner{file: file, name: name, size: size, codec: c}
	s.rewind()
	return s
}

// rewind moves to the beginning of the first block.
func (s *scanner) rewind() { s.block, s.off, s.pos = nil, headerSize-blockSize, blockSize }

// offset returns the file offset of the next fragment.
func (s *scanner) offset() int64 { return s.off + int64(s.pos) }

// seek moves to file offset off, which is behind the header. io.EOF: the file ends there or before.
func (s *scanner) seek(off int64) error {
	if off >= s.size {
		return io.EOF
	}
	start := off - (off-headerSize)&(blockSize-1)
	if start != s.off {
		if s.buf == nil {
			s.buf = make([]byte, min(blockSize, s.size-headerSize))
		}
		s.block = s.buf[:min(int64(len(s.buf)), s.size-start)]
		s.off = -1 // until the block is there
		if err := readFull(s.file, s.block, start); err != nil {
			return fmt.Errorf("wal: read %s at offset %d: %w", s.name, start, err)
		}
		s.off = start
	}
	s.pos = int(off - start)
	return nil
}

// next returns the fragment at the current position, or behind the padding
// that is there, and moves behind it. ok is false if the bytes are no
// fragment: offset tells where. io.EOF is the end of the file.
func (s *scanner) next() (f fragment, ok bool, err error) {
	if blockSize-s.pos < minRoom {
		if err := s.seek(s.off + blockSize); err != nil {
			return f, false, err
		}
	}
	f, ok = s.codec.decodeFragment(s.block, s.off, s.pos)
	if ok {
		s.pos += fragmentSize + len(f.content)
	}
	return f, ok, nil
}

// search returns the first fragment at off or behind, wherever it begins, and
// moves behind it.
//
// Few places are worth a checksum: the tag leaves one in 8,192 of those with a
// valid kind, even in the remains of the log that the file was before.
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
				pos += 8 // no tag, of which the first byte is never 0, begins in these
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

// skipTagged moves behind bytes at the current position that have the tag of a fragment of this log but are none, by the
// length that they state. It returns false if there are none.
func (s *scanner) skipTagged() bool {
	b := s.block[s.pos:]
	if len(b) < fragmentSize {
		return false
	}
	tag, n := binary.LittleEndian.Uint16(b[6:]), int(binary.LittleEndian.Uint16(b[4:]))
	if tag&^kindMask != s.codec.mark || tag&kindMask == 0 || n > len(b)-fragmentSize {
		return false
	}
	s.pos += fragmentSize + n
	return true
}

// onlyZeros tells whether there is nothing but zeros from the current position to the end of the file.
func (s *scanner) onlyZeros() (bool, error) {
	for {
		for _, b := range s.block[s.pos:] {
			if b != 0 {
				return false, nil
			}
		}
		if err := s.seek(s.off + blockSize); err == io.EOF {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
}

// tagged tells whether the bytes at off look like the beginning of a fragment
// of this log that was not written to its end.
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
