package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A sidecar file consists of a filter block and a footer. The block begins the file, so that
// the lines of the filter are aligned when the file is mapped. Part of the file format; the
// last 20 bytes are like those of a table's footer.
//
//	0   filter length            8   file number
//	16  table number             24  store id
//	32  file checksum of the table, u32
//	36  prefix rule, u32         40  prefixes, u32
//	44  footer length, u32       48  checksum, u32
//	52  version, u32             56  magic
const (
	sidecarFooter   = 64
	sidecarChecksum = 48
	sidecarVersion  = 1
	sidecarMagic    = "shaleFLT"
)

var (
	errSidecarMagic = errors.New("not a filter file: bad magic")
	errSidecarSize  = errors.New("filter length differs from the file's")
)

// SidecarInfo says which sidecar to expect or to write, and which table it belongs to.
type SidecarInfo struct {
	Num           base.FileNum
	StoreID       uint64
	Table         base.FileNum
	TableChecksum uint32 // the file checksum that the table's footer states

	// The manifest has these, and WriteSidecar returns them.
	Size     int64
	Checksum uint32 // of the filter: see ownChecksum
}

// A Sidecar is a second file with a filter of a table. RebuildFilters writes it when the
// filter in the table is not the one that is wanted any more: the table itself is immutable.
// BuildFilter makes the filter, WriteSidecar the file, and SetSidecar makes readers use it. A
// Sidecar is immutable, and many goroutines may use it.
//
// The footer names the table, its store and its checksum. So a sidecar is never used for
// another table, whose keys its filter would deny.
type Sidecar struct {
	src  io.ReaderAt
	info SidecarInfo
}

// NewSidecar returns the sidecar in src, and reads nothing. src must stay open as long as the
// sidecar is used, and the caller closes it.
func NewSidecar(src io.ReaderAt, info SidecarInfo) *Sidecar {
	return &Sidecar{src: src, info: info}
}

// Num returns the number of the sidecar's file.
func (s *Sidecar) Num() base.FileNum { return s.info.Num }

// A BuiltFilter is the result of BuildFilter.
type BuiltFilter struct {
	Bytes []byte

	// If Rule is set, the filter knows the prefixes of the keys too. prefixes is the number
	// of distinct ones.
	Rule     base.PrefixRule
	prefixes uint64
}

// WriteSidecar writes a sidecar into the empty file f and makes its content durable. It
// returns info with Size and Checksum set. The caller closes f, and makes its name durable.
func WriteSidecar(f vfs.File, info SidecarInfo, filter BuiltFilter) (SidecarInfo, error) {
	b := appendSidecar(nil, &info, filter)
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return info, fmt.Errorf("sstable: write filter %d: %w", uint64(info.Num), err)
	}
	return info, nil
}

// appendSidecar appends the whole file to dst, and sets Size and Checksum of info. Requires:
// dst is empty, because the block's checksum covers its offset, 0.
func appendSidecar(dst []byte, info *SidecarInfo, filter BuiltFilter) []byte {
	dst = append(dst, filter.Bytes...)
	dst = appendBlockTail(dst, 0, noCompression, checksumSeed(info.StoreID, info.Num), BlockFilter, 0)
	le := binary.LittleEndian
	info.Checksum = ownChecksum(filter.Bytes)
	start := len(dst)
	for _, v := range []uint64{uint64(len(filter.Bytes)), uint64(info.Num), uint64(info.Table), info.StoreID} {
		dst = le.AppendUint64(dst, v)
	}
	dst = le.AppendUint32(dst, info.TableChecksum)
	dst = le.AppendUint32(dst, uint32(encodeRule(filter.Rule)))
	dst = le.AppendUint32(dst, uint32(min(filter.prefixes, math.MaxUint32)))
	dst = le.AppendUint32(dst, sidecarFooter)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, sidecarVersion)
	dst = append(dst, sidecarMagic...)
	le.PutUint32(dst[start+sidecarChecksum:], footerCRC(dst[start:]))
	info.Size = int64(len(dst))
	return dst
}

// ownChecksum returns the last four bytes of a filter, which are its own checksum. The
// manifest uses it to tell filters of the same length apart. The checksum of the filter's
// block can't do that: a crc over bytes that end with their own crc depends only on their
// length.
func ownChecksum(filter []byte) uint32 {
	if len(filter) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(filter[len(filter)-4:])
}

// damage returns the error for a part of the file that is not what it should be.
func (s *Sidecar) damage(offset int64, part string, err error) error {
	return damageOf(nameOf(s.src, base.FilterName(s.info.Num)), offset, part, err)
}

// read reads the filter of a table with keys distinct keys. Its memory is aligned to cache
// lines. The error says why the sidecar can't be used.
func (s *Sidecar) read(keys uint64) (*LoadedFilter, error) {
	l := new(LoadedFilter)
	f, foot, err := s.readFile(l.alloc)
	if err == nil {
		err = s.checkKeys(f, foot, keys)
	}
	if err != nil {
		return nil, err
	}
	l.filter, l.rule = *f, foot.rule
	return l, nil
}

