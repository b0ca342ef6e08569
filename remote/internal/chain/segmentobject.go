package chain

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// One segment as an object: how it is read, with or without its body, and how it is appended.

// SegmentGuess is how many bytes are asked for first, when a segment is read. Most segments of a store that is
// not busy are shorter, so one request is enough.
const SegmentGuess = 64 << 10

// ReadSegment reads the segment at a place, which must belong to the store. If there is none, the error
// wraps fs.ErrNotExist. The records in the body are not checked.
func ReadSegment(ctx context.Context, b bucket.Bucket, storeID uint64, at object.Position) (*object.Segment, error) {
	return Twice(func() (*object.Segment, error) { return readGuessed(ctx, b, storeID, at, SegmentGuess) })
}

// readGuessed is ReadSegment that takes one request if the object has fewer than guess bytes. The size of a segment that a
// list has named is known, so one request is enough for any length.
func readGuessed(ctx context.Context, b bucket.Bucket, storeID uint64, at object.Position, guess int) (*object.Segment, error) {
	src, err := ReadChecked(ctx, b, at.String(), guess, object.SegmentHeader+object.MaxBody)
	if err != nil {
		return nil, err
	}
	return object.DecodeSegment(at.String(), storeID, src)
}

// ReadHead is ReadSegment without the body.
func ReadHead(ctx context.Context, b bucket.Bucket, storeID uint64, at object.Position) (Listed, error) {
	return Twice(func() (Listed, error) { return readHead(ctx, b, storeID, at) })
}

func readHead(ctx context.Context, b bucket.Bucket, storeID uint64, at object.Position) (Listed, error) {
	src := make([]byte, object.SegmentHeader)
	n, err := b.ReadAt(ctx, at.String(), src, 0)
	if err != nil && err != io.EOF {
		return Listed{}, err
	}
	s, length, err := object.DecodeSegmentHeader(src[:n])
	if err == nil {
		err = object.CheckWhere(s, s.StoreID, at.String(), storeID)
	}
	if err != nil {
		return Listed{}, object.Damage(at.String(), "segment", err)
	}
	return Listed{s, length, binary.LittleEndian.Uint32(src[object.BodySumOffset:])}, nil
}

// ListEnd returns the place behind the last extent: where a store's list of segments goes on after the
// state with these extents. If the segments are gone, the error wraps fs.ErrNotExist.
func ListEnd(ctx context.Context, b bucket.Bucket, storeID uint64, extents []object.Extent) (object.Position, error) {
	if len(extents) == 0 {
		return object.RootPosition, nil
	}
	last := extents[len(extents)-1]
	end := object.ExtentEnd(last)
	if !last.Sealed {
		return end, nil
	}
	// A seal may have a body, and then begins somewhere before the end, most often not far. It is the log's last segment.
	name := ""
	for back := int64(4096); name == ""; back *= 64 {
		from := object.Position{Log: last.Log, Offset: max(0, last.Length-back)}
		for info, err := range b.List(ctx, object.LogFolder(last.Log), object.JustBefore(from)) {
			if err != nil {
				return object.Position{}, err
			}
			name = info.Name
		}
		if from.Offset == 0 {
			break
		}
	}
	n, ok := object.ParseName(name)
	if !ok {
		return object.Position{}, fmt.Errorf("remote: log %016x has no segments: %w", last.Log, fs.ErrNotExist)
	}
	s, err := ReadHead(ctx, b, storeID, object.Position{Log: n.Num, Offset: n.Offset})
	if err != nil {
		return object.Position{}, err
	}
	// The last segment of the LIST must be the one that has ended the log. If it is not, that one
	// is gone.
	if s.Kind == object.SegmentData || s.BodyEnd() != end {
		return object.Position{}, fmt.Errorf("remote: log %016x has ended at offset %d, but %s is not its end: %w", last.Log, last.Length, name, fs.ErrNotExist)
	}
	return s.After(), nil
}

// PutSegment appends a segment to the list, and returns the segment that stands at its place then. That is s,
// or one with the first bytes of s, which the same directory has put before: its answer was lost, or the
// process ended before it came. The caller goes on behind it.
//
// If anything else stands there, the error wraps ErrFenced. Any other error leaves unknown whether s
// was appended; the caller tries again with the same bytes or more.
func PutSegment(ctx context.Context, b bucket.Bucket, s *object.Segment) (*object.Segment, error) {
	header, sum, err := object.EncodeSegmentHeader(s, nil)
	if err != nil {
		return nil, err
	}
	err = b.Put(ctx, s.Name(), object.Concat{Head: header, Body: s.Body}, int64(len(header)+len(s.Body)), sum, true)
	if !errors.Is(err, bucket.ErrExists) {
		return s, err
	}
	there, err := ReadSegment(ctx, b, s.StoreID, object.Position{Log: s.Log, Offset: s.Offset})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Only an owner deletes segments, and only those that it did not append.
		return nil, fmt.Errorf("remote: segment %s was there and is deleted: %w", s.Name(), ErrFenced)
	case err != nil:
		return nil, err
	case there.Kind == object.SegmentFence:
		return nil, fmt.Errorf("remote: segment %s is a fence of epoch %d: %w", s.Name(), there.Next>>object.EpochShift, ErrFenced)
	}
	// Data with the first bytes of s is an earlier and shorter cut of the same log. A seal must be
	// the same in all: it says where the list goes on.
	same := there.Kind == s.Kind && there.Next == s.Next && bytes.Equal(there.Body, s.Body)
	if same || there.Kind == object.SegmentData && bytes.HasPrefix(s.Body, there.Body) {
		return there, nil
	}
	return nil, fmt.Errorf("remote: segment %s has other bytes than the log of this directory: %w", s.Name(), ErrFenced)
}

// Twice calls read, and calls it once more if the result is damaged: bytes may have changed on their way.
// What is damaged both times is damaged in the bucket.
func Twice[T any](read func() (T, error)) (T, error) {
	v, err := read()
	if object.IsDamage(err) {
		v, err = read()
	}
	return v, err
}
