package harness

import (
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// put returns a write of one key, which is its marker too.
func put(key, value string, own shale.Durability) Write {
	return Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: []byte(key), Value: []byte(value)}}, Own: true, Durability: own, Marker: key}
}

// state returns the state that "a=1 b=2" stands for.
func state(text string) State {
	var entries []Entry
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		entries = append(entries, Entry{key, value})
	}
	return StateOf(entries)
}

// wantFound checks which states the claim explains.
func wantFound(t *testing.T, what string, c Claim, right, wrong []string) {
	t.Helper()
	for _, s := range right {
		if _, err := c.Check(state(s)); err != nil {
			t.Errorf("%s: %q is not explained: %v", what, s, err)
		}
	}
	for _, s := range wrong {
		if n, err := c.Check(state(s)); err == nil {
			t.Errorf("%s: %q is explained by %d commits", what, s, n)
		}
	}
}

// A claim explains the states that a crash may leave, and no others.
func TestClaim_Check(t *testing.T) {
	m := &Model{Durability: shale.SyncManual}
	do := func(w Write) {
		m.begin()
		_ = m.Write(w)
		m.Acknowledge()
	}
	wantFound(t, "an empty store", m.Claim(), []string{""}, []string{"a=1"})
	do(put("a", "1", shale.SyncEach))
	do(put("b", "1", shale.SyncManual))
	do(put("a", "2", shale.SyncManual))
	wantFound(t, "one synced, two not", m.Claim(), []string{"a=1", "a=1 b=1", "a=2 b=1"}, []string{"", "a=2", "b=1", "a=2 b=1 c=1"})
	wantFound(t, "the death of the process", m.Claim().AllSafe(), []string{"a=2 b=1"}, []string{"a=1", "a=1 b=1"})

	before := m.Claim()
	m.begin()
	_ = m.Write(put("c", "1", shale.SyncEach))
	under := before.Between(m.Claim())
	wantFound(t, "a synced write under way", under, []string{"a=1", "a=2 b=1", "a=2 b=1 c=1"}, []string{"a=1 c=1", "a=1 b=1 c=1"})
	m.Acknowledge()
	wantFound(t, "all synced", m.Claim(), []string{"a=2 b=1 c=1"}, []string{"a=2 b=1"})

	m.begin()
	_ = m.Write(put("d", "1", shale.SyncManual))
	if marker := m.Failed(0); marker != "d" {
		t.Errorf("the marker of the write that failed is %q", marker)
	}
	if _, there := m.Now().Get("d"); there {
		t.Error("readers see a write that failed")
	}
	do(put("e", "1", shale.SyncEach))
	wantFound(t, "a write that failed", m.Claim(), []string{"a=2 b=1 c=1 e=1", "a=2 b=1 c=1 d=1 e=1"}, []string{"a=2 b=1 c=1", "a=2 b=1 c=1 d=1"})
	m.Seen("d")
	if _, there := m.Now().Get("d"); !there {
		t.Error("readers do not see a write whose sync alone failed")
	}
	m.Undo()
	wantFound(t, "resumed", m.Claim(), []string{"a=2 b=1 c=1 d=1 e=1"}, []string{"a=2 b=1 c=1 e=1"})

	if err := m.Found(m.Claim(), state("a=2")); err == nil {
		t.Error("a state is found that the claim does not have")
	}
	old := m.Claim()
	if err := m.Found(m.Claim(), m.Now()); err != nil {
		t.Error(err)
	}
	do(put("f", "1", shale.SyncManual))
	wantFound(t, "a crash around an opening", old.Between(m.Claim()), []string{"a=2 b=1 c=1 d=1 e=1", "a=2 b=1 c=1 d=1 e=1 f=1"}, []string{"a=2"})
}

// An ingestion of nothing makes nothing durable; one of something makes all durable.
func TestModel_Ingest(t *testing.T) {
	m := &Model{Durability: shale.SyncManual}
	m.begin()
	_ = m.Write(put("a", "1", shale.SyncManual))
	m.Acknowledge()
	m.begin()
	if err := errors.Join(m.Ingest(nil), m.Ingest([]Entry{{"b", "1"}, {"a", "1"}})); !errors.Is(err, errRefused) {
		t.Errorf("an ingestion out of order: %v", err)
	}
	m.Acknowledge()
	wantFound(t, "nothing ingested", m.Claim(), []string{"", "a=1"}, []string{"b=1"})
	m.begin()
	_ = m.Ingest([]Entry{{"b", "1"}})
	m.Acknowledge()
	wantFound(t, "ingested", m.Claim(), []string{"a=1 b=1"}, []string{"", "a=1"})
}

// A Model moves an iterator as a store does; what a store does at its ends has tests in package shale.
func TestModel_Iterator(t *testing.T) {
	it := NewModelAt(state("a=1 b=2 d=3"), 0).Iterator(shale.Range{Upper: []byte("d")})
	var got strings.Builder
	move(&got, it, []string{"First", "Next", "Next", "Prev", "SeekGE", "SeekLT", "Prev", "Next", "Last"}, []string{"", "", "", "", "c", "b", "", "", ""})
	want := `First "": true "a"="1"; Next "": true "b"="2"; Next "": no false ok; Prev "": true "b"="2"; SeekGE "c": no false ok; ` +
		`SeekLT "b": true "a"="1"; Prev "": no false ok; Next "": true "a"="1"; Last "": true "b"="2"; `
	if got.String() != want {
		t.Errorf("moved as\n%s, want\n%s", got.String(), want)
	}
}
