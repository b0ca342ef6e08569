package localdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// The record is the memory of a directory across processes. The bucket alone can't say whether the
// newest step is of this directory: a copy of it would see the same bucket.

// RecordName is the file in which a directory notes what it knows of its bucket. No file of a store is
// called like this, so the store leaves it alone.
const RecordName = "REMOTE"

const (
	notesMagic = "shaleNOT"
	// notesSize is the length of the file in bytes. Part of the format.
	notesSize = object.HeadSize + 8*8 + 4 + object.SumSize
	// maxTried is how many writers Record.Tried has at most: the newest. Part of the format.
	// A record then has 8,096 bytes, which one read brings.
	maxTried = 1000
)

// A Record is what a directory knows of its bucket. With it Open finds out whether the directory is
// the one that has written the newest step. It is written
//
//   - before the PUT of a step, which may then happen or not;
//   - before a log is let go whose segments are all in the bucket;
//   - when the writer is fenced;
//   - at the end of a restore into the directory.
type Record struct {
	StoreID uint64
	// Step is the newest step that this directory may have PUT, or that was restored into it, and Writer
	// is that step's writer.
	Step, Writer uint64
	// Before is the step before that, which is in the bucket, and BeforeWriter is its writer. 0: there
	// is none.
	Before, BeforeWriter uint64
	// Tried are the earlier writers of this directory, oldest first, that may have PUT a step behind Before too, and have
	// ended before they knew. Such a PUT may still arrive.
	Tried []uint64
	// Shipped is where the next segment stands, or, if there are newer ones, some segment after the last
	// log that was let go. LastSeq is the last sequence number that is known to be in the bucket: the
	// one before Shipped, or a later one if the writer was fenced. It is an earlier one if the segments have
	// writes that the directory lacks because nobody can restore them.
	Shipped object.Position
	LastSeq uint64
	// Epoch is the epoch of Step.
	Epoch uint64
	// Restored says that another directory has written Step: this one takes the store over.
	Restored bool
	// Fenced says that another writer owns the store. LastSeq is exact then.
	Fenced bool
}

// encode returns the file:
//
//	head 24 · step · its writer · step before · its writer · log · offset · last sequence number · epoch (u64 each)
//	· restored u8 · fenced u8 · zero 2 · [tried u64]* · crc32c u32
func (n *Record) encode() []byte {
	dst := object.AppendHead(nil, notesMagic, n.StoreID,
		n.Step, n.Writer, n.Before, n.BeforeWriter, n.Shipped.Log, uint64(n.Shipped.Offset), n.LastSeq, n.Epoch)
	flag := map[bool]byte{true: 1}
	dst = append(dst, flag[n.Restored], flag[n.Fenced], 0, 0)
	for _, w := range n.Tried {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return object.AppendSum(dst, 0)
}

// WithTried returns Tried with the writer of Step, which may have PUT a step behind Before too.
func (n *Record) WithTried() []uint64 {
	tried := slices.Clone(n.Tried)
	if n.Step == n.Before+1 {
		tried = append(tried, n.Writer)
	}
	return tried[max(0, len(tried)-maxTried):]
}

// Wrote reports whether the directory may have PUT a step.
func (n *Record) Wrote(s *object.Step) bool {
	return s.N == n.Step && s.Writer == n.Writer || s.N == n.Before && s.Writer == n.BeforeWriter ||
		s.N == n.Before+1 && slices.Contains(n.Tried, s.Writer)
}

// decodeNotes decodes the file. An error wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func decodeNotes(src []byte) (*Record, error) {
	id, content, err := object.Unseal(src, notesMagic, notesSize)
	if err != nil {
		return nil, object.Damage(RecordName, "notes", err)
	}
	d := fields.Decoder{Src: content}
	n := &Record{StoreID: id, Step: d.Uint64(), Writer: d.Uint64(), Before: d.Uint64(), BeforeWriter: d.Uint64()}
	n.Shipped.Log, n.Shipped.Offset = d.Uint64(), d.Signed(d.Uint64())
	n.LastSeq, n.Epoch = d.Uint64(), d.Uint64()
	flags := d.Next(4)
	switch {
	case d.Err != nil:
		err = d.Err
	case len(d.Src)%8 > 0 || len(d.Src) > 8*maxTried:
		err = fields.ErrTrailing
	case flags[0] > 1 || flags[1] > 1 || flags[2]|flags[3] != 0:
		err = fmt.Errorf("flags %x", flags)
	default:
		n.Restored, n.Fenced = flags[0] == 1, flags[1] == 1
		for len(d.Src) > 0 {
			n.Tried = append(n.Tried, d.Uint64())
		}
		err = errors.Join(object.CheckSeq(n.LastSeq), n.check())
	}
	if err != nil {
		return nil, object.Damage(RecordName, "notes", err)
	}
	return n, nil
}

// check returns an error if n can't be true.
func (n *Record) check() error {
	if n.Step > object.MaxNum || n.Before >= n.Step && n.Step > 0 || n.Shipped.Log > object.MaxNum || n.Shipped.Offset > object.MaxLog || n.Epoch > object.MaxEpoch {
		return fmt.Errorf("step %d after %d, epoch %d, log %d at offset %d", n.Step, n.Before, n.Epoch, n.Shipped.Log, n.Shipped.Offset)
	}
	return nil
}

// ReadRecord reads the notes of a directory. If it has none, it returns nil and no error.
func ReadRecord(fsys vfs.FS, dir string) (*Record, error) {
	path := filepath.Join(dir, RecordName)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("remote: open %s: %w", path, err)
	}
	defer f.Close() // only read: nothing to lose
	// A file that fills all of it is longer than any record, and decodeNotes refuses it.
	buf := make([]byte, notesSize+8*maxTried+1)
	n, err := f.ReadAt(buf, 0)
	if n < notesSize && err != nil && err != io.EOF {
		return nil, fmt.Errorf("remote: read %s: %w", path, err)
	}
	return decodeNotes(buf[:n])
}

// WriteRecord replaces the record of a directory, whole or not at all, and durably.
func WriteRecord(fsys vfs.FS, dir string, n *Record) error {
	path := filepath.Join(dir, RecordName)
	// A crash leaves the old record or the new one: the bytes are durable before the name is moved,
	// and the move before the call returns.
	err := durable.Write(fsys, path+".new", n.encode())
	if err == nil {
		err = fsys.Rename(path+".new", path)
	}
	if err != nil {
		_ = fsys.Remove(path + ".new") // it may be renamed; what stays is replaced next time
	} else {
		err = fsys.SyncDir(dir)
	}
	switch {
	case base.IsNoSpace(err):
		err = fmt.Errorf("%w (make room on the local disk; the store goes on by itself)", err)
	case err == nil:
		return nil
	}
	return fmt.Errorf("remote: note in %s what is in the bucket: %w", dir, err)
}
