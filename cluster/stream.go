package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A snapshot travels in two steps. First its files go over a connection of their own (kindFiles), which only carries
// what the receiver lacks: see send.go and receive.go. Then raft sends a notice in place of the content. So raft's own
// goroutine waits for no file at the receiver, which goes on voting meanwhile.
//
//	sender:   a frame as in rpc.go, with the list of the files in JSON
//	receiver: for each file: have u64 · sha256 of the first "have" bytes of what it has of the file
//	sender:   for each file: from u64 · the bytes of the file from that offset on · sha256 of the whole file
//	receiver: 1 u8, once all files are durable
//
// "have" is how many bytes the receiver has of a file. "from" is the same number if these bytes are the sender's, too,
// and otherwise 0: then the whole file is sent.
//
//	notice  = "shaleSNP" version u32 · sha256 of the list
//
// Integers are little-endian. A checksum of 32 bits would not tell two tables apart: that of a whole table depends on
// the lengths of its blocks alone, since each block ends with its own.
const (
	streamMagic   = "shaleSNP"
	streamVersion = 2
	noticeSize    = 12 + sha256.Size
	haveSize      = 8 + sha256.Size
	streamEnd     = 1 // the receiver's last byte
)

// A fileList says what the store of a snapshot consists of, and how far its state is.
//
// Sender and receiver go through the files in this order, so neither has to name one again.
type fileList struct {
	Version int          `json:"version"`
	Index   uint64       `json:"index"` // of the state's last command
	Term    uint64       `json:"term"`
	Files   []streamFile `json:"files"` // in the order of their names
}

// A streamFile is a file of a store with its size, which is constant: a snapshot's store is never
// written to.
type streamFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// streamed reports whether a file with this name of a store's directory belongs to a snapshot.
func streamed(name string) bool {
	t, _, ok := base.ParseFileName(name)
	return ok && t != base.FileLock && t != base.FileTemp
}

// listFiles lists the files of the store in dir.
func listFiles(fsys vfs.FS, dir string, state position) (*fileList, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	l := &fileList{Version: streamVersion, Index: state.index, Term: state.term}
	for _, name := range names {
		if !streamed(name) {
			continue
		}
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		l.Files = append(l.Files, streamFile{name, info.Size})
	}
	return l, nil
}

// size returns the size of the files and their names as meta.json has it: 28 bytes, and 18 more for each file.
func (l *fileList) size() int64 {
	n := int64(28)
	for _, f := range l.Files {
		n += 18 + int64(len(f.Name)) + f.Size
	}
	return n
}

// encode returns the list in JSON.
func (l *fileList) encode() []byte {
	b, _ := json.Marshal(l) // never fails: there are only numbers and text
	return b
}

// notice returns what raft sends of the snapshot.
func (l *fileList) notice() []byte {
	sum := sha256.Sum256(l.encode())
	return append(binary.LittleEndian.AppendUint32([]byte(streamMagic), streamVersion), sum[:]...)
}

// errStream is why a stream is refused.
var errStream = errors.New("cluster: damaged snapshot stream")

// streamError says what is wrong with a stream. Whoever gets it can't tell a bug from a fault of
// the network, so the transfer ends and is tried again.
func streamError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errStream, fmt.Sprintf(format, args...))
}

// decodeFileList decodes a list. Its names are those of a store's files, each once, so that it can name no file elsewhere.
func decodeFileList(b []byte) (*fileList, error) {
	l := new(fileList)
	if err := json.Unmarshal(b, l); err != nil {
		return nil, streamError("list: %v", err)
	}
	if l.Version != streamVersion {
		return nil, fmt.Errorf("cluster: a snapshot in version %d: %w; update this member's program", l.Version, shale.ErrFormatTooNew)
	}
	last := ""
	for _, f := range l.Files {
		if !streamed(f.Name) || f.Name <= last || f.Size < 0 {
			return nil, streamError("file %q of %d bytes after %q", f.Name, f.Size, last)
		}
		last = f.Name
	}
	return l, nil
}

// checkNotice returns an error unless b is the notice of the list l, which may be nil.
func checkNotice(b []byte, l *fileList) error {
	if l == nil || !bytes.Equal(b, l.notice()) {
		return errors.New("cluster: the files of the snapshot have not arrived, or those of another one came after them")
	}
	return nil
}
