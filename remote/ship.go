package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
)

// How the log comes into the bucket, one segment after the other. The order is that of the store's
// commits, and each segment says where the next one stands, so what the bucket has is always a
// prefix of them.

// A shipper copies the logs of a store into the bucket, as segments. It goes one segment at a time, in
// the order of the logs, and so the bucket always has a prefix of the store's writes:
//
//  1. It takes the position of the log, and syncs the log if it has grown beyond what is durable.
//     Only durable bytes are shipped, so the bucket is never ahead of the disk.
//  2. It cuts a stretch of whole records, checks them, and makes a segment of them (cut, encode).
//  3. It PUTs the segment if the name is free. A name that is taken by other bytes is a fence, or the
//     segment of another writer: this writer is fenced.
//  4. The last segment of a log is a seal, which names the log that follows. Then the local log may
//     go, as soon as its writes are in tables.
//
// A segment that could not be PUT is kept and tried again as it is. Its answer may have been lost, and
// then the same bytes are in the bucket already.
type shipper struct {
	// missing is the highest number of a write that is in no segment, and has to come with tables: it was
	// ingested, or it was in a log that was not shipped to the end. Written by the holder of mu.
	missing atomic.Uint64

	mu lock // held while segments are made and PUT; protects the following fields

	at      object.Position // where the next segment stands
	lastSeq uint64          // the last sequence number before it
	passed  uint64          // how many segments before it this process has put or read
	// extents are the logs of the chain that have segments, in order. Those that no step needs any more
	// are dropped; the last one stays.
	extents []object.Extent

	pending *object.Segment // not nil: this segment was made, and is not known to be in the bucket
	marks   uint64          // the highest number of an ingestion in it
	held    uint64          // the logs from this number up are kept
	buf     []byte          // memory for bodies
}

// Ship puts all that was written before the call into the bucket, as segments of the log. After it the
// writes survive the machine. It does that every [Options.Ship] by itself.
func (s *Store) Ship(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	if err := s.shipAll(ctx, s.bucket); err != nil || !s.lacksTables() {
		return err
	}
	return s.publishAll(ctx, s.bucket)
}

// shipAll ships up to the present end of the log.
func (s *Store) shipAll(ctx context.Context, b Bucket) error {
	if err := s.ship.mu.take(ctx); err != nil {
		return err
	}
	defer s.ship.mu.release()
	_, err := s.shipAllLocked(ctx, b)
	return err
}

// shipAllLocked is shipAll that returns the position up to which it has shipped. Requires: ship.mu.
func (s *Store) shipAllLocked(ctx context.Context, b Bucket) (shale.LogPosition, error) {
	s.look()
	s.ledger.cut()
	pos, err := s.durable()
	if err == nil {
		err = s.shipTo(ctx, b, pos)
	}
	return pos, err
}

// durable returns the position of the log after a sync, if there is something to sync.
// A store that is closed has synced its log, so that error is none here: Close ships the rest.
func (s *Store) durable() (shale.LogPosition, error) {
	pos := shale.ShippingOf(s.db).Position()
	if pos.Written == pos.Synced {
		return pos, nil
	}
	if err := s.db.Sync(); err != nil && !errors.Is(err, shale.ErrClosed) {
		return pos, fmt.Errorf("remote: ship: %w", local(err))
	}
	// The log may be another one by now. Then all of the earlier one is durable.
	return shale.ShippingOf(s.db).Position(), nil
}

// shipTo ships all up to pos.Synced of log pos.Log. Requires: ship.mu.
func (s *Store) shipTo(ctx context.Context, b Bucket, pos shale.LogPosition) error {
	h := &s.ship
	for {
		if err := s.Err(); err != nil {
			return err
		}
		// These are looked at before each segment, because a PUT may take long. Meanwhile another
		// writer may have taken the store over, or somebody may have moved the directory away.
		if err := s.moved(); err != nil {
			return fmt.Errorf("remote: ship: %w", err)
		}
		if h.pending == nil {
			next, err := s.nextSegment(pos)
			if err != nil {
				return fmt.Errorf("remote: ship: %w", local(err))
			}
			if next == nil {
				s.ledger.done(h.at)
				return nil
			}
			h.pending = next
		}
		if err := s.putSegment(ctx, b); err != nil {
			return err
		}
	}
}

