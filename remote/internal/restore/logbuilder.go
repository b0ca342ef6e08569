package restore

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
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// How segments become the logs of a store, and where these must end. Restore, Verify and their
// tests share this code; a Reader applies the same rules to the logs that it follows
// (remote/follow.go).

// A LogBuilder puts segments together into log files, and decides where the logs of a restored store end.
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
type LogBuilder struct {
	// Constant.
	FS      vfs.FS
	Dir     string
	StoreID uint64
	MinLog  uint64 // logs before it are in tables
	Tables  uint64 // the highest sequence number in tables
	Known   uint64 // the tables have all ingestions up to here
	Sure    uint64 // the tables and the logs of the step together have all writes up to here
	Limit   Limit

	Logs  []manifest.LogInfo
	Bytes int64
	file  vfs.File // of the last of logs; nil: complete
	whole bool     // the last of logs has its seal record

	Seq    uint64          // the store has all writes up to here
	unsure bool            // writes may be missing in the logs behind seq: see 2
	At     object.Position // where the logs that are used end
	Next   object.Position // where the first segment stands of which nothing is used, if the logs end in one
	Time   time.Time       // when the last of them was written
	Rest   int64           // bytes of the last segment that are behind at
	ToSeq  uint64          // the last sequence number of that segment
	End    ending          // why the logs end there
}

// A Limit says where the logs of a restored store have to end at the latest. Fields that are zero are
// no limits.
// A limit by number is exact to a batch, one by time to a segment, and one by place to a record.
type Limit struct {
	Seq  uint64          // no batch has a later number
	Time time.Time       // no segment was written later
	At   object.Position // no record ends behind it
	None bool            // there are no logs at all
}

// An ending says why logs end where they do.
type ending struct {
	Kind endingKind
	from uint64                // the first sequence number that is missing
	to   uint64                // the last one
	Err  *base.CorruptionError // the damage, if it is that
}

// An endingKind says why the logs of a restored store end where they do.
type endingKind int

// The reasons.
const (
	AtEndOfList  endingKind = iota // there are no more segments
	AtLimit                        // the limit is reached
	AtGap                          // sequence numbers are missing
	BeforeIngest                   // the tables lack an ingestion
	endAtRewind                    // what follows was written to another past
	AtDamage                       // the next segment is damaged or missing
)

// String returns the reason for people.
func (e ending) String() string {
	switch e.Kind {
	case AtLimit:
		return "the target is reached"
	case AtGap:
		return fmt.Sprintf("the logs lack the sequence numbers %d to %d, and no tables up to here have them", e.from, e.to)
	case BeforeIngest:
		return fmt.Sprintf("the tables of the ingestion with sequence number %d are not in the step", e.from)
	case endAtRewind:
		return fmt.Sprintf("the store went on from an earlier state there, with sequence number %d", e.from)
	}
	if e.Kind == AtDamage {
		return "an object of the bucket can't be used: " + e.Err.Error()
	}
	return "there are no more segments"
}

// errEnd ends the reading of a log where the logs of the restored store end.
var errEnd = errors.New("the logs end here")

// Add takes the next segment, and reports whether another one is wanted. What is behind the limit may
// have been collected, so it does not ask for that.
func (l *LogBuilder) Add(s *object.Segment) (more bool, err error) {
	more, err = l.take(s)
	if more && err == nil && l.Limit.At != (object.Position{}) && !l.At.Before(l.Limit.At) {
		l.End = ending{Kind: AtLimit}
		return false, nil
	}
	return more, err
}

