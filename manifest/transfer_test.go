package manifest

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// TestTransfer_EditIsThatOfAManifest checks that Encode writes what a manifest has, and that
// DecodeEdit reads it.
func TestTransfer_EditIsThatOfAManifest(t *testing.T) {
	before := []byte("before")
	got, err := fullEdit().Encode(before)
	mustNil(t, err)
	if want := append(before, unhex(t, goldenEdit)...); !bytes.Equal(got, want) {
		t.Errorf("Encode = %x, want %x", got, want)
	}
	e, err := DecodeEdit(got[len(before):])
	mustNil(t, err)
	if !reflect.DeepEqual(e, fullEdit()) {
		t.Errorf("DecodeEdit = %s, want %s", e, fullEdit())
	}
}

// TestTransfer_RefusesWhatDecodeEditRefuses encodes edits that no program could read again.
func TestTransfer_RefusesWhatDecodeEditRefuses(t *testing.T) {
	beside := table(1, "a", "b")
	beside.Sidecar = sidecar(20)
	for name, e := range map[string]*Edit{
		"removed twice":    {Removed: []Removed{{Level: 1, Num: 7}, {Level: 1, Num: 7}}},
		"level":            {Added: []Added{{Level: NumLevels, Table: table(1, "a", "b")}}},
		"table":            {Added: []Added{{Level: 1, Table: table(1, "b", "a")}}},
		"sealed log":       {SealedLog: &SealedLog{Num: 2, Length: -1}},
		"sequence":         {LastSeq: base.MaxSeq + 1},
		"level of sidecar": {Sidecars: []SidecarChange{{Level: -1, Num: 1, Sidecar: sidecar(20)}}},
		"sidecar":          {Sidecars: []SidecarChange{{Level: 1, Num: 1, Sidecar: &Sidecar{}}}},
		"two sidecars":     {Sidecars: []SidecarChange{{Level: 1, Num: 1, Sidecar: sidecar(20)}, {Level: 1, Num: 1, Sidecar: sidecar(21)}}},
		"two, one added":   {Added: []Added{{Level: 1, Table: beside}}, Sidecars: []SidecarChange{{Level: 1, Num: 1, Sidecar: sidecar(21)}}},
	} {
		if b, err := e.Encode(nil); err == nil || len(b) > 0 {
			t.Errorf("%s: Encode = %x, %v; want an error and nothing", name, b, err)
		}
		if _, err := DecodeEdit(e.appendTo(nil)); err == nil {
			t.Errorf("%s: DecodeEdit accepts it", name)
		}
	}
}

// TestTransfer_StateIsAManifest checks that Encode writes the file that Create writes, and that
// DecodeState returns the state.
func TestTransfer_StateIsAManifest(t *testing.T) {
	for i, s := range states(t) {
		m := newMem(t)
		l, err := Create(m, dir, 40, s)
		mustNil(t, err)
		mustNil(t, l.Close())
		b, err := s.Encode([]byte("before"), 40)
		mustNil(t, err)
		b = bytes.TrimPrefix(b, []byte("before"))
		if want := readFile(t, m, "MANIFEST-000040"); !bytes.Equal(b, want) {
			t.Errorf("after %d edits: Encode = %x, want %x", i, b, want)
		}
		got, err := DecodeState(b, 40)
		mustNil(t, err)
		want := *s
		want.NextFileNum = 41
		if describe(got) != describe(&want) || got.ManifestNum != 40 || got.torn {
			t.Errorf("after %d edits: DecodeState = %+v, want %+v", i, got, &want)
		}
	}
	bad := *states(t)[0]
	bad.Version = mustParse(t, "L1: 000001:[b-a]")
	if b, err := bad.Encode(nil, 1); err == nil || len(b) > 0 {
		t.Errorf("Encode of an impossible version = %x, %v", b, err)
	}
	bad = *states(t)[0]
	bad.Logs = []LogInfo{{Num: 9}, {Num: 8}}
	if b, err := bad.Encode(nil, 1); err == nil || len(b) > 0 {
		t.Errorf("Encode of logs out of order = %x, %v", b, err)
	}
}

// TestTransfer_StateIsWhole flips every bit of a state and cuts it within every record. Nothing
// of that may pass for the end of a file that a crash has torn.
func TestTransfer_StateIsWhole(t *testing.T) {
	good, err := states(t)[len(life())].Encode(nil, 40)
	mustNil(t, err)
	border := headerSize // where the next record begins
	for i := range good {
		s, err := DecodeState(good[:i], 40)
		if i != border && !errorIsCorruption(err, "MANIFEST-000040") {
			t.Errorf("cut to %d bytes: %+v, %v", i, s, err)
		}
		if i == border {
			border += recordHeaderSize + int(binary.LittleEndian.Uint32(good[i:]))
		}
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			if s, err := DecodeState(bad, 40); !errorIsCorruption(err, "MANIFEST-000040") {
				t.Errorf("bit %d of byte %d flipped: %+v, %v", bit, i, s, err)
			}
		}
	}
	if s, err := DecodeState(append(good, 0), 40); err == nil {
		t.Errorf("one byte too many: %+v", s)
	}
	if _, err := DecodeState(good, 41); !errorIsCorruption(err, "MANIFEST-000041") {
		t.Errorf("another number: %v", err)
	}
}
