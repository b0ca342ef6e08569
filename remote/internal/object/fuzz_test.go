package object

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// objectLimit is what a decoder may allocate. A removal of four bytes in an edit becomes an entry of
// a map, and the tables of a state are written to a file in memory.
var objectLimit = fuzzing.Limit{Bytes: 128 << 10, PerByte: 256}

// fuzzObject lets a fuzzer change the objects of one kind, also with their checksums made right
// by fix. What is accepted has to be the same after it was encoded and decoded again.
func fuzzObject(f *testing.F, kind string, fix func(b []byte)) {
	var o exampleObject
	for _, e := range examples() {
		if e.kind == kind {
			o = e
		}
	}
	good := o.bytes(f)
	f.Add(good, false)
	f.Add(good[:len(good)-1], true)
	f.Add(append(bytes.Clone(good), 1, 2, 3, 4), true)
	f.Fuzz(func(t *testing.T, b []byte, fixed bool) {
		if fixed {
			b = bytes.Clone(b)
			fix(b)
		}
		var encoded []byte
		var err error
		objectLimit.Check(t, len(b), func() { encoded, err = o.decode(o.name, remotetest.ExampleStore, b) })
		if err != nil {
			if encoded != nil {
				t.Errorf("%x decodes, but: %v", b, err)
			}
			return
		}
		twice, err := o.decode(o.name, remotetest.ExampleStore, encoded)
		if err != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("%x is written as\n%x, and that as\n%x, %v", b, encoded, twice, err)
		}
	})
}

// fixEnds makes the checksums of the version and of the whole object right.
func fixEnds(b []byte) {
	if len(b) < HeadSize+SumSize {
		return
	}
	copy(b[12:], AppendSum(b[:12:12], 0)[12:])
	end := len(b) - SumSize
	copy(b[end:], AppendSum(b[:end:end], 0)[end:])
}

func FuzzDecodeIdentity(f *testing.F) { fuzzObject(f, "identity", fixEnds) }
func FuzzDecodeStep(f *testing.F)     { fuzzObject(f, "step", fixEnds) }
func FuzzDecodeState(f *testing.F)    { fuzzObject(f, "state", fixEnds) }
func FuzzDecodePin(f *testing.F)      { fuzzObject(f, "pin", fixEnds) }

func FuzzDecodeSegment(f *testing.F) {
	fuzzObject(f, "segment", func(b []byte) {
		if len(b) < SegmentHeader {
			return
		}
		copy(b[12:], AppendSum(b[:12:12], 0)[12:])
		copy(b[84:], AppendSum(bytes.Clone(b[SegmentHeader:]), 0)[len(b)-SegmentHeader:])
		copy(b[88:], AppendSum(b[:88:88], 0)[88:])
	})
}

// FuzzParseName checks that every name that is accepted is the one that would be made, and that of
// an object.
func FuzzParseName(f *testing.F) {
	for _, o := range examples() {
		f.Add(o.name)
	}
	f.Add(TableName(1 << 40))
	f.Add(FilterName(7))
	f.Add(ProbeName(9))
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := ParseName(name)
		if !ok {
			return
		}
		if n.String() != name || bucket.CheckName(name) != nil {
			t.Errorf("%q is accepted as %+v, whose name is %q: %v", name, n, n, bucket.CheckName(name))
		}
	})
}
