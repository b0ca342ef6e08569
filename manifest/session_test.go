package manifest

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// The example of docs/FORMAT.md. Sessions are fields that earlier programs skip.
func TestSession_GoldenBytes(t *testing.T) {
	e := &Edit{Sessions: []Session{{ID: 0x0123456789abcdef, From: 41, Log: 7}, {ID: math.MaxUint64, From: base.MaxSeq, Log: math.MaxUint64}}}
	b := e.appendTo(nil)
	want := unhex(t, "11 0a efcdab8967452301 29 07"+"11 1a ffffffffffffffff ffffffffffffff7f ffffffffffffffffff01")
	if !bytes.Equal(b, want) {
		t.Errorf("%x, want %x", b, want)
	}
	if got, err := decodeEdit(b); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("decoded %s, %v, want %s", got, err, e)
	}
	if tagSession%2 != 1 {
		t.Error("earlier programs refuse a manifest with sessions")
	}
	for _, bad := range []string{"11 0a 0000000000000000 29 07", "11 09 efcdab8967452301 29", "11 0b efcdab8967452301 29 07 00",
		"11 11 efcdab8967452301 8080808080808080 01"} {
		if _, err := decodeEdit(unhex(t, bad)); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

// A manifest has the sessions of its snapshot after each edit, MaxSessions at most, and so has the next one. What they
// cost is bounded.
func TestSession_InManifests(t *testing.T) {
	m := newMem(t)
	s := &State{Version: new(Version), StoreID: 7, NextFileNum: 1, LastSeq: 1}
	var all []Session
	for i := range uint64(MaxSessions + 20) {
		before := s
		s = &State{}
		*s = *before
		s.LastSeq += 1000
		s.BeginSession(i+1, s.NextFileNum)
		all = append(all, Session{i + 1, s.LastSeq, s.NextFileNum})
		if len(before.Sessions) > 0 && before.Session() != i {
			t.Fatalf("session %d has changed the state before it", i+1)
		}
		l, err := Create(m, dir, s.NextFileNum, s)
		mustNil(t, err)
		size := l.Size()
		mustNil(t, l.Append(&Edit{NextFileNum: s.NextFileNum + 2, LastSeq: s.LastSeq + 1}, true))
		mustNil(t, l.Close())
		s, err = Load(m, dir)
		mustNil(t, err)
		if want := all[max(0, len(all)-MaxSessions):]; !reflect.DeepEqual(s.Sessions, want) {
			t.Fatalf("sessions are %v, want %v", s.Sessions, want)
		}
		if size > 100+MaxSessions*16 {
			t.Fatalf("with %d sessions, a snapshot has %d bytes", len(s.Sessions), size)
		}
	}
	t.Logf("%d sessions, manifest of %d bytes", len(s.Sessions), s.Length)
}

// Of which session a log is, and which states come after which.
func TestSession_Order(t *testing.T) {
	list := func(s ...Session) *State { return &State{Sessions: s} }
	a, b, c := Session{1, 0, 1}, Session{2, 100, 7}, Session{3, 150, 20}
	state := list(a, b, c)
	for log, want := range map[base.FileNum]uint64{0: 0, 1: 1, 6: 1, 7: 2, 19: 2, 20: 3, 1000: 3} {
		if got := state.SessionOf(log); got != want {
			t.Errorf("log %d is of session %d, want %d", log, got, want)
		}
	}
	if got := list().SessionOf(5); got != 0 {
		t.Errorf("without sessions, a log is of session %d", got)
	}
	for _, tt := range []struct {
		name   string
		was, s *State
		seen   base.Seq
		want   bool
	}{
		{"the same session", list(a), list(a), 1000, true},
		{"the next session", list(a), list(a, b), 100, true},
		{"the next session, which lacks a number", list(a), list(a, b), 101, false},
		{"two sessions later", list(a), list(a, b, c), 100, true},
		{"two sessions later, of which the first lacks numbers", list(a), list(a, b, c), 150, false},
		{"the session before", list(a, b), list(a), 100, false},
		{"another session after the same", list(a, b), list(a, c), 100, false},
		{"another session in the place of the first", list(a), list(c), 0, false},
		{"the first sessions are forgotten", list(a, b), list(b, c), 150, true},
		{"too long ago", list(a), list(b, c), 10, false},
		{"an earlier program after sessions", list(a), list(), 0, false},
		{"two states of earlier programs", list(), list(), 10, true},
		{"the first session after an earlier program", list(), list(b, c), 100, true},
		{"the first session after an earlier program lacks a number", list(), list(b, c), 101, false},
	} {
		if got := tt.s.Extends(tt.was, tt.seen); got != tt.want {
			t.Errorf("%s: Extends = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A manifest that has the number, the store id and the length of the one that was followed, but is another, is
// loaded from its beginning; and so is one that has grown since, and one that is shorter.
func TestFollow_AnotherManifestLikeIt(t *testing.T) {
	for _, grow := range []int{0, 1, -1} {
		m := newMem(t)
		write := func(session uint64, edits int) *State {
			s := &State{Version: new(Version), StoreID: 7, NextFileNum: 1}
			s.BeginSession(session, 1)
			l, err := Create(m, dir, 1, s)
			mustNil(t, err)
			for i := range edits {
				mustNil(t, l.Append(&Edit{NextFileNum: base.FileNum(i + 3), LastSeq: 5}, true))
			}
			mustNil(t, l.Close())
			got, err := Load(m, dir)
			mustNil(t, err)
			return got
		}
		was := write(1, 2)
		want := write(2, 2+grow)
		if (was.Length == want.Length) != (grow == 0) {
			t.Fatalf("the manifests have %d and %d bytes", was.Length, want.Length)
		}
		got, err := Follow(m, dir, was)
		if err != nil || got.Session() != 2 || describe(got) != describe(want) {
			t.Errorf("with %d edits more: %v, %v", grow, got, err)
		}
	}
}
