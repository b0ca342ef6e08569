package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// segmentAt returns a segment with length bytes of data.
func segmentAt(at object.Position, length int) *object.Segment {
	return &object.Segment{
		StoreID: remotetest.ExampleStore, Log: at.Log, Offset: at.Offset, FirstSeq: 6, LastSeq: 5, Written: remotetest.ExampleTime,
		Body: bytes.Repeat([]byte{byte(at.Log)}, length),
	}
}

// sealAt returns a seal. Behind it the list goes on with log next.
func sealAt(at object.Position, length int, next uint64) *object.Segment {
	s := segmentAt(at, length)
	s.Kind, s.Next = object.SegmentSeal, next
	return s
}

// fenceAt returns the fence of the owner of an epoch.
func fenceAt(at object.Position, epoch uint64) *object.Segment {
	return &object.Segment{StoreID: remotetest.ExampleStore, Log: at.Log, Offset: at.Offset, Written: remotetest.ExampleTime, Kind: object.SegmentFence, Next: epoch << object.EpochShift}
}

// log returns the number of a log of an epoch.
func logOf(epoch, n uint64) uint64 { return epoch<<object.EpochShift + n }

// theList is a list of segments of two writers, and the place where it ends.
func theList() (list []*object.Segment, end object.Position) {
	a, b, c, d := logOf(1, 3), logOf(1, 8), logOf(3, 1), logOf(3, 2)
	list = []*object.Segment{
		sealAt(object.RootPosition, 0, a),                                      // the first writer's anchor
		segmentAt(object.Position{Log: a, Offset: 0}, 5000),                    //
		segmentAt(object.Position{Log: a, Offset: 5000}, 300),                  //
		sealAt(object.Position{Log: a, Offset: 5300}, 50, b),                   // a seal with a body
		segmentAt(object.Position{Log: b, Offset: 0}, 4096),                    //
		fenceAt(object.Position{Log: b, Offset: 4096}, 2),                      // the second writer never came to write its anchor
		fenceAt(object.AnchorOf(2), 3),                                         //
		sealAt(object.AnchorOf(3), 0, c),                                       // the third writer's anchor
		sealAt(object.Position{Log: c, Offset: 0}, 0, d),                       // a log of which nothing was shipped
		segmentAt(object.Position{Log: d, Offset: 0}, chain.SegmentGuess+5000), // more than one request
	}
	return list, object.AfterSegment(list[len(list)-1])
}

// putList writes segments.
func putList(t testing.TB, b Bucket, list []*object.Segment) {
	t.Helper()
	for _, s := range list {
		there, err := chain.PutSegment(context.Background(), b, s)
		mustNil(t, err)
		if there != s {
			t.Fatalf("%s stands where %s should", there.Name(), s.Name())
		}
	}
}

// walked returns what a chain.SegmentList finds, in notation: with bodies or without, several at a time or not.
func walked(t *testing.T, b Bucket, from object.Position) (list []string, err error) {
	t.Helper()
	for i, l := range []chain.SegmentList{{}, {Heads: true}, {AtOnce: 1}, {Heads: true, AtOnce: 1}} {
		l.Bucket, l.StoreID = b, remotetest.ExampleStore
		found, failed := []string(nil), error(nil)
		for s, err := range l.From(context.Background(), from) {
			if failed = err; err == nil {
				found = append(found, fmt.Sprintf("%v+%d>%v", s.At(), s.Length, s.After()))
			}
		}
		if i > 0 && (!slices.Equal(found, list) || fmt.Sprint(failed) != fmt.Sprint(err)) {
			t.Errorf("%+v finds\n%s\n%v, and another\n%s\n%v", l, strings.Join(found, "\n"), failed, strings.Join(list, "\n"), err)
		}
		list, err = found, failed
	}
	return list, err
}

// TestSegmentList_ListLacksOne checks that the walk finds a segment that a list has left out.
func TestSegmentList_ListLacksOne(t *testing.T) {
	b := NewMem()
	list, _ := theList()
	putList(t, b, list)
	want, err := walked(t, b, object.RootPosition)
	mustNil(t, err)
	for i := 1; i <= 2; i++ {
		forgetful := &remotetest.Fake{Bucket: b, Instead: remotetest.Instead{OnList: func(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
			return func(yield func(Info, error) bool) {
				for info, err := range b.List(ctx, prefix, after) {
					if info.Name != list[i].Name() && !yield(info, err) {
						return
					}
				}
			}
		}}}
		got, err := walked(t, forgetful, object.RootPosition)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("lists without %s:\n%s\n%v", list[i].Name(), strings.Join(got, "\n"), err)
		}
	}
}

// TestPutSegment_Taken checks what a writer makes of a place that is taken.
func TestPutSegment_Taken(t *testing.T) {
	at := object.Position{Log: logOf(1, 3), Offset: 5000}
	ours := segmentAt(at, 300)
	other := segmentAt(at, 300)
	other.Body[299]++
	for what, c := range map[string]struct {
		s, there *object.Segment
		fenced   bool
	}{
		"the same":                  {ours, segmentAt(at, 300), false},
		"an earlier, shorter one":   {ours, segmentAt(at, 100), false},
		"the same seal":             {sealAt(at, 300, logOf(1, 4)), sealAt(at, 300, logOf(1, 4)), false},
		"data before a seal":        {sealAt(at, 300, logOf(1, 4)), segmentAt(at, 100), false},
		"a fence":                   {ours, fenceAt(at, 2), true},
		"other bytes":               {ours, other, true},
		"more bytes":                {ours, segmentAt(at, 301), true},
		"a seal":                    {ours, sealAt(at, 300, logOf(1, 4)), true},
		"a seal with another next":  {sealAt(at, 300, logOf(1, 4)), sealAt(at, 300, logOf(1, 5)), true},
		"an empty seal before data": {ours, sealAt(at, 0, logOf(1, 4)), true},
	} {
		b := NewMem()
		putList(t, b, []*object.Segment{c.there})
		got, err := chain.PutSegment(context.Background(), b, c.s)
		if errors.Is(err, ErrFenced) != c.fenced || !c.fenced && (err != nil || got.End() != c.there.End()) {
			t.Errorf("%s is there: %v, %v", what, got, err)
		}
	}
}
