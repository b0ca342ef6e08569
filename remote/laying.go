package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A laying puts segments together into log files, and decides where the logs of a restored store end.
//
// Tables hold all writes up to a sequence number, logs the later ones. A restored store is right if
// its logs go on where its tables end, without a write missing. The places of segments follow each
// other, so none of them can be missing unnoticed. But numbers can be missing in the logs:
//
//  1. An ingestion puts tables into the store, and only a mark into the log. Its tables are in the
//     steps that were written after it. The mark may be missing, if a crash came before it.
//  2. A log that was lost before all of it was shipped ends early, without a seal record. What it had
//     is in tables, if anywhere.
//  3. A write that has failed, or a failed ingestion, has taken numbers that nothing has.
//
// So numbers that are missing are taken for explained if the tables can't lack anything of them. After
// a log that was sealed, or within one, only an ingestion can be missing, and the tables have every
// ingestion up to the LastSeq of their manifest. After one that was not sealed, writes may be missing. Then
// only the step explains them: whoever wrote it has made sure that its tables and logs together have all
// writes up to its LastTableSeq.
type laying struct {
	// Constant.
	fs      vfs.FS
	dir     string
	storeID uint64
	minLog  uint64 // logs before it are in tables
	tables  uint64 // the highest sequence number in tables
	known   uint64 // the tables have all ingestions up to here
	sure    uint64 // the tables and the logs of the step together have all writes up to here
	limit   limit

	logs  []manifest.LogInfo
	bytes int64
	file  vfs.File // of the last of logs; nil: complete
	whole bool     // the last of logs has its seal record

	seq    uint64          // the store has all writes up to here
	unsure bool            // writes may be missing in the logs behind seq: see 2
	at     object.Position // where the logs that are used end
	next   object.Position // where the first segment stands of which nothing is used, if the logs end in one
	time   time.Time       // when the last of them was written
	rest   int64           // bytes of the last segment that are behind at
	toSeq  uint64          // the last sequence number of that segment
	end    ending          // why the logs end there
}

// A limit says where the logs of a restored store have to end at the latest. Fields that are zero are
// no limits.
type limit struct {
	seq  uint64          // no batch has a later number
	time time.Time       // no segment was written later
	at   object.Position // no record ends behind it
	none bool            // there are no logs at all
}

// An ending says why logs end where they do.
type ending struct {
	kind endingKind
	from uint64                // the first sequence number that is missing
	to   uint64                // the last one
	err  *base.CorruptionError // the damage, if it is that
}

type endingKind int

const (
	endOfList       endingKind = iota // there are no more segments
	endAtLimit                        // the limit is reached
	endAtGap                          // sequence numbers are missing
	endBeforeIngest                   // the tables lack an ingestion
	endAtRewind                       // what follows was written to another past
	endAtDamage                       // the next segment is damaged or missing
)

// String returns the reason for people.
func (e ending) String() string {
	switch e.kind {
	case endAtLimit:
		return "the target is reached"
	case endAtGap:
		return fmt.Sprintf("the logs lack the sequence numbers %d to %d, and no tables up to here have them", e.from, e.to)
	case endBeforeIngest:
		return fmt.Sprintf("the tables of the ingestion with sequence number %d are not in the step", e.from)
	case endAtRewind:
		return fmt.Sprintf("the store went on from an earlier state there, with sequence number %d", e.from)
	}
	if e.kind == endAtDamage {
		return "an object of the bucket can't be used: " + e.err.Error()
	}
	return "there are no more segments"
}

// errEnd ends the reading of a log at the laying's end.
var errEnd = errors.New("the logs end here")

// add takes the next segment, and reports whether another one is wanted. What is behind the limit may
// have been collected, so it does not ask for that.
func (l *laying) add(s *Segment) (more bool, err error) {
	more, err = l.take(s)
	if more && err == nil && l.limit.at != (object.Position{}) && !l.at.Before(l.limit.at) {
		l.end = ending{kind: endAtLimit}
		return false, nil
	}
	return more, err
}

