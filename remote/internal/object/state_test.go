package object

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

func encodeState(s *State) ([]byte, error) { return s.Encode(nil) }
func encodePin(p *Pin) ([]byte, error)     { return p.Encode(nil) }

// plain returns s with what can be compared of its tables: their notation and the counters.
func plain(s *State) (State, string, manifest.State) {
	rest, tables := *s, *s.Tables
	rest.Tables = nil
	text := tables.Version.Describe()
	// Where a manifest was read is not a part of the state.
	counters := manifest.State{StoreID: tables.StoreID, NextFileNum: tables.NextFileNum, LastSeq: tables.LastSeq, MinLog: tables.MinLog, Logs: tables.Logs}
	return rest, text, counters
}

// checkSame fails t if two states differ.
func checkSame(t *testing.T, got, want *State) {
	t.Helper()
	gotRest, gotText, gotTables := plain(got)
	wantRest, wantText, wantTables := plain(want)
	if !reflect.DeepEqual(gotRest, wantRest) || gotText != wantText || !reflect.DeepEqual(gotTables, wantTables) {
		t.Errorf("decoded\n%+v\n%+v\n%s, want\n%+v\n%+v\n%s", gotRest, gotTables, gotText, wantRest, wantTables, wantText)
	}
}

func TestState_RoundTrip(t *testing.T) {
	empty := &State{
		StoreID: 5, N: 1, Written: time.UnixMilli(0).UTC(),
		Tables: &manifest.State{Version: new(manifest.Version), StoreID: 5, NextFileNum: 2},
	}
	logs := exampleState()
	logs.Tables.Logs = []manifest.LogInfo{{Num: 12, Sealed: true, Length: 5000, LastSeq: 3}, {Num: 14}}
	for _, s := range []*State{exampleState(), empty, logs} {
		b, err := s.Encode(nil)
		mustNil(t, err)
		got, err := DecodeState(s.Name(), s.StoreID, b)
		mustNil(t, err)
		checkSame(t, got, s)
	}
	// The manifest in a state has the number of the step, which is used up then.
	late := exampleState()
	late.N = 1000
	b, err := late.Encode(nil)
	mustNil(t, err)
	got, err := DecodeState(late.Name(), late.StoreID, b)
	mustNil(t, err)
	late.Tables.NextFileNum = 1001
	checkSame(t, got, late)
}

func TestState_RefusesWhatCannotBe(t *testing.T) {
	tryRefusals(t, exampleState, encodeState, refusals[State]{
		"number 0":                func(s *State) { s.N, s.Floor = 0, 0 },
		"number too large":        func(s *State) { s.N = MaxNum + 1 },
		"no time":                 func(s *State) { s.Written = time.Time{} },
		"no tables":               func(s *State) { s.Tables = nil },
		"tables of another store": func(s *State) { s.Tables.StoreID++ },
		"an impossible table":     func(s *State) { s.Tables.Version.Levels[0].Runs[0].Tables[0].Size = 0 },
		"a sequence number":       func(s *State) { s.Tables.LastSeq = base.MaxSeq + 1 },
		"a floor above it":        func(s *State) { s.Floor = s.N + 1 },
		"a log too short":         func(s *State) { s.Extents[0].Length = 1 },
	})
}

func TestPin_RefusesWhatCannotBe(t *testing.T) {
	tryRefusals(t, examplePin, encodePin, refusals[Pin]{
		"no name":                func(p *Pin) { p.Label = "" },
		"a name with a slash":    func(p *Pin) { p.Label = "a/b" },
		"no step":                func(p *Pin) { p.N = 0 },
		"no epoch":               func(p *Pin) { p.Epoch = 0 },
		"no writer":              func(p *Pin) { p.Writer = 0 },
		"an owner too long":      func(p *Pin) { p.Owner = strings.Repeat("o", maxOwner+1) },
		"an owner with controls": func(p *Pin) { p.Owner = "a\n" },
		"an early end":           func(p *Pin) { p.Expires = time.UnixMilli(-1) },
	})
}

// TestState_DecoderChecksFields writes impossible values under a right checksum, in states and in
// pins. Each error must be the one about the value.
func TestState_DecoderChecksFields(t *testing.T) {
	state, err := exampleState().Encode(nil)
	mustNil(t, err)
	pin, err := examplePin().Encode(nil)
	mustNil(t, err)
	replaced := func(b []byte, tag uint64, content ...byte) []byte {
		out := append([]byte{}, b[:leastState-SumSize]...)
		for rest := b[leastState-SumSize : len(b)-SumSize]; len(rest) > 0; {
			d := fields.Decoder{Src: rest}
			this := d.Uvarint()
			old := d.Next(d.Uvarint())
			if rest = d.Src; this != tag {
				out = fields.Append(out, this, old)
			}
		}
		if content != nil {
			out = fields.Append(out, tag, content)
		}
		return append(out, 0, 0, 0, 0)
	}
	other := exampleState()
	other.Tables.StoreID++
	tables, err := other.Tables.Encode(nil, 7)
	mustNil(t, err)
	wrongNumber, err := exampleState().Tables.Encode(nil, 8)
	mustNil(t, err)
	number := func(b []byte, at int, v uint64) []byte {
		c := append([]byte{}, b...)
		binary.LittleEndian.PutUint64(c[at:], v)
		return c
	}
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{number(state, 24, MaxNum+1), "is not in [1, "},
		{number(state, 32, maxMilli+1), "after the year 9999"},
		{replaced(state, tagTables), "it has no tables"},
		{replaced(state, tagTables, tables...), "its tables belong to store"},
		{replaced(state, tagTables, wrongNumber...), "it is the header of manifest 000008"},
		{replaced(state, tagTables, 1, 2, 3), "field 16: corrupt MANIFEST-000007"},
		{replaced(state, tagFloor, 8), "all below step 8 is gone"},
		{replaced(state, tagLabel, 'a'), "field 14 is unknown: written by a newer"},
		{replaced(pin, tagLabel), `"" is not the name of a pin`},
		{replaced(pin, tagLabel, 'A'), `"A" is not the name of a pin`},
		{replaced(pin, tagOwner, 0), "field 19: owner"},
		{replaced(pin, tagExpires, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "field 18: "},
		{replaced(pin, tagFloor, 0), "field 8 is unknown: written by a newer"},
		{replaced(pin, tagTables, tables...), "field 16 is unknown: written by a newer"},
		{replaced(pin, tagKind, 1), "field 2 is unknown: written by a newer"},
	} {
		var name string
		if string(c.b[:8]) == stateMagic {
			name = exampleState().Name()
			_, err = DecodeState(name, remotetest.ExampleStore, resealed(c.b))
		} else {
			name = examplePin().Name()
			_, err = DecodePin(name, remotetest.ExampleStore, resealed(c.b))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
			continue
		}
		remotetest.MustBeDamage(t, name, err)
		if newer := errors.Is(err, base.ErrFormatTooNew); newer != strings.Contains(c.want, "newer") {
			t.Errorf("%v: newer format: %v", err, newer)
		}
	}
}
