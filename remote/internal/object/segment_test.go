package object

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

func encodeSegment(s *Segment) ([]byte, error) { return s.Encode(nil) }

func TestSegment_RoundTrip(t *testing.T) {
	first := make([]byte, LogHeader)
	last := uint64(base.MaxSeq)
	for _, s := range []*Segment{
		exampleSegment(),
		{StoreID: 1, Log: 1, FirstSeq: 1, Written: time.UnixMilli(0).UTC(), Body: first},
		{Log: MaxNum, Offset: MaxLog - 1, FirstSeq: last + 1, LastSeq: last, Written: time.UnixMilli(maxMilli).UTC(), Body: []byte{1}},
		{Log: MaxNum - 1, Offset: MaxLog - 1, FirstSeq: 1, LastSeq: 2, Written: remotetest.ExampleTime, Next: MaxNum, Kind: SegmentSeal, Body: []byte{1}},
		{Log: 2, Offset: LogHeader, FirstSeq: 6, LastSeq: 5, Written: remotetest.ExampleTime, Next: 3, Kind: SegmentSeal, Body: []byte{}},
		{Log: 1 << EpochShift, FirstSeq: 6, LastSeq: 5, Written: remotetest.ExampleTime, Next: 1<<EpochShift | 1, Kind: SegmentSeal, Body: []byte{}},
		{Log: 2, Offset: LogHeader, Written: remotetest.ExampleTime, Next: 2 << EpochShift, Kind: SegmentFence, Body: []byte{}},
		{Log: 2, Written: remotetest.ExampleTime, Next: 2 << EpochShift, Kind: SegmentFence, Body: []byte{}},
	} {
		b, err := s.Encode(nil)
		mustNil(t, err)
		if len(b) != SegmentHeader+len(s.Body) {
			t.Errorf("%d bytes for a body of %d", len(b), len(s.Body))
		}
		got, err := DecodeSegment(s.Name(), s.StoreID, b)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("DecodeSegment = %+v, %v; want %+v", got, err, s)
		}
		if want := s.Offset + int64(len(s.Body)); got.End() != want {
			t.Errorf("End = %d, want %d", got.End(), want)
		}
	}
}

func TestSegment_RefusesWhatCannotBe(t *testing.T) {
	tryRefusals(t, exampleSegment, encodeSegment, refusals[Segment]{
		"log 0":                    func(s *Segment) { s.Log = 0 },
		"log too large":            func(s *Segment) { s.Log = MaxNum + 1 },
		"negative offset":          func(s *Segment) { s.Offset = -1 },
		"offset in the log header": func(s *Segment) { s.Offset = LogHeader - 1 },
		"end too large":            func(s *Segment) { s.Offset = MaxLog - 5 },
		"offset that overflows":    func(s *Segment) { s.Offset = math.MaxInt64 },
		"a part of the log header": func(s *Segment) { s.Offset = 0 },
		"first number 0":           func(s *Segment) { s.FirstSeq = 0 },
		"numbers that go back":     func(s *Segment) { s.FirstSeq = 10 },
		"last number too large":    func(s *Segment) { s.LastSeq = uint64(base.MaxSeq) + 1 },
		"no time":                  func(s *Segment) { s.Written = time.Time{} },
		"a time too late":          func(s *Segment) { s.Written = time.UnixMilli(maxMilli + 1) },
		"unknown kind":             func(s *Segment) { s.Kind = SegmentFence + 1 },
		"no body":                  func(s *Segment) { s.Body = nil },
		"data and a next log":      func(s *Segment) { s.Next = s.Log + 1 },
		"a seal without a next":    func(s *Segment) { s.Kind = SegmentSeal },
		"a seal that goes back":    func(s *Segment) { s.Kind, s.Next = SegmentSeal, s.Log },
		"a next log too large":     func(s *Segment) { s.Kind, s.Next = SegmentSeal, MaxNum+1 },
		"an empty seal's numbers":  func(s *Segment) { s.Kind, s.Next, s.Body = SegmentSeal, s.Log+1, nil },
		"a fence with a body":      func(s *Segment) { *s = *exampleFence(); s.Body = []byte{1} },
		"a fence with a first":     func(s *Segment) { *s = *exampleFence(); s.FirstSeq = 7 },
		"a fence with a last":      func(s *Segment) { *s = *exampleFence(); s.LastSeq = 7 },
		"a fence that goes back":   func(s *Segment) { *s = *exampleFence(); s.Next = s.Log },
		"a fence without a next":   func(s *Segment) { *s = *exampleFence(); s.Next = 0 },
	})
}

// exampleFence is a fence at the place of the example.
func exampleFence() *Segment {
	s := exampleSegment()
	s.Kind, s.Next, s.FirstSeq, s.LastSeq, s.Body = SegmentFence, 2<<EpochShift, 0, 0, nil
	return s
}

// TestSegment_DecoderChecksFields writes impossible values under right checksums.
func TestSegment_DecoderChecksFields(t *testing.T) {
	for what, change := range map[string]func(b []byte){
		"log":       func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 0) },
		"offset":    func(b []byte) { binary.LittleEndian.PutUint64(b[32:], 1<<63) },
		"length":    func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 5) },
		"longer":    func(b []byte) { binary.LittleEndian.PutUint64(b[40:], math.MaxUint64) },
		"first":     func(b []byte) { binary.LittleEndian.PutUint64(b[48:], 0) },
		"last":      func(b []byte) { binary.LittleEndian.PutUint64(b[56:], math.MaxUint64) },
		"time":      func(b []byte) { binary.LittleEndian.PutUint64(b[64:], maxMilli+1) },
		"next":      func(b []byte) { b[72] = 1 },
		"kind":      func(b []byte) { b[80] = 3 },
		"zero":      func(b []byte) { b[83] = 1 },
		"body":      func(b []byte) { b[84]++ },
		"the store": func(b []byte) { b[16]++ },
	} {
		b, err := exampleSegment().Encode(nil)
		mustNil(t, err)
		change(b)
		copy(b[88:92], AppendSum(b[:88:88], 0)[88:])
		_, err = DecodeSegment(exampleSegment().Name(), remotetest.ExampleStore, b)
		if err == nil {
			t.Errorf("%s: it is accepted", what)
			continue
		}
		remotetest.MustBeDamage(t, exampleSegment().Name(), err)
		if newer := errors.Is(err, base.ErrFormatTooNew); newer != (what == "kind") {
			t.Errorf("%s: %v", what, err)
		}
		// No other check than that of the field may have found it.
		if what != "body" && strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