// take is add, but for the limit at the end of the segment.
func (l *laying) take(s *Segment) (more bool, err error) {
	if !l.limit.time.IsZero() && s.Written.After(l.limit.time) ||
		l.limit.at != (object.Position{}) && !(object.Position{Log: s.Log, Offset: s.Offset}).Before(l.limit.at) {
		l.end = ending{kind: endAtLimit}
		return false, nil
	}
	if s.Log < l.minLog || len(s.Body) == 0 {
		l.pass(s)
		return true, nil
	}
	end, err := l.write(s)
	switch {
	case err == errEnd:
		return false, l.cut(s)
	case err != nil:
		return false, err
	}
	l.at, l.time = object.Position{Log: s.Log, Offset: end}, later(l.time, s.Written)
	if s.Kind == SegmentSeal {
		l.at = object.AfterSegment(s)
		l.unsure = l.unsure || !l.whole
		err = l.finish()
	}
	return true, err
}

// pass takes a segment without a part in the restored store. A log that ends without a seal record
// may have had more writes than were shipped. The place where the list of an epoch begins is no log.
func (l *laying) pass(s *Segment) {
	l.at = object.AfterSegment(s)
	ended := s.Kind != SegmentData && s.Log >= l.minLog && s.Log&(1<<EpochShift-1) != 0
	whole := len(l.logs) > 0 && uint64(l.log().Num) == s.Log && l.whole
	l.unsure = l.unsure || ended && !whole
}

// write appends a segment to its log, and checks all of its records. It returns the offset where the
// last of them ends, and errEnd if some are beyond the end.
func (l *laying) write(s *Segment) (int64, error) {
	if s.Offset == 0 {
		if err := l.begin(s); err != nil {
			return 0, err
		}
	}
	if l.file == nil || uint64(l.log().Num) != s.Log || l.log().Length != s.Offset {
		return 0, base.Corruption(s.Name(), -1, "segment", errors.New("it does not follow the one before it"))
	}
	if _, err := l.file.Write(s.Body); err != nil {
		return 0, err
	}
	l.log().Length = max(s.Offset, object.LogHeader)
	if s.End() <= object.LogHeader {
		return s.End(), nil
	}
	log := l.log()
	res, err := wal.ReadRange(l.fs, l.dir, log.Num, l.storeID, s.Offset, s.End(), func(payload []byte, end int64) error {
		if err := l.batch(s, payload, end); err != nil {
			return err
		}
		log.Length = end
		return nil
	})
	if err == errEnd {
		return 0, err
	}
	if err != nil {
		var damage *base.CorruptionError
		if errors.As(err, &damage) {
			err = base.Corruption(s.Name(), -1, "log", err)
		}
		return 0, err
	}
	log.Length, log.LastSeq, l.whole = res.Length, res.LastSeq, res.Sealed
	return res.Length, nil
}

// log returns what is known of the log that is being written. Requires: there is one.
func (l *laying) log() *manifest.LogInfo { return &l.logs[len(l.logs)-1] }

// begin begins a log file with the segment that has its header. A file that is there is removed first,
// and never written to: it may be a second name of a file that others need.
func (l *laying) begin(s *Segment) error {
	if err := l.finish(); err != nil {
		return err
	}
	path := filepath.Join(l.dir, base.LogName(base.FileNum(s.Log)))
	if err := l.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, _, beforeSeq := logNumbers(s.Body)
	prev, prevSeq := base.FileNum(before), base.Seq(beforeSeq)
	if len(l.logs) > 0 && prev > 0 && s.Log>>EpochShift != uint64(l.log().Num)>>EpochShift && prevSeq < l.log().LastSeq {
		// Whoever has taken over did not have all that was in the bucket.
		l.end = ending{kind: endAtRewind, from: uint64(prevSeq) + 1}
		return errEnd
	}
	if prev > 0 && uint64(prev) < l.minLog {
		// All that was written before the first log that is needed is in tables.
		l.seq = max(l.seq, uint64(prevSeq))
	}
	f, err := l.fs.Create(path)
	if err != nil {
		return err
	}
	l.file, l.whole = f, false
	l.link(s.Body, prev)
	l.logs = append(l.logs, manifest.LogInfo{Num: base.FileNum(s.Log), Sealed: true, LastSeq: prevSeq})
	return nil
}

// link changes the header of a log that begins, if it names another log before it than the one that was
// laid: recovery would miss that one. The bucket lacks it if it had no writes, or if they are in tables;
// otherwise numbers are missing, which is noticed. The last sequence number before it stays: the records
// of the log depend on it.
func (l *laying) link(header []byte, prev base.FileNum) {
	le := binary.LittleEndian
	var before manifest.LogInfo
	if len(l.logs) > 0 {
		before = *l.log()
	}
	if Checksum(header[:64]) != le.Uint32(header[64:]) {
		return // it is damaged, which is found when the log is read
	}
	same := prev == before.Num && le.Uint64(header[48:]) == uint64(before.Length)
	if same || prev == 0 || uint64(prev) < l.minLog {
		return
	}
	le.PutUint64(header[40:], uint64(before.Num))
	le.PutUint64(header[48:], uint64(before.Length))
	le.PutUint32(header[64:], Checksum(header[:64]))
}

