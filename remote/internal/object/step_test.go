package object

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

func encodeStep(s *Step) ([]byte, error) { return s.Encode(nil) }

func TestStep_RefusesWhatCannotBe(t *testing.T) {
	seq := uint64(base.MaxSeq) + 1
	tryRefusals(t, exampleStep, encodeStep, refusals[Step]{
		"number 0":             func(s *Step) { s.N, s.Floor = 0, 0 },
		"number too large":     func(s *Step) { s.N = MaxNum + 1 },
		"epoch 0":              func(s *Step) { s.Epoch = 0 },
		"epoch too large":      func(s *Step) { s.Epoch = MaxEpoch + 1 },
		"writer 0":             func(s *Step) { s.Writer = 0 },
		"no time":              func(s *Step) { s.Written = time.Time{} },
		"unknown kind":         func(s *Step) { s.Kind = StepClaim + 1 },
		"a claim with an edit": func(s *Step) { s.Kind = StepClaim },
		"an impossible edit":   func(s *Step) { s.Edit.LastSeq = base.MaxSeq + 1 },
		"a floor above it":     func(s *Step) { s.Floor = s.N + 1 },
		"a number in tables":   func(s *Step) { s.LastTableSeq = seq },
		"log 0":                func(s *Step) { s.Extents[0].Log = 0 },
		"a log too short":      func(s *Step) { s.Extents[0].Length = LogHeader - 1 },
		"a log too long":       func(s *Step) { s.Extents[0].Length = MaxLog + 1 },
		"a number of a log":    func(s *Step) { s.Extents[0].LastSeq = seq },
		"a log twice":          func(s *Step) { s.Extents = []Extent{{12, 5000, 1, true}, {12, 5000, 1, true}} },
		"a log after no seal":  func(s *Step) { s.Extents = []Extent{{12, 5000, 1, false}, {13, 5000, 1, true}} },
		"numbers that go back": func(s *Step) { s.Extents = []Extent{{12, 5000, 2, true}, {13, 5000, 1, true}} },
	})
}

// TestStep_DecoderChecksFields writes impossible values under a right checksum. Each error must be
// the one about the value.
func TestStep_DecoderChecksFields(t *testing.T) {
	bare := func(fields ...byte) func(b []byte) []byte {
		return func(b []byte) []byte { return slices.Concat(b[:leastStep-SumSize], fields, make([]byte, SumSize)) }
	}
	field := func(tag uint64, content ...byte) func(b []byte) []byte {
		return bare(fields.Append([]byte{tagKind, 1, 0}, tag, content)...)
	}
	number := func(at int, v uint64) func(b []byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	for _, c := range []struct {
		change func(b []byte) []byte
		want   string
	}{
		{number(24, 0), "step 0 is not in"},
		{number(32, MaxEpoch+1), "epoch 16777216 is not in"},
		{number(40, 0), "writer 0 stands for none"},
		{number(48, 1<<63), "after the year 9999"},
		{bare(), "it has no kind"},
		{bare(tagFloor, 1, 1), "it has no kind"},
		{bare(tagKind, 1, 2), "kind 2: written by a newer"},
		{field(tagEdit, 2, 1), "field 4: manifest: decode edit: it ends within a field"},
		{field(tagEdit, 126, 0), "field 126 is unknown: written by a newer"},
		{field(tagExtent, 12, 0x80, 0x40, 1, 2), "field 6: a log is sealed"},
		{field(tagExtent, 12, 0x80, 0x40), "field 6: it ends within a field"},
		{field(tagExtent, 12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1), "field 6: 18446744073709551615 is too large"},
	} {
		b, err := exampleStep().Encode(nil)
		mustNil(t, err)
		_, err = DecodeStep(exampleStep().Name(), remotetest.ExampleStore, resealed(c.change(b)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
			continue
		}
		remotetest.MustBeDamage(t, exampleStep().Name(), err)
		if newer := errors.Is(err, base.ErrFormatTooNew); newer != strings.Contains(c.want, "newer") {
			t.Errorf("%v: newer format: %v", err, newer)
		}
	}
}
