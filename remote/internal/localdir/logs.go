package localdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// The logs of a directory as the shipper needs them: which one follows which, and stretches of
// whole records that were checked once more before they leave the machine.

// Logs reads the logs of a directory, while a store may write them. It is asked only for what was synced, and
// may find that a log is gone: the store removes those whose writes are in tables, unless they are held.
type Logs struct {
	FS      vfs.FS
	Dir     string
	StoreID uint64
}

// A Stretch is a part of a log that becomes a segment.
type Stretch struct {
	From, End      int64
	FirstSeq, Last uint64 // the sequence numbers that it gives out; FirstSeq is last + 1 if there are none
	Sealed         bool   // it ends with the seal record of the log
	Ingested       uint64 // the highest sequence number of an ingestion in it; 0: there is none
	records        int64
	Body           []byte // its bytes
}

// IsAnchor reports whether a log is the virtual first log of an epoch. No file has its number.
func IsAnchor(log uint64) bool { return log&(1<<object.EpochShift-1) == 0 }

// Path returns the path of the file of a log.
func (l *Logs) Path(log uint64) string {
	return filepath.Join(l.Dir, base.LogName(base.FileNum(log)))
}

// A successor is the log after another one.
type successor struct {
	LogNum uint64
	// end is where the log before it ends, or -1 if that is not known: the log before is broken or was
	// removed, and its writes that are not in the bucket are in tables.
	End int64
}

// Next returns the log that follows a log on the way to current, which is the number of a later log.
// It goes back from current, by the headers, which name the log before.
func (l *Logs) Next(log, current uint64) (successor, error) {
	good := current
	for at := current; ; {
		h, err := wal.ReadHeader(l.FS, l.Dir, base.FileNum(at), l.StoreID, 0)
		if errors.Is(err, fs.ErrNotExist) && at != current {
			return successor{good, -1}, nil // another program has opened the store and removed it
		}
		if err != nil {
			return successor{}, err
		}
		good = at
		switch prev := uint64(h.Prev); {
		case prev == log:
			return successor{at, h.PrevLen}, nil
		case prev > log:
			at = prev
		default:
			// The log at does not say what was before it: it has replaced a broken one. Or it
			// follows logs from before this chain.
			before, err := l.before(log, at)
			if err != nil || before == 0 {
				return successor{at, -1}, err
			}
			at = before
		}
	}
}

// before returns the number of the newest log between two others that was ever used, or 0.
func (l *Logs) before(low, high uint64) (uint64, error) {
	nums, err := LogNumbers(l.FS, l.Dir)
	if err != nil {
		return 0, err
	}
	for _, num := range slices.Backward(nums) {
		if uint64(num) <= low || uint64(num) >= high {
			continue
		}
		_, err := wal.ReadHeader(l.FS, l.Dir, num, l.StoreID, 0)
		if err == nil {
			return uint64(num), nil
		}
		// A file may be in reserve for a later log, or go at this moment.
		if !errors.Is(err, wal.ErrNeverUsed) && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return 0, nil
}

// LogNumbers returns the numbers of the logs in a directory, in ascending order.
func LogNumbers(fsys vfs.FS, dir string) (nums []base.FileNum, err error) {
	names, err := fsys.List(dir)
	for _, name := range names {
		if t, num, ok := base.ParseFileName(name); ok && t == base.FileLog {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, err
}

// errCut ends the reading of a log when a segment is full.
var errCut = errors.New("the segment is full")

// Cut returns the longest stretch of whole records that begins at from and ends at to or before, and
// that has no more bytes than most, or else one record. lastSeq is the last sequence number
// before it. It checks all records, so that no damage of the local disk gets into the bucket. The bytes
// of the stretch are those that were checked. They are a part of *buf, which gets longer if it has to.
func (l *Logs) Cut(log uint64, from, to, most int64, lastSeq uint64, buf *[]byte) (Stretch, error) {
	s := Stretch{From: from, End: from, FirstSeq: lastSeq + 1, Last: lastSeq}
	// next is ahead of s by the record that is looked at. If that does not fit any more, s is the
	// stretch.
	next := s
	body, res, err := wal.CopyRange(l.FS, l.Dir, base.FileNum(log), l.StoreID, from, to, buf, func(payload []byte, end int64) error {
		next.End = end
		next.records++
		if err := next.count(payload); err != nil {
			return base.Corruption(base.LogName(base.FileNum(log)), -1, "batch", err)
		}
		if end-from > most && s.records > 0 {
			return errCut
		}
		s = next
		return nil
	})
	if err != nil && !errors.Is(err, errCut) {
		return s, err
	}
	if err == nil { // the range may end with a seal, which is no record
		s.End, s.Sealed = max(to, object.LogHeader), res.Sealed
	}
	if int64(len(body)) < s.End-from {
		return s, fmt.Errorf("remote: read %s: the range from offset %d to %d has %d bytes", base.LogName(base.FileNum(log)), from, s.End, len(body))
	}
	s.Body = body[:s.End-from]
	return s, nil
}

// count takes in the numbers of a batch.
func (s *Stretch) count(payload []byte) error {
	first, n := binary.Uvarint(payload)
	count, m := binary.Uvarint(payload[max(n, 0):])
	if n <= 0 || m <= 0 || count == 0 {
		if n > 0 && m > 0 {
			return nil // a batch without operations gives out no number
		}
		return fmt.Errorf("a batch of %d bytes has no whole header", len(payload))
	}
	// The stretch has given out no number so far, so this batch has the first one.
	if s.Last+1 == s.FirstSeq {
		s.FirstSeq = first
	}
	s.Last = first + count - 1
	// Most batches have one write, and are not decoded for that.
	if count == 1 && len(payload) > n+m && base.Kind(payload[n+m]) > base.KindPut {
		_, b, err := shale.DecodeBatch(payload)
		if err != nil {
			return err
		}
		if _, _, mark := b.Ingested(); mark {
			s.Ingested = s.Last
		}
	}
	return nil
}

// Sum returns the crc32c of the bytes of a log from one offset to another. ok is false if the log
// does not have them.
// A stretch that was cut off, or a log that is gone, is no error: the caller then knows that the
// directory lacks the bytes.
func (l *Logs) Sum(log uint64, from, to int64) (sum uint32, ok bool, err error) {
	f, err := l.FS.Open(l.Path(log))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("remote: open log: %w", err)
	}
	defer f.Close() // only read: nothing to lose
	h := crc32.New(bucket.Castagnoli)
	n, err := io.Copy(h, io.NewSectionReader(f, from, to-from))
	return h.Sum32(), err == nil && n == to-from, err
}