// batch takes the next record of a log, which ends at an offset. It returns errEnd if the logs have to
// end before it.
func (l *laying) batch(s *Segment, payload []byte, end int64) error {
	seq, b, err := shale.DecodeBatch(payload)
	if err != nil {
		if errors.Is(err, shale.ErrFormatTooNew) {
			return fmt.Errorf("remote: %s: %w", s.Name(), err)
		}
		return base.Corruption(s.Name(), -1, "batch", err)
	}
	if b.Len() == 0 {
		return nil
	}
	last := seq + uint64(b.Len()) - 1
	_, _, mark := b.Ingested()
	switch {
	case l.limit.seq > 0 && last > l.limit.seq,
		l.limit.at != (object.Position{}) && l.limit.at.Before(object.Position{Log: s.Log, Offset: end}):
		l.end = ending{kind: endAtLimit}
		l.explain(min(seq, l.limit.seq+1))
		return errEnd
	case seq <= l.tables: // the tables have it, whole
		l.seq = max(l.seq, last)
		return nil
	case seq <= l.seq:
		l.end = ending{kind: endAtRewind, from: seq}
		return errEnd
	case !l.explain(seq):
		return errEnd
	case mark && seq > l.known:
		l.end = ending{kind: endBeforeIngest, from: seq, to: seq}
		return errEnd
	}
	l.seq, l.unsure = last, false
	return nil
}

// explain reports whether nothing can be missing between what the store has and the sequence number
// next. If something can, the logs end there.
func (l *laying) explain(next uint64) bool {
	if next <= l.seq+1 || next-1 <= l.sure || next-1 <= l.known && !l.unsure {
		return true
	}
	l.end = ending{kind: endAtGap, from: l.seq + 1, to: next - 1}
	return false
}

// cut ends the last log behind the last record that is used, which may be within s.
func (l *laying) cut(s *Segment) error {
	l.next = object.AfterSegment(s)
	if l.file == nil {
		return nil
	}
	log := l.log()
	l.rest, l.toSeq = s.End()-log.Length, s.LastSeq
	l.at = object.Position{Log: uint64(log.Num), Offset: log.Length}
	if err := l.file.Truncate(log.Length); err != nil {
		return err
	}
	return l.finish()
}

// damaged ends the logs before what is damaged or missing. It returns any other error.
func (l *laying) damaged(err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	l.end = ending{kind: endAtDamage, err: damage}
	if l.file == nil {
		return nil
	}
	l.at = object.Position{Log: uint64(l.log().Num), Offset: l.log().Length}
	return l.file.Truncate(l.log().Length)
}

// finish makes the last log durable, but not its name. A log that has no record is given the length
// that its header states: recovery takes a shorter one for one that was never used.
func (l *laying) finish() error {
	if l.file == nil {
		return nil
	}
	f, log := l.file, l.log()
	l.file = nil
	l.bytes += log.Length
	var err error
	if log.Length <= object.LogHeader {
		err = lengthen(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// lengthen gives a log file at least the length that its header states (docs/FORMAT.md, section 3).
func lengthen(f vfs.File) error {
	var field [8]byte
	if _, err := f.ReadAt(field[:], 32); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint64(field[:])
	size, err := f.Size()
	if err != nil || length <= uint64(size) || length > maxReserve {
		return err
	}
	return f.Truncate(int64(length))
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// logNumbers returns from the header of a log the number of the log before it, the length in bytes that its file has at
// least, and the last sequence number before it (docs/FORMAT.md, section 3). The header is not checked: wal.ReadRange
// does that. Requires: the header is whole.
func logNumbers(header []byte) (prev uint64, length int64, prevSeq uint64) {
	le := binary.LittleEndian
	return le.Uint64(header[40:]), min(int64(le.Uint64(header[32:])&(1<<62-1)), maxReserve), le.Uint64(header[56:])
}

// maxReserve is the longest file, in bytes, that a log without a record gets. New logs reserve 64 KiB at most.
const maxReserve = 64 << 20