// appendFilter appends the filter to dst, after the same checks as in read.
func (s *Sidecar) appendFilter(dst []byte, keys uint64) ([]byte, error) {
	n := len(dst)
	f, foot, err := s.readFile(func(size int) []byte {
		dst = slices.Grow(dst, size)
		return dst[n : n+size]
	})
	if err == nil {
		err = s.checkKeys(f, foot, keys)
	}
	if err != nil {
		return dst[:n], err
	}
	return dst[: n+f.SizeBytes() : cap(dst)], nil
}

// checkKeys checks that the filter was built from as many keys and prefixes as it should be.
// keys is the table's number of keys.
func (s *Sidecar) checkKeys(f *bloom.Static, foot sidecarFoot, keys uint64) error {
	if f.Count() != min(keys+foot.prefixes, math.MaxUint32) {
		return s.damage(0, BlockFilter.String(), errFilterKeys)
	}
	return nil
}

// readFile reads the file into memory from alloc, and returns the filter, which is a view of
// it. It checks all but the number of keys.
func (s *Sidecar) readFile(alloc func(n int) []byte) (f *bloom.Static, foot sidecarFoot, err error) {
	if foot, err = s.readFooter(); err != nil {
		return nil, foot, err
	}
	b := alloc(int(s.info.Size) - sidecarFooter)
	if n, err := s.src.ReadAt(b, 0); n < len(b) {
		return nil, foot, s.readError(err, int64(n))
	}
	f, err = openFilterBlock(b, foot.seed, 0)
	if err == nil && ownChecksum(b[:f.SizeBytes()]) != s.info.Checksum {
		err = errors.New("checksum differs from the manifest")
	}
	if err != nil {
		return nil, foot, s.damage(0, BlockFilter.String(), err)
	}
	return f, foot, nil
}

// Check reads the whole file and returns what is wrong with it. It can't check that the
// filter knows the table's keys: see VerifyWith.
func (s *Sidecar) Check() error {
	_, _, err := s.readFile(alignedBytes)
	return err
}

// A sidecarFoot is the part of a footer that a reader needs.
type sidecarFoot struct {
	seed     uint32 // of the block's checksum
	rule     base.PrefixRule
	prefixes uint64
}

// readFooter reads the footer, and checks that this is the sidecar that is wanted. Like
// readTail, it asks for one byte more than there should be.
func (s *Sidecar) readFooter() (foot sidecarFoot, err error) {
	const most = 1<<31 - 1 // an int on all platforms
	if s.info.Size < sidecarFooter+blockTail || s.info.Size > most {
		return foot, s.damage(0, "end of file", errFooterLength)
	}
	var buf [sidecarFooter + 1]byte
	at := s.info.Size - sidecarFooter
	n, err := s.src.ReadAt(buf[:], at)
	switch {
	case n > sidecarFooter:
		return foot, s.damage(s.info.Size, "end of file", errors.New("file is longer than it should be"))
	case n < sidecarFooter || !isEOF(err) && err != nil:
		return foot, s.readError(err, at+int64(n))
	}
	err = s.checkFooter(buf[:sidecarFooter])
	le := binary.LittleEndian
	if rule := le.Uint32(buf[36:]); err == nil && rule != 0 {
		foot.rule, err = decodeRule(uint64(rule))
	}
	if err != nil {
		return foot, s.damage(at, "footer", err)
	}
	foot.seed = checksumSeed(le.Uint64(buf[24:]), base.FileNum(le.Uint64(buf[8:])))
	foot.prefixes = uint64(le.Uint32(buf[40:]))
	return foot, nil
}

// checkFooter compares a footer with the one that is wanted. The checksum comes before the
// version, so that a damaged version is not taken for a newer one.
func (s *Sidecar) checkFooter(b []byte) error {
	le := binary.LittleEndian
	switch {
	case string(b[56:]) != sidecarMagic:
		return errSidecarMagic
	case le.Uint32(b[sidecarChecksum:]) != footerCRC(b):
		return errChecksum
	case le.Uint32(b[52:]) != sidecarVersion:
		return fmt.Errorf("%w (filter file format %d)", base.ErrFormatTooNew, le.Uint32(b[52:]))
	case le.Uint32(b[44:]) != sidecarFooter:
		return errFooterLength
	case le.Uint64(b) != uint64(s.info.Size-sidecarFooter-blockTail):
		return errSidecarSize
	case le.Uint64(b[24:]) != s.info.StoreID:
		return errors.New("filter of another store")
	case le.Uint64(b[8:]) != uint64(s.info.Num):
		return fmt.Errorf("footer of filter file %d", le.Uint64(b[8:]))
	case le.Uint64(b[16:]) != uint64(s.info.Table):
		return fmt.Errorf("filter of table %d", le.Uint64(b[16:]))
	case le.Uint32(b[32:]) != s.info.TableChecksum:
		return errors.New("filter of another table of this number")
	}
	return nil
}

// readError returns the error for a read that returned too few bytes. It is damage if the
// file ends too early or does not exist, else it is the error of the device.
func (s *Sidecar) readError(err error, offset int64) error {
	switch {
	case err == nil || isEOF(err):
		return s.damage(offset, "end of file", errTruncated)
	case errors.Is(err, fs.ErrNotExist):
		return s.damage(-1, "file named by the manifest", err)
	}
	return s.damage(offset, "", err)
}
