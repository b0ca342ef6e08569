package object

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// An exampleObject is anything that this package encodes, for tests that are the same for all.
type exampleObject struct {
	kind   string // as docs/REMOTE.md calls its example
	name   string
	encode func(dst []byte) ([]byte, error)
	// decode decodes what is under a name, and encodes it again.
	decode func(name string, storeID uint64, src []byte) ([]byte, error)
}

// bytes returns the encoded object.
func (o *exampleObject) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := o.encode(nil)
	mustNil(t, err)
	return b
}

// again decodes with decode and encodes the result.
func again[T interface {
	Encode([]byte) ([]byte, error)
}](decode func(string, uint64, []byte) (T, error)) func(string, uint64, []byte) ([]byte, error) {
	return func(name string, storeID uint64, src []byte) ([]byte, error) {
		o, err := decode(name, storeID, src)
		if err != nil {
			return nil, err
		}
		b, err := o.Encode(nil)
		if err != nil {
			b = []byte("it was decoded, but can't be encoded")
		}
		return b, err
	}
}

// identityOf is DecodeIdentity in the form of the other decoders.
func identityOf(name string, storeID uint64, src []byte) (*Identity, error) {
	i, err := DecodeIdentity(src)
	if err == nil && (i.StoreID != storeID || name != IdentityName) {
		return nil, base.Corruption(name, -1, "identity", errors.New("another store or name"))
	}
	return i, err
}

// examples are the objects of docs/REMOTE.md.
func examples() []exampleObject {
	id := &Identity{StoreID: remotetest.ExampleStore, Created: remotetest.ExampleTime}
	segment, step, state, pin := exampleSegment(), exampleStep(), exampleState(), examplePin()
	return []exampleObject{
		{"identity", IdentityName, id.Encode, again(identityOf)},
		{"segment", segment.Name(), segment.Encode, again(DecodeSegment)},
		{"step", step.Name(), step.Encode, again(DecodeStep)},
		{"state", state.Name(), state.Encode, again(DecodeState)},
		{"pin", pin.Name(), pin.Encode, again(DecodePin)},
	}
}

func exampleSegment() *Segment {
	return &Segment{
		StoreID: remotetest.ExampleStore, Log: 1<<EpochShift | 12, Offset: 0x1000, FirstSeq: 7, LastSeq: 8, Written: remotetest.ExampleTime,
		Kind: SegmentData, Body: []byte{0xde, 0xad, 0xbe, 0xef, 0x0f, 0x00},
	}
}

func exampleStep() *Step {
	return &Step{
		StoreID: remotetest.ExampleStore, N: 7, Epoch: 1, Writer: 0xfeedfacecafef00d, Written: remotetest.ExampleTime, Kind: StepPublish,
		Edit:    &manifest.Edit{NextFileNum: 20, Added: []manifest.Added{{Level: 0, Run: 13, Table: remotetest.ExampleTable(13)}}},
		Extents: []Extent{{Log: 12, Length: 4102, LastSeq: 8}},
		Floor:   3, LastTableSeq: 6,
	}
}

func exampleState() *State {
	v, err := new(manifest.Version).Apply(&manifest.Edit{Added: []manifest.Added{{Level: 0, Run: 13, Table: remotetest.ExampleTable(13)}}})
	if err != nil {
		panic(err)
	}
	return &State{
		StoreID: remotetest.ExampleStore, N: 7, Written: remotetest.ExampleTime,
		Tables:  &manifest.State{Version: v, StoreID: remotetest.ExampleStore, NextFileNum: 20, LastSeq: 6},
		Extents: []Extent{{Log: 12, Length: 4102, LastSeq: 8}},
		Floor:   3,
	}
}

func examplePin() *Pin {
	return &Pin{
		StoreID: remotetest.ExampleStore, N: 7, Written: remotetest.ExampleTime, Epoch: 1, Writer: 0xfeedfacecafef00d,
		Label: "before-upgrade", Owner: "ann", Expires: remotetest.ExampleTime.Add(time.Hour),
	}
}

// documented returns the bytes of an example in docs/REMOTE.md: the hexadecimal digits of its
// lines, each up to the first three spaces in a row.
func documented(t testing.TB, kind string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../docs/REMOTE.md")
	mustNil(t, err)
	_, rest, ok := strings.Cut(string(text), "```example "+kind+"\n")
	block, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatalf("docs/REMOTE.md has no example of a %s", kind)
	}
	var b []byte
	for line := range strings.Lines(block) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
		part, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("docs/REMOTE.md, %s: %q: %v", kind, line, err)
		}
		b = append(b, part...)
	}
	return b
}

// resealed returns a copy of an object with the checksum at its end made right.
func resealed(b []byte) []byte {
	end := len(b) - SumSize
	return AppendSum(bytes.Clone(b[:end]), 0)
}