// take is add, but for the limit at the end of the segment.
func (l *LogBuilder) take(s *object.Segment) (more bool, err error) {
	// The header alone decides about these limits, before a byte of the body is written.
	if !l.Limit.Time.IsZero() && s.Written.After(l.Limit.Time) ||
		l.Limit.At != (object.Position{}) && !(object.Position{Log: s.Log, Offset: s.Offset}).Before(l.Limit.At) {
		l.End = ending{Kind: AtLimit}
		return false, nil
	}
	if s.Log < l.MinLog || len(s.Body) == 0 {
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
	l.At, l.Time = object.Position{Log: s.Log, Offset: end}, LaterOf(l.Time, s.Written)
	// The log ends here. Without its seal record it may have had more writes than were shipped.
	if s.Kind == object.SegmentSeal {
		l.At = object.AfterSegment(s)
		l.unsure = l.unsure || !l.whole
		err = l.Finish()
	}
	return true, err
}

// pass takes a segment without a part in the restored store. A log that ends without a seal record
// may have had more writes than were shipped. The place where the list of an epoch begins is no log.
func (l *LogBuilder) pass(s *object.Segment) {
	l.At = object.AfterSegment(s)
	ended := s.Kind != object.SegmentData && s.Log >= l.MinLog && s.Log&(1<<object.EpochShift-1) != 0
	whole := len(l.Logs) > 0 && uint64(l.log().Num) == s.Log && l.whole
	l.unsure = l.unsure || ended && !whole
}

// write appends a segment to its log, and checks all of its records. It returns the offset where the
// last of them ends, and errEnd if some are beyond the end.
func (l *LogBuilder) write(s *object.Segment) (int64, error) {
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
	// The log counts as long as its checked records. If reading ends early, cut takes the rest
	// away.
	l.log().Length = max(s.Offset, object.LogHeader)
	if s.End() <= object.LogHeader {
		return s.End(), nil
	}
	log := l.log()
	res, err := wal.ReadRange(l.FS, l.Dir, log.Num, l.StoreID, s.Offset, s.End(), func(payload []byte, end int64) error {
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

// log describes the log that is being written. Requires: there is one.
func (l *LogBuilder) log() *manifest.LogInfo { return &l.Logs[len(l.Logs)-1] }

// begin begins a log file with the segment that has its header. A file that is there is removed first,
// and never written to: it may be a second name of a file that others need.
func (l *LogBuilder) begin(s *object.Segment) error {
	if err := l.Finish(); err != nil {
		return err
	}
	path := filepath.Join(l.Dir, base.LogName(base.FileNum(s.Log)))
	if err := l.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, _, beforeSeq := LogNumbers(s.Body)
	prev, prevSeq := base.FileNum(before), base.Seq(beforeSeq)
	if len(l.Logs) > 0 && prev > 0 && s.Log>>object.EpochShift != uint64(l.log().Num)>>object.EpochShift && prevSeq < l.log().LastSeq {
		// The writer that took the store over did not have all that was in the bucket.
		l.End = ending{Kind: endAtRewind, from: uint64(prevSeq) + 1}
		return errEnd
	}
	if prev > 0 && uint64(prev) < l.MinLog {
		// All that was written before the first log that is needed is in tables.
		l.Seq = max(l.Seq, uint64(prevSeq))
	}
	f, err := l.FS.Create(path)
	if err != nil {
		return err
	}
	l.file, l.whole = f, false
	l.link(s.Body, prev)
	l.Logs = append(l.Logs, manifest.LogInfo{Num: base.FileNum(s.Log), Sealed: true, LastSeq: prevSeq})
	return nil
}

// link changes the header of a log that begins, if it names another log before it than the one that was
// laid: recovery would miss that one. The bucket lacks it if it had no writes, or if they are in tables;
// otherwise numbers are missing, which is noticed. The last sequence number before it stays: the records
// of the log depend on it.
func (l *LogBuilder) link(header []byte, prev base.FileNum) {
	le := binary.LittleEndian
	var before manifest.LogInfo
	if len(l.Logs) > 0 {
		before = *l.log()
	}
	if bucket.Checksum(header[:64]) != le.Uint32(header[64:]) {
		return // it is damaged, which is found when the log is read
	}
	same := prev == before.Num && LengthBefore(header) == before.Length
	if same || prev == 0 || uint64(prev) < l.MinLog {
		return
	}
	Relink(header, before)
}

// Relink makes the header of a log name another log before it, or none if that has no number. Requires: the header checks.
func Relink(header []byte, before manifest.LogInfo) {
	le := binary.LittleEndian
	le.PutUint64(header[40:], uint64(before.Num))
	le.PutUint64(header[48:], uint64(before.Length))
	le.PutUint32(header[64:], bucket.Checksum(header[:64]))
}

// batch takes the next record of a log, which ends at an offset. It returns errEnd if the logs have to
// end before it.
func (l *LogBuilder) batch(s *object.Segment, payload []byte, end int64) error {
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
	// The order of the cases matters. A batch behind the limit is not looked at. Then comes what
	// tables have, then a number that comes again, then a gap. A mark is looked at last, because it
	// may be in order and still stand for tables that are missing.
	_, _, mark := b.Ingested()
	switch {
	case l.Limit.Seq > 0 && last > l.Limit.Seq,
		l.Limit.At != (object.Position{}) && l.Limit.At.Before(object.Position{Log: s.Log, Offset: end}):
		l.End = ending{Kind: AtLimit}
		l.explain(min(seq, l.Limit.Seq+1))
		return errEnd
	case seq <= l.Tables: // the tables have it, whole
		l.Seq = max(l.Seq, last)
		return nil
	case seq <= l.Seq:
		l.End = ending{Kind: endAtRewind, from: seq}
		return errEnd
	case !l.explain(seq):
		return errEnd
	case mark && seq > l.Known:
		l.End = ending{Kind: BeforeIngest, from: seq, to: seq}
		return errEnd
	}
	l.Seq, l.unsure = last, false
	return nil
}

// explain reports whether nothing can be missing between what the store has and the sequence number
// next. If something can, the logs end there.
// Nothing is missing if next follows at once; if the step says that tables and logs have all up to
// there; or if only ingestions can be missing, and the tables have those up to there.
func (l *LogBuilder) explain(next uint64) bool {
	if next <= l.Seq+1 || next-1 <= l.Sure || next-1 <= l.Known && !l.unsure {
		return true
	}
	l.End = ending{Kind: AtGap, from: l.Seq + 1, to: next - 1}
	return false
}

// cut ends the last log behind the last record that is used, which may be within s.
// A batch is whole or not there: log.Length is always the end of a record.
func (l *LogBuilder) cut(s *object.Segment) error {
	l.Next = object.AfterSegment(s)
	if l.file == nil {
		return nil
	}
	log := l.log()
	l.Rest, l.ToSeq = s.End()-log.Length, s.LastSeq
	l.At = object.Position{Log: uint64(log.Num), Offset: log.Length}
	if err := l.file.Truncate(log.Length); err != nil {
		return err
	}
	return l.Finish()
}

// Damaged ends the logs before a segment that is damaged or missing. It returns any other error.
// Records of the same segment that were read before the damage stay in the log.
func (l *LogBuilder) Damaged(err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	l.End = ending{Kind: AtDamage, Err: damage}
	if l.file == nil {
		return nil
	}
	l.At = object.Position{Log: uint64(l.log().Num), Offset: l.log().Length}
	return l.file.Truncate(l.log().Length)
}

// Finish makes the last log durable, but not its name. A log that has no record is given the length
// that its header states: recovery takes a shorter one for one that was never used.
func (l *LogBuilder) Finish() error {
	if l.file == nil {
		return nil
	}
	f, log := l.file, l.log()
	l.file = nil
	l.Bytes += log.Length
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

// LaterOf returns the later of two times.
func LaterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// LogNumbers returns from the header of a log the number of the log before it, the length in bytes that its file has at
// least, and the last sequence number before it (docs/FORMAT.md, section 3). The header is not checked: wal.ReadRange
// does that. Requires: the header is whole.
func LogNumbers(header []byte) (prev uint64, length int64, prevSeq uint64) {
	le := binary.LittleEndian
	return le.Uint64(header[40:]), min(int64(le.Uint64(header[32:])&(1<<62-1)), maxReserve), le.Uint64(header[56:])
}

// LengthBefore returns from the header of a log where the log before it ends. LogNumbers has the rest.
func LengthBefore(header []byte) int64 { return int64(binary.LittleEndian.Uint64(header[48:])) }

// maxReserve is the longest file, in bytes, that a log without a record gets. New logs reserve 64 KiB at most.
const maxReserve = 64 << 20
