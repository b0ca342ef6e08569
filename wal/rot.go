package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/shaledb/shale/internal/syndrome"
)

// This file distinguishes rot from a torn end, in the place where no record says that the log
// was synced: behind the last record that does.
//
// A crash that cuts a write short leaves older bytes, in whole sectors or in whole words of
// one. In a file that was new, as the header says, these are zeros. So a record is damaged, and not torn, if one
// flipped bit explains why it does not check, if the rest of it checks, and if that bit is not
// where older zeros may be. In a file that was another log before the older bytes may be
// anything, those of a record that differs in one bit too, so nothing there is called damage.
// docs/FORMAT.md has the rule, under "Rot at the end of a log".

// rot returns what is wrong with the record behind the last one that checks, if that record
// was written whole and then one bit of it was flipped. It returns nil if a torn write may have
// left these bytes.
func (r *reader) rot() (cause, err error) {
	if r.prealloc&1 != 0 {
		return nil, nil
	}
	s := &r.scan
	if err := s.seek(r.result.Length); err != nil {
		return nil, noEOF(err)
	}
	for first := true; ; first = false {
		f, ok, err := s.next()
		if err != nil {
			return nil, noEOF(err)
		}
		if !ok {
			if cause != nil {
				return nil, nil // a second fragment does not check
			}
			if f, cause = s.mend(); cause == nil {
				return nil, nil
			}
		}
		if f.starts() != first {
			return nil, nil
		}
		if f.kind != kindFirst && f.kind != kindMiddle {
			break
		}
	}
	return cause, nil
}

// mend looks for one bit at the current position that, flipped back, makes a fragment of the
// bytes there. It returns the fragment and what is wrong with it, and moves behind it. The
// error is nil if there is no such bit, or if a torn write may have left it.
func (s *scanner) mend() (f fragment, wrong error) {
	b := s.block[s.pos:]
	if len(b) < fragmentSize {
		return f, nil
	}
	try := func(pos int, mask byte) bool {
		b[pos] ^= mask
		fixed, ok := s.codec.decodeFragment(s.block, s.off, s.pos)
		b[pos] ^= mask
		if !ok {
			return false
		}
		f = fixed
		n := fragmentSize + len(f.content)
		s.pos += n
		if !syndrome.MayBeOld(f.off, b[:n], pos) {
			wrong = fmt.Errorf("checksum mismatch: it matches if byte %d is not %#02x but %#02x, and a torn write does not leave that",
				f.off+int64(pos), b[pos], b[pos]^mask)
		}
		return true
	}
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if n <= len(b)-fragmentSize {
		sum := binary.LittleEndian.Uint32(b) ^ s.codec.checksum(s.offset(), b[4:fragmentSize+n])
		// The message is the length, the tag and the content; its checksum is in front of it.
		if pos, mask, ok := syndrome.OneBit(fragmentSize-crc32.Size+n, sum); ok && sum != 0 {
			if try((pos+crc32.Size)%(fragmentSize+n), mask) {
				return f, wrong
			}
		}
	}
	for bit := range 16 { // a wrong length covers other bytes, so its bits are tried
		if try(4+bit/8, 1<<(bit%8)) {
			break
		}
	}
	return f, wrong
}

// noEOF returns nil if err is the end of the file, else err.
func noEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