// nextSegment makes the segment that stands at the next place, or returns nil if there is nothing to
// ship up to pos. Requires: ship.mu.
func (s *Store) nextSegment(pos shale.LogPosition) (*object.Segment, error) {
	h := &s.ship
	// The place is in the log that is written now. What is durable of it is data, because its seal
	// comes when the next log begins.
	if h.at.Log == pos.Log {
		if pos.Synced <= max(h.at.Offset, object.LogHeader) {
			return nil, nil // it has not grown, or has no record yet
		}
		st, err := s.cut(pos.Synced)
		if err != nil {
			return nil, err
		}
		return s.segment(object.SegmentData, st, 0), nil
	}
	// The log is complete, or it is an anchor.
	if h.at.Log > pos.Log {
		return nil, nil // pos is older than what was shipped
	}
	from := h.at.Log
	if localdir.IsAnchor(from) {
		from = object.AnchorOf(s.epoch).Log // Open has seen to it that what is before is in tables
	}
	// The log at this place was let go (letgo.go), and so were those up to held. An empty seal ends
	// it where shipping had got to, and leads to the first log that is still there.
	letGo := h.held > h.at.Log
	if letGo {
		from = h.held - 1
	}
	after, err := s.logs.Next(from, pos.Log)
	if err != nil {
		return nil, err
	}
	if letGo {
		after.End = -1
	}
	st := localdir.Stretch{From: h.at.Offset, End: h.at.Offset, FirstSeq: h.lastSeq + 1, Last: h.lastSeq}
	whole := false
	// What is left of a complete log may be longer than one segment. It goes as data, until a
	// stretch ends with the seal record of the log: that one is the seal.
	if !localdir.IsAnchor(h.at.Log) && after.End > h.at.Offset {
		st, err = s.cut(after.End)
		if errors.Is(err, fs.ErrNotExist) {
			// Another program has opened the store and removed the log, because its writes are in tables.
			st, err = localdir.Stretch{From: h.at.Offset, End: h.at.Offset, FirstSeq: h.lastSeq + 1, Last: h.lastSeq}, nil
		}
		if err != nil {
			return nil, err
		}
		whole = st.End == after.End && st.Sealed
	}
	if st.End > st.From && !whole {
		return s.segment(object.SegmentData, st, 0), nil
	}
	return s.segment(object.SegmentSeal, st, after.LogNum), nil
}

// cut returns the stretch of the log at the next place that ends at to or before. Requires: ship.mu, and
// there is no pending segment, whose memory it takes.
func (s *Store) cut(to int64) (localdir.Stretch, error) {
	h := &s.ship
	if cap(h.buf) > 2*segmentSize {
		h.buf = nil // a large record does not keep its memory
	}
	return s.logs.Cut(h.at.Log, h.at.Offset, to, s.opts.testing.segment, h.lastSeq, &h.buf)
}

// segment makes the segment of a stretch at the next place. Numbers that are missing before it belong to an ingestion or to a
// failed write: a step has to say that its tables have them. Requires: ship.mu, and there is no pending segment.
func (s *Store) segment(kind object.SegmentKind, st localdir.Stretch, next uint64) *object.Segment {
	h := &s.ship
	h.marks = st.Ingested
	if st.FirstSeq > h.lastSeq+1 {
		h.marks = max(h.marks, st.FirstSeq-1)
	}
	return &object.Segment{
		StoreID: s.id, Log: h.at.Log, Offset: st.From, FirstSeq: st.FirstSeq, LastSeq: st.Last,
		Written: time.Now(), Kind: kind, Next: next, Body: st.Body,
	}
}

// putSegment puts the pending segment into the bucket, and moves on to the next place. If an earlier
// process of this directory has PUT a part of it, it moves on behind that. Requires: ship.mu.
func (s *Store) putSegment(ctx context.Context, b Bucket) error {
	// After an error the segment stays pending, and the next attempt PUTs the same bytes. So there
	// is at most one PUT on its way, and what may stand at its place is known.
	seg, err := chain.PutSegment(ctx, b, s.ship.pending)
	if errors.Is(err, ErrFenced) {
		return s.fenced(err)
	}
	if err != nil {
		return fmt.Errorf("remote: ship: %w", err)
	}
	s.sent(int64(len(seg.Body)) + object.SegmentHeader)
	return s.shipped(seg)
}

