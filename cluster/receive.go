package cluster

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// What a member receives of a snapshot lies in the directory "incoming" of its snapshots, until raft's notice
// makes a snapshot of it:
//
//	incoming/store/000012.sst        a file that is whole and durable
//	incoming/store/000013.sst.part   the beginning of one
//
// It stays when a transfer is cut, also by a restart, and the next transfer goes on with it. That need not be from the
// same sender: the receiver only says what it has under the names of the sender's list, and the
// sender decides whether these are the bytes. A whole file may be a hard link to one of an older snapshot of this
// member, so it is never written to. A snapshot of the member's own removes the directory: nobody needs it any more.
const (
	incomingName = "incoming"
	partSuffix   = ".part"
)

// incoming is the directory of what has arrived, and incomingStore the store in it.
func (s *snapshots) incoming() string      { return filepath.Join(s.dir, incomingName) }
func (s *snapshots) incomingStore() string { return filepath.Join(s.incoming(), storeName) }

// dropIncoming removes what has arrived, when the member has a snapshot of its own with this index. It does not if a
// transfer is under way, or the notice of a later snapshot is about to come.
func (s *snapshots) dropIncoming(index uint64) {
	if s.receiving.TryLock() {
		defer s.receiving.Unlock()
		if s.arrived == nil || s.arrived.Index <= index {
			s.arrived = nil
			_ = removeTree(s.fs, s.incoming()) // what is left goes the next time
		}
	}
}

// receive receives the files of a snapshot, and says so to the sender once they are all durable. It ends an earlier
// transfer, whose sender may hang or lead no more.
func (s *snapshots) receive(conn io.ReadWriteCloser) error {
	s.mu.Lock()
	if s.sender != nil {
		_ = s.sender.Close() // that ends its transfer
	}
	s.sender = conn
	s.mu.Unlock()
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.arrived = nil
	r := bufio.NewReaderSize(conn, streamPiece)
	_, b, err := readFrame(r, maxCall)
	if err != nil {
		return err
	}
	list, err := decodeFileList(b)
	if err != nil {
		return err
	}
	if err := s.prepare(list); err != nil {
		return err
	}
	for _, f := range list.Files {
		if err := s.receiveFile(conn, r, f); err != nil {
			return fmt.Errorf("cluster: receive %s of a snapshot: %w", f.Name, err)
		}
	}
	if err := s.fs.SyncDir(s.incomingStore()); err != nil {
		return err
	}
	s.arrived = list
	_, err = conn.Write([]byte{streamEnd})
	return err
}

// prepare makes the directory, and removes from it what the list does not have.
func (s *snapshots) prepare(list *fileList) error {
	if err := s.fs.MkdirAll(s.incomingStore()); err != nil {
		return err
	}
	names, err := s.fs.List(s.incomingStore())
	if err != nil {
		return err
	}
	for _, name := range names {
		_, wanted := slices.BinarySearchFunc(list.Files, strings.TrimSuffix(name, partSuffix),
			func(f streamFile, name string) int { return strings.Compare(f.Name, name) })
		if wanted {
			continue
		}
		if err := removeTree(s.fs, filepath.Join(s.incomingStore(), name)); err != nil {
			return err
		}
	}
	return nil
}

// find returns the file that may have some bytes of f, or all of it. A table may be in an older snapshot, too.
func (s *snapshots) find(f streamFile) (name string, size int64) {
	whole := filepath.Join(s.incomingStore(), f.Name)
	if t, _, _ := base.ParseFileName(f.Name); t == base.FileTable || t == base.FileFilter {
		s.mu.Lock()
		for _, snap := range s.list {
			old := filepath.Join(snap.store(), f.Name)
			if info, err := s.fs.Stat(old); err == nil && info.Size == f.Size {
				_ = s.fs.Link(old, whole) // unless it is there
			}
		}
		s.mu.Unlock()
	}
	if info, err := s.fs.Stat(whole); err == nil && info.Size == f.Size {
		return whole, f.Size
	}
	if info, err := s.fs.Stat(whole + partSuffix); err == nil && info.Size <= f.Size {
		return whole + partSuffix, info.Size
	}
	return "", 0
}

// receiveFile receives what is missing of a file. It is whole and durable afterwards, but for its name.
func (s *snapshots) receiveFile(conn io.Writer, r io.Reader, f streamFile) (err error) {
	sum := sha256.New()
	name, have := s.find(f)
	if have > 0 {
		if err := hashFile(s.fs, name, have, sum); err != nil {
			return err
		}
	}
	if _, err := conn.Write(sum.Sum(binary.LittleEndian.AppendUint64(nil, uint64(have)))); err != nil {
		return err
	}
	var answer [8]byte
	if _, err := io.ReadFull(r, answer[:]); err != nil {
		return err
	}
	whole := filepath.Join(s.incomingStore(), f.Name)
	var file vfs.File
	switch from := int64(binary.LittleEndian.Uint64(answer[:])); {
	case from != 0 && from != have:
		return streamError("it goes on at %d, and %d bytes are here", uint64(from), have)
	case from > 0 && name == whole:
		return checkSum(r, sum)
	case from > 0:
		file, err = s.fs.OpenReadWrite(name)
	default:
		// The file under this name may be shared with another snapshot.
		if err = s.fs.Remove(whole); err == nil || errors.Is(err, fs.ErrNotExist) {
			file, err = s.fs.Create(whole + partSuffix)
		}
		have = 0
		sum.Reset()
	}
	if err != nil {
		return err
	}
	// Not io.CopyN, which drops the error of a last write that reports all of its bytes as written.
	n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(r, f.Size-have))
	if err == nil && n < f.Size-have {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		if err = checkSum(r, sum); err != nil {
			err = errors.Join(err, file.Truncate(0)) // who knows which of its bytes are wrong
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return s.fs.Rename(whole+partSuffix, whole)
}

// hashFile adds the first size bytes of a file to a hash.
func hashFile(fsys vfs.FS, name string, size int64, sum hash.Hash) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}

// checkSum reads the checksum of a file and compares it.
func checkSum(r io.Reader, have hash.Hash) error {
	var sum [sha256.Size]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return err
	}
	if string(sum[:]) != string(have.Sum(nil)) {
		return streamError("checksum mismatch")
	}
	return nil
}
