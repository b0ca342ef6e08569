package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
	"golang.org/x/sync/errgroup"
)

// What a deep Verify reads: every byte of the list of segments, and of the tables and sidecars that are needed. It builds the
// same logs as a restore, in memory and one at a time, and opens the same tables.

// readLogs reads all segments from a place on, and checks their records. After a segment that can't be read it goes on
// with the next log.
func (v *verification) readLogs(ctx context.Context, at object.Position) error {
	for at != (object.Position{}) {
		damaged, err := v.readList(ctx, at)
		if err != nil || damaged == (object.Position{}) {
			return err
		}
		at = v.logBehind(damaged.Log)
	}
	return nil
}

// logBehind returns the beginning of the first log behind another one: the zero place if there is none.
func (v *verification) logBehind(log uint64) (first object.Position) {
	for at := range v.segments {
		if at.Offset == 0 && at.Log > log && (first == object.Position{} || at.Before(first)) {
			first = at
		}
	}
	return first
}

// readList is readLogs up to a segment that can't be read, whose place it returns. A segment whose records can't be read is
// a finding, and so are those of the same log behind it, which follow nothing that can be read.
func (v *verification) readList(ctx context.Context, at object.Position) (damaged object.Position, err error) {
	mem := vfs.NewMem()
	var l *restore.LogBuilder
	for s, err := range (chain.SegmentList{Bucket: v.b, StoreID: v.report.StoreID}).From(ctx, at) {
		if err != nil {
			return at, v.findOr(at.String(), err)
		}
		v.passSegment(s.At(), s.Length)
		v.checkEnd(s.Segment)
		at = s.After()
		if l == nil || s.Offset == 0 {
			// A log at a time is in memory.
			mem = vfs.NewMem()
			// With the highest number in Tables every write counts as one that tables have. So the
			// builder checks the records and never ends the logs at a gap.
			l = &restore.LogBuilder{FS: mem, StoreID: v.report.StoreID, MinLog: s.Log, Tables: math.MaxUint64}
		}
		if len(s.Body) == 0 {
			continue
		}
		_, err = l.Add(s.Segment)
		if err := v.findOr(s.Name(), err); err != nil {
			return object.Position{}, err
		}
		if err != nil {
			// The rest of this log has nothing to stand on. Each of its segments becomes a finding,
			// until the next log begins.
			l = nil
			continue
		}
		if s.FirstSeq <= s.LastSeq && l.Seq != s.LastSeq {
			v.find(s.Name(), fmt.Errorf("its records go up to sequence number %d, its header says %d", l.Seq, s.LastSeq))
		}
	}
	v.checkRest(at)
	return object.Position{}, nil
}

// readTables reads all tables and sidecars, if it is deep. One that is missing, or has another size than its step says, is
// a finding already and is not read.
func (v *verification) readTables(ctx context.Context) error {
	if !v.deep {
		return nil
	}
	names := slices.Sorted(maps.Keys(v.needed))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(verifyTables)
	for _, name := range names {
		t := v.needed[name]
		if size, there := v.files[name]; !there || name == object.TableName(uint64(t.Num)) && size != t.Size {
			continue // it is a finding already
		}
		reads.Go(func() error { return v.findOr(name, v.readTable(ctx, name, t)) })
	}
	return reads.Wait()
}

// readTable reads all of a table or of its sidecar. It reads each block once to check it against the checksum of the block,
// and the whole once to check it against the checksum in the manifest.
func (v *verification) readTable(ctx context.Context, name string, t *manifest.Table) error {
	src := &pieces{ctx: ctx, b: v.b, name: name}
	if side := t.Sidecar; side != nil && name == object.FilterName(uint64(side.Num)) {
		f := tablefs.SidecarOf(t)
		return f.Damaged(f.Check(src, v.report.StoreID))
	}
	r, err := sstable.Open(src, sstable.ReaderOptions{Num: t.Num, StoreID: v.report.StoreID, Size: t.Size, Checksum: t.Checksum, Seq: t.MaxSeq, NoFilter: true})
	if err == nil {
		err = r.Verify(ctx)
	}
	return tablefs.FileOf(t).Damaged(err)
}

// keptPieces is how many pieces of an object stay in memory, each of restore.PieceSize bytes: those of a table
// of the usual size.
// That is 68 MiB of memory for each of verifyTables tables.
const keptPieces = 17

// pieces reads an object in large pieces, and keeps some of them, as a check reads a table from the
// beginning to the end twice. One goroutine uses it.
// The check reads blocks of a few KiB one after the other, and each would be a request otherwise.
type pieces struct {
	ctx  context.Context
	b    Bucket
	name string
	kept []piece // the newest one last
}

// A piece is a part of an object. It is shorter than restore.PieceSize if the object ends in it.
type piece struct {
	off  int64
	data []byte
}

// ReadAt implements io.ReaderAt.
func (p *pieces) ReadAt(dst []byte, off int64) (n int, err error) {
	for n < len(dst) {
		piece, err := p.at(off + int64(n))
		if err != nil {
			return n, err
		}
		from := off + int64(n) - piece.off
		if from >= int64(len(piece.data)) {
			return n, io.EOF
		}
		n += copy(dst[n:], piece.data[from:])
	}
	return n, nil
}

// at returns the piece with an offset.
func (p *pieces) at(off int64) (piece, error) {
	off -= off % restore.PieceSize
	if i := slices.IndexFunc(p.kept, func(k piece) bool { return k.off == off }); i >= 0 {
		return p.kept[i], nil
	}
	data := make([]byte, restore.PieceSize)
	n, err := p.b.ReadAt(p.ctx, p.name, data, off)
	if err != nil && err != io.EOF {
		return piece{}, bucket.NoEnd(err)
	}
	if len(p.kept) == keptPieces {
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	got := piece{off, data[:n]}
	p.kept = append(p.kept, got)
	return got, nil
}