// shipped moves on to the place behind the pending segment, which is in the bucket. Requires: ship.mu.
func (s *Store) shipped(seg *object.Segment) error {
	h := &s.ship
	h.pending = nil
	h.lastSeq = max(h.lastSeq, seg.LastSeq)
	if h.marks > h.missing.Load() {
		h.missing.Store(h.marks)
		if s.opts.Publish > 0 {
			base.Wake(s.publishNow)
		}
	}
	h.at.Offset = seg.End()
	h.passed++
	h.extents = extended(h.extents, seg, seg.End())
	s.ledger.shipped(int64(len(seg.Body)), seg.LastSeq, h.missing.Load())
	if seg.Kind != object.SegmentSeal {
		return nil
	}
	h.at = object.Position{Log: seg.Next}
	if s.lacksTables() {
		return nil // the logs stay for Salvage
	}
	// The note comes before the log may go. An Open that finds the log gone must know that the
	// bucket has it.
	if err := s.noteShipped(); err != nil {
		return err // the next seal notes it
	}
	s.keepLogs(h.at.Log)
	return nil
}

// handOver ends the list of segments of this writer with an empty seal, behind which the list goes on at the place of the
// next epoch. So the next Open need not fence this writer, and a program that is called every few minutes leaves no fence
// each time, which would stay for ever. If that fails, or if the process has ended without it, Open fences.
// Requires: ship.mu, the local store is closed, and nothing is ever shipped after this.
func (s *Store) handOver(ctx context.Context) {
	h := &s.ship
	if h.pending != nil || s.epoch == object.MaxEpoch {
		return
	}
	_, _ = chain.PutSegment(ctx, s.bucket, &object.Segment{ // see above
		StoreID: s.id, Log: h.at.Log, Offset: h.at.Offset, FirstSeq: h.lastSeq + 1, LastSeq: h.lastSeq,
		Written: time.Now(), Kind: object.SegmentSeal, Next: object.AnchorOf(s.epoch + 1).Log,
	})
}

// lacksTables reports whether the segments in the bucket are not enough, and the next step is needed.
// The one number says up to where tables have to bring writes, the other up to where the newest
// step has all.
func (s *Store) lacksTables() bool { return s.ship.missing.Load() > s.publishedSeq.Load() }

// extended returns the extents after one more segment, which ends at end.
// It changes the slice that it gets. Whoever keeps extents for longer clones them.
func extended(extents []object.Extent, seg *object.Segment, end int64) []object.Extent {
	n := len(extents)
	switch {
	case n > 0 && (extents[n-1].Log == seg.Log || seg.Kind == object.SegmentFence):
	case end < object.LogHeader:
		return extents // an anchor, or a log of which nothing was shipped
	default:
		extents = append(extents, object.Extent{Log: seg.Log})
		n++
	}
	e := &extents[n-1]
	if seg.Kind == object.SegmentFence {
		e.Sealed = true
		return extents
	}
	e.Length, e.LastSeq, e.Sealed = end, seg.LastSeq, seg.Kind == object.SegmentSeal
	return extents
}

// shipLoop ships every Options.Ship, if that is not negative, and when it is asked to: when a log is full, so
// that its file can be used again soon, and when writers wait. What can't be shipped it lets go in the end.
func (s *Store) shipLoop(ctx context.Context) {
	b := s.reporting("ship")
	retry := backoff{}
	for {
		wait := s.opts.Ship // negative: no time
		if retry.tries > 0 {
			wait = max(wait, retry.delay())
		}
		if !waitFor(ctx, wait, s.shipNow) {
			return
		}
		err := s.shipAll(ctx, b)
		if ctx.Err() != nil {
			return
		}
		// Only then can logs pile up. Otherwise each seal lets the log before it go.
		if err != nil || s.lacksTables() {
			s.report("let logs go", s.letGo())
		}
		s.report("ship", err)
		retry.tried(err)
	}
}
