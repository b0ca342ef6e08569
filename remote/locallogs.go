package remote

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

// localLogs reads the logs of a directory, while a store may write them.
type localLogs struct {
	fs      vfs.FS
	dir     string
	storeID uint64
}

// A stretch is a part of a log that becomes a segment.
type stretch struct {
	from, end      int64
	firstSeq, last uint64 // the sequence numbers that it gives out; firstSeq is last + 1 if there are none
	sealed         bool   // it ends with the seal record of the log
	ingested       uint64 // the highest sequence number of an ingestion in it; 0: there is none
	records        int64
	body           []byte // its bytes
}

// isAnchor reports whether a log is the virtual first log of an epoch. No file has its number.
func isAnchor(log uint64) bool { return log&(1<<EpochShift-1) == 0 }

func (l *localLogs) path(log uint64) string {
	return filepath.Join(l.dir, base.LogName(base.FileNum(log)))
}

// A successor is the log after another one.
type successor struct {
	log uint64
	// end is where the log before it ends, or -1 if that is not known: the log before is broken or was
	// removed, and its writes that are not in the bucket are in tables.
	end int64
}

// next returns the log that follows a log on the way to current, which is the number of a later log.
// It goes back from current, by the headers, which name the log before.
func (l *localLogs) next(log, current uint64) (successor, error) {
	good := current
	for at := current; ; {
		h, err := wal.ReadHeader(l.fs, l.dir, base.FileNum(at), l.storeID, 0)
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
func (l *localLogs) before(low, high uint64) (uint64, error) {
	nums, err := logsIn(l.fs, l.dir)
	if err != nil {
		return 0, err
	}
	for _, num := range slices.Backward(nums) {
		if uint64(num) <= low || uint64(num) >= high {
			continue
		}
		_, err := wal.ReadHeader(l.fs, l.dir, num, l.storeID, 0)
		if err == nil {
			return uint64(num), nil
		}
		if !errors.Is(err, wal.ErrNeverUsed) && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return 0, nil
}

// logsIn returns the numbers of the logs in a directory, in ascending order.
func logsIn(fsys vfs.FS, dir string) (nums []base.FileNum, err error) {
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

// cut returns the longest stretch of whole records that begins at from and ends at to or before, and
// that has no more bytes than most, or else one record. lastSeq is the last sequence number
// before it. It checks all records, so that no damage of the local disk gets into the bucket. The bytes
// of the stretch are those that were checked. They are a part of *buf, which gets longer if it has to.
func (l *localLogs) cut(log uint64, from, to, most int64, lastSeq uint64, buf *[]byte) (stretch, error) {
	s := stretch{from: from, end: from, firstSeq: lastSeq + 1, last: lastSeq}
	next := s
	body, res, err := wal.CopyRange(l.fs, l.dir, base.FileNum(log), l.storeID, from, to, buf, func(payload []byte, end int64) error {
		next.end = end
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
		s.end, s.sealed = max(to, object.LogHeader), res.Sealed
	}
	if int64(len(body)) < s.end-from {
		return s, fmt.Errorf("remote: read %s: the range from offset %d to %d has %d bytes", base.LogName(base.FileNum(log)), from, s.end, len(body))
	}
	s.body = body[:s.end-from]
	return s, nil
}

// count takes in the numbers of a batch.
func (s *stretch) count(payload []byte) error {
	first, n := binary.Uvarint(payload)
	count, m := binary.Uvarint(payload[max(n, 0):])
	if n <= 0 || m <= 0 || count == 0 {
		if n > 0 && m > 0 {
			return nil // a batch without operations gives out no number
		}
		return fmt.Errorf("a batch of %d bytes has no whole header", len(payload))
	}
	if s.last+1 == s.firstSeq {
		s.firstSeq = first
	}
	s.last = first + count - 1
	// Most batches have one write, and are not decoded for that.
	if count == 1 && len(payload) > n+m && base.Kind(payload[n+m]) > base.KindPut {
		_, b, err := shale.DecodeBatch(payload)
		if err != nil {
			return err
		}
		if _, _, mark := b.Ingested(); mark {
			s.ingested = s.last
		}
	}
	return nil
}

// sum returns the crc32c of the bytes of a log from one offset to another. ok is false if the log
// does not have them.
func (l *localLogs) sum(log uint64, from, to int64) (sum uint32, ok bool, err error) {
	f, err := l.fs.Open(l.path(log))
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
