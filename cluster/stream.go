package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A stream is a store that travels: what raft sends to a member that is too far behind for the log.
// It has the files of a checkpoint as they are on disk, so its size is theirs and a few bytes a
// file. All integers are little-endian.
//
//	stream  = header file*
//	header  = "shaleSNP" version u32 · number of files u32 · bytes of all contents u64 · crc32c of the 24 bytes before u32
//	file    = length of the name u16 · size u64 · name · crc32c of all before u32 · content · crc32c of the content u32
//
// Files come in the order of their names, each once. A name is that of a file of a store (a table, a
// filter, a log, a manifest or CURRENT), so a stream can name no file elsewhere. For example, a
// stream of the one file CURRENT with the content "x", in hexadecimal:
//
//	73 68 61 6c 65 53 4e 50  01 00 00 00  01 00 00 00  01 00 00 00 00 00 00 00  8c db 2f f5
//	07 00  01 00 00 00 00 00 00 00  43 55 52 52 45 4e 54  9c ce 33 22
//	78  93 5f 3c a9

const (
	streamMagic   = "shaleSNP"
	streamVersion = 1

	streamHeaderSize = 28
	streamFileHeader = 10 // before the name
	streamCRC        = 4

	// maxStreamFiles bounds what a header can make a receiver expect. Names are at most this long, too.
	maxStreamFiles = 1 << 24
	maxStreamName  = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A streamFile is a file of a stream: where it is on this member's disk, and its size.
type streamFile struct {
	name string
	size int64
}

// streamed reports whether a file with this name of a store's directory belongs into a stream.
func streamed(name string) bool {
	t, _, ok := base.ParseFileName(name)
	return ok && t != base.FileLock && t != base.FileTemp
}

// streamFiles lists the files of the store in dir, in the order of their names.
func streamFiles(fsys vfs.FS, dir string) ([]streamFile, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var files []streamFile
	for _, name := range names {
		if !streamed(name) {
			continue
		}
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, streamFile{name, info.Size})
	}
	return files, nil
}

// streamSize returns the length of the stream of these files.
func streamSize(files []streamFile) int64 {
	n := int64(streamHeaderSize)
	for _, f := range files {
		n += streamFileHeader + int64(len(f.name)) + streamCRC + f.size + streamCRC
	}
	return n
}

func appendStreamHeader(dst []byte, files []streamFile) []byte {
	start := len(dst)
	dst = append(dst, streamMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, streamVersion)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(files)))
	total := int64(0)
	for _, f := range files {
		total += f.size
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(total))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendStreamFile(dst []byte, f streamFile) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.name)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.size))
	dst = append(dst, f.name...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// A streamReader reads the stream of a store's files. A file that has become shorter is an error, and
// what has been added to one is not read.
type streamReader struct {
	fs    vfs.FS
	dir   string
	files []streamFile // that are to come

	head []byte   // framing that is to be read before content
	file vfs.File // the one that is read; nil: none
	name string   // of file
	at   int64    // offset in file
	left int64    // bytes of file to come
	sum  uint32   // of the bytes of file that were read
}

func newStreamReader(fsys vfs.FS, dir string, files []streamFile) *streamReader {
	return &streamReader{fs: fsys, dir: dir, files: files, head: appendStreamHeader(nil, files)}
}

// Read implements io.Reader.
func (r *streamReader) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(r.head) > 0:
			n := copy(p, r.head)
			r.head = r.head[n:]
			return n, nil
		case r.file != nil && r.left > 0:
			return r.content(p)
		case r.file != nil:
			r.head = binary.LittleEndian.AppendUint32(r.head, r.sum)
			if err := r.Close(); err != nil {
				return 0, err
			}
		case len(r.files) == 0:
			return 0, io.EOF
		default:
			if err := r.open(); err != nil {
				return 0, err
			}
		}
	}
}

// open begins the next file.
func (r *streamReader) open() (err error) {
	next := r.files[0]
	if r.file, err = r.fs.Open(filepath.Join(r.dir, next.name)); err != nil {
		return err
	}
	r.files = r.files[1:]
	r.head = appendStreamFile(nil, next)
	r.name, r.at, r.left, r.sum = next.name, 0, next.size, 0
	return nil
}

func (r *streamReader) content(p []byte) (int, error) {
	n, err := r.file.ReadAt(p[:min(int64(len(p)), r.left)], r.at)
	if n > 0 {
		r.sum = crc32.Update(r.sum, castagnoli, p[:n])
		r.at += int64(n)
		r.left -= int64(n)
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = &shale.CorruptionError{File: r.name, Offset: r.at, Part: "content", Err: fmt.Errorf("the file ends %d bytes early", r.left)}
	}
	return 0, err
}

// Close closes the file that is open.
func (r *streamReader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// errStream is why a stream is refused.
var errStream = errors.New("cluster: damaged snapshot stream")

func streamError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errStream, fmt.Sprintf(format, args...))
}

// decodeStream reads a stream to its end and calls create for each file, and then Write and Close of
// what it returned. Nothing counts before decodeStream has returned nil: it may meet damage
// after it has passed on files, and it closes the last one with an error then.
func decodeStream(r io.Reader, create func(f streamFile) (streamSink, error)) error {
	var buf [streamHeaderSize]byte
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return streamEnd("header", err)
	}
	files, total, err := decodeStreamHeader(buf[:])
	if err != nil {
		return err
	}
	last := ""
	for range files {
		f, err := readStreamFile(r, last, total)
		if err != nil {
			return err
		}
		last = f.name
		total -= f.size
		if err := readStreamContent(r, f, create); err != nil {
			return err
		}
	}
	if total != 0 {
		return streamError("the header says %d bytes more than the files have", total)
	}
	if n, err := io.ReadFull(r, buf[:1]); n > 0 || !errors.Is(err, io.EOF) {
		if n > 0 {
			return streamError("bytes follow the last file")
		}
		return err
	}
	return nil
}

// A streamSink takes the content of a file. Abort closes it after damage.
type streamSink interface {
	io.WriteCloser
	Abort()
}

// streamEnd returns the error for a stream that ends within a part.
func streamEnd(part string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return streamError("it ends in the %s", part)
	}
	return err
}

// decodeStreamHeader returns the number of files and of bytes in them.
func decodeStreamHeader(b []byte) (files uint32, total int64, err error) {
	if string(b[:8]) != streamMagic {
		return 0, 0, streamError("it begins with %x", b[:8])
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != streamVersion {
		return 0, 0, fmt.Errorf("cluster: snapshot stream of version %d: %w; update this member's program", v, shale.ErrFormatTooNew)
	}
	if binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli) {
		return 0, 0, streamError("checksum mismatch in the header")
	}
	files, total = binary.LittleEndian.Uint32(b[12:]), int64(binary.LittleEndian.Uint64(b[16:]))
	if files > maxStreamFiles || total < 0 {
		return 0, 0, streamError("%d files of %d bytes", files, uint64(total))
	}
	return files, total, nil
}

// readStreamFile reads the header of a file, whose name comes after last and whose size is at most left.
func readStreamFile(r io.Reader, last string, left int64) (streamFile, error) {
	var buf [streamFileHeader + maxStreamName + streamCRC]byte
	if _, err := io.ReadFull(r, buf[:streamFileHeader]); err != nil {
		return streamFile{}, streamEnd("header of a file", err)
	}
	n := int(binary.LittleEndian.Uint16(buf[:]))
	if n > maxStreamName {
		return streamFile{}, streamError("a name of %d bytes", n)
	}
	b := buf[:streamFileHeader+n+streamCRC]
	if _, err := io.ReadFull(r, b[streamFileHeader:]); err != nil {
		return streamFile{}, streamEnd("name of a file", err)
	}
	body := b[:streamFileHeader+n]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return streamFile{}, streamError("checksum mismatch in the header of a file")
	}
	f := streamFile{name: string(body[streamFileHeader:]), size: int64(binary.LittleEndian.Uint64(body[2:]))}
	switch {
	case !streamed(f.name):
		return streamFile{}, streamError("%q is no name of a store's file", f.name)
	case f.name <= last:
		return streamFile{}, streamError("file %q comes after %q", f.name, last)
	case f.size < 0 || f.size > left:
		return streamFile{}, streamError("file %q has %d bytes, and %d are left", f.name, uint64(f.size), left)
	}
	return f, nil
}

// readStreamContent passes the content of a file on and checks it.
func readStreamContent(r io.Reader, f streamFile, create func(f streamFile) (streamSink, error)) error {
	dst, err := create(f)
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	var crc [streamCRC]byte
	// Not io.CopyN, which drops the error of a last write that reports all of its bytes as written.
	n, err := io.Copy(io.MultiWriter(dst, sum), io.LimitReader(r, f.size))
	if err == nil && n < f.size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = io.ReadFull(r, crc[:])
	}
	switch {
	case err != nil:
		err = streamEnd("file "+f.name, err)
	case binary.LittleEndian.Uint32(crc[:]) != sum.Sum32():
		err = streamError("checksum mismatch in file %s", f.name)
	}
	if err != nil {
		dst.Abort()
		return err
	}
	return dst.Close()
}
