package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

var update = flag.Bool("update", false, "rewrite golden files")

const dir = "/db"

func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := errors.Join(m.MkdirAll(dir), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return m
}

func mustNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func table(num base.FileNum, lo, hi string) *Table {
	return &Table{
		Num: num, Size: 1000 + int64(num), Checksum: uint32(num) * 7, Smallest: []byte(lo), Largest: []byte(hi), MinSeq: base.Seq(num),
		MaxSeq: base.Seq(num), Entries: 10, Tombstones: 1, Keys: 9, RawKeyBytes: 90, RawValueBytes: 900, FilterBytes: 64, FilterBits: 24,
	}
}

// life is the edits of a short life: rotation of the log, flush, compaction.
func life() []*Edit {
	return []*Edit{
		{NewLog: 2},
		{NewLog: 3, SealedLog: &SealedLog{Num: 2, Length: 500, LastSeq: 4}},
		{MinLog: 3, LastSeq: 4, Added: []Added{{Run: 4, Table: table(4, "a", "m")}}},
		{NewLog: 5, SealedLog: &SealedLog{Num: 3, Length: 600, LastSeq: 6}},
		{MinLog: 5, LastSeq: 6, Added: []Added{{Run: 6, Table: table(6, "b", "z")}}},
		{Removed: []Removed{{Level: 0, Num: 4}, {Level: 0, Num: 6}}, Added: []Added{{Level: 6, Table: table(7, "a", "f")}, {Level: 6, Table: table(8, "g", "z")}}},
		{NextFileNum: 20},
	}
}

// states are the states after 0, 1, … edits of life.
func states(t testing.TB) []*State {
	t.Helper()
	s := &State{Version: &Version{}, StoreID: 0x1122334455667788, NextFileNum: 2, MinLog: 1}
	all := []*State{s}
	for _, e := range life() {
		v, err := s.Version.Apply(e)
		mustNil(t, err)
		s, err = s.Apply(e, v)
		mustNil(t, err)
		all = append(all, s)
	}
	return all
}

// describe returns all of a state but the manifest that it was loaded from.
func describe(s *State) string {
	return fmt.Sprintf("store %x next %d seq %d min-log %d logs %v\n%s", s.StoreID, s.NextFileNum, s.LastSeq, s.MinLog, s.Logs, s.Version.Describe())
}

// writeLife makes a store with all edits of life, synced one by one.
func writeLife(t testing.TB, fsys vfs.FS, finish bool) {
	t.Helper()
	l, err := Create(fsys, dir, 1, states(t)[0])
	mustNil(t, err)
	for _, e := range life() {
		mustNil(t, l.Append(e, true))
	}
	if finish {
		mustNil(t, l.Finish())
	}
	mustNil(t, l.Close())
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(filepath.Join(dir, name))
	mustNil(t, err)
	defer f.Close()
	size, err := f.Size()
	mustNil(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

func putFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	mustNil(t, durable.Write(fsys, filepath.Join(dir, name), b))
}

func TestLoad_EveryState(t *testing.T) {
	m := newMem(t)
	want := states(t)
	l, err := Create(m, dir, 1, want[0])
	mustNil(t, err)
	for i := range want {
		if i > 0 {
			mustNil(t, l.Append(life()[i-1], i%2 == 0))
		}
		s, err := Load(m, dir)
		mustNil(t, err)
		if got, want := describe(s), describe(want[i]); got != want {
			t.Errorf("after %d edits: loaded\n%s, want\n%s", i, got, want)
		}
		if s.ManifestNum != 1 || s.torn || s.Length != l.Size() {
			t.Errorf("after %d edits: manifest %d, torn %v, length %d; want 1, false, %d", i, s.ManifestNum, s.torn, s.Length, l.Size())
		}
		// A snapshot leads to the same state.
		snap, err := Create(m, dir, 30, s)
		mustNil(t, err)
		again, err := Load(m, dir)
		mustNil(t, err)
		s.NextFileNum = 31
		if got, want := describe(again), describe(s); got != want {
			t.Errorf("after %d edits: loaded from a snapshot\n%s, want\n%s", i, got, want)
		}
		mustNil(t, snap.Close())
		_, err = writeCurrent(m, dir, current{manifest: 1, durable: l.Size()})
		mustNil(t, err)
	}
	mustNil(t, l.Close())
	if n := m.OpenFiles(); n != 0 {
		t.Errorf("%d files are open at the end", n)
	}
}

func TestLoad_ManyTables(t *testing.T) {
	m := newMem(t)
	s := &State{Version: &Version{}, NextFileNum: 1}
	var e Edit
	for i := range 3*tablesAnEdit + 5 {
		key := fmt.Sprintf("%06d", i)
		e.Added = append(e.Added, Added{Level: 6, Table: table(base.FileNum(i+1), key, key+"x")})
	}
	v, err := s.Version.Apply(&e)
	mustNil(t, err)
	s, err = s.Apply(&e, v)
	mustNil(t, err)
	l, err := Create(m, dir, 9000, s)
	mustNil(t, err)
	mustNil(t, l.Close())
	got, err := Load(m, dir)
	mustNil(t, err)
	s.NextFileNum = 9001
	if describe(got) != describe(s) {
		t.Error("a snapshot of several records reads differently")
	}
	records := 0
	sum, err := ReadEdits(m, dir, 9000, func(int64, *Edit) error { records++; return nil })
	if want := 5; err != nil || records != want || sum.records != want || sum.Length != l.Size() {
		t.Errorf("ReadEdits: %d records, %+v, %v; want %d records, %d bytes", records, sum, err, want, l.Size())
	}
}

func TestLoad_NoStore(t *testing.T) {
	m := newMem(t)
	if _, err := Load(m, "/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of a missing directory: %v, want ErrNotExist", err)
	}
	putFile(t, m, "notes.txt", nil)
	putFile(t, m, "MANIFEST-000001", nil) // left by a first Create that was cut short
	if _, err := Load(m, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load without CURRENT: %v, want ErrNotExist", err)
	}
	for _, name := range []string{"000007.sst", "000007.wal"} {
		putFile(t, m, name, nil)
		if _, err := Load(m, dir); !errorIsCorruption(err, "CURRENT") || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Load without CURRENT beside %s: %v, want a CorruptionError that is no ErrNotExist", name, err)
		}
		mustNil(t, m.Remove(filepath.Join(dir, name)))
	}
}

func TestLoad_ManifestMissing(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	mustNil(t, m.Remove(filepath.Join(dir, "MANIFEST-000001")))
	_, err := Load(m, dir)
	if !errorIsCorruption(err, "MANIFEST-000001") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v, want a CorruptionError that is no ErrNotExist: the store would be made anew", err)
	}
}

// TestLoad_BesideAWriter lets the writer begin a new manifest, and delete the old one, after
// the reader has read CURRENT and before it opens the manifest.
func TestLoad_BesideAWriter(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	rolled := false
	reader := faultfs.New(m, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpOpen && strings.HasSuffix(name, "MANIFEST-000001") && !rolled {
			rolled = true
			l, err := Create(m, dir, 50, states(t)[7])
			mustNil(t, err)
			mustNil(t, l.Close())
			mustNil(t, m.Remove(name))
		}
		return nil
	})
	s, err := Load(reader, dir)
	mustNil(t, err)
	if !rolled || s.ManifestNum != 50 {
		t.Errorf("Load read manifest %d (replaced: %v), want 50", s.ManifestNum, rolled)
	}
}

func TestAppend_RefusesWhatLoadWouldRefuse(t *testing.T) {
	m := newMem(t)
	l, err := Create(m, dir, 1, states(t)[0])
	mustNil(t, err)
	size := l.Size()
	for _, e := range []*Edit{
		{Added: []Added{{Level: 7, Table: table(1, "a", "b")}}},
		{Added: []Added{{Level: 1, Table: table(1, "b", "a")}}},
		{Removed: []Removed{{Level: -1, Num: 1}}},
		{SealedLog: &SealedLog{Num: 2}},
		{NewLog: 2, SealedLog: &SealedLog{Num: 2, Length: -1}},
		{LastSeq: base.MaxSeq + 1},
	} {
		if err := l.Append(e, true); err == nil {
			t.Errorf("Append(%s) succeeded", e)
		}
	}
	if l.Size() != size {
		t.Errorf("size %d after refused edits, was %d", l.Size(), size)
	}
	mustNil(t, l.Append(&Edit{}, true))
	for _, e := range life() {
		mustNil(t, l.Append(e, false))
	}
	mustNil(t, l.Close())
	if err := l.Append(&Edit{NewLog: 99}, true); err == nil {
		t.Error("Append after Close succeeded")
	}
	s, err := Load(m, dir)
	mustNil(t, err)
	if got, want := describe(s), describe(states(t)[7]); got != want {
		t.Errorf("loaded\n%s, want\n%s", got, want)
	}
	bad := states(t)[7]
	bad.Version = mustParse(t, "L1: 000001:[b-a]")
	if _, err := Create(m, dir, 60, bad); err == nil {
		t.Error("Create of an impossible version succeeded")
	}
}

// golden compares b with a file in testdata.
func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		mustNil(t, os.WriteFile(path, b, 0o644))
	}
	want, err := os.ReadFile(path)
	mustNil(t, err)
	if !bytes.Equal(b, want) {
		t.Errorf("%s differs: the format changed without its version. got\n%s", name, hex.Dump(b))
	}
}

func TestManifest_GoldenFiles(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, true)
	golden(t, "manifest-v1", readFile(t, m, "MANIFEST-000001"))
	golden(t, "current-v1", readFile(t, m, "CURRENT"))
}

// sidecarLife goes on from life: tables get sidecars, one sidecar is replaced, and a table
// moves with its sidecar.
func sidecarLife() []*Edit {
	moved := table(8, "g", "z")
	moved.Sidecar = sidecar(22)
	return append(life(),
		&Edit{Sidecars: []SidecarChange{{Level: 6, Num: 7, Sidecar: sidecar(20)}, {Level: 6, Num: 8, Sidecar: sidecar(21)}}},
		&Edit{Sidecars: []SidecarChange{{Level: 6, Num: 8, Sidecar: sidecar(22)}}},
		&Edit{Removed: []Removed{{Level: 6, Num: 8}}, Added: []Added{{Level: 5, Table: moved}}})
}

func sidecar(num base.FileNum) *Sidecar {
	return &Sidecar{Num: num, Size: 229, Checksum: uint32(num) * 11, FilterBytes: 160, FilterBits: 12.5}
}

// TestManifest_Sidecars checks that sidecars are the same after loading as after each edit,
// and that the snapshot has them with which the next manifest begins.
func TestManifest_Sidecars(t *testing.T) {
	m := newMem(t)
	s := &State{Version: &Version{}, StoreID: 0x1122334455667788, NextFileNum: 2, MinLog: 1}
	l, err := Create(m, dir, 1, s)
	mustNil(t, err)
	for _, e := range sidecarLife() {
		v, err := s.Version.Apply(e)
		mustNil(t, err)
		s, err = s.Apply(e, v)
		mustNil(t, err)
		mustNil(t, l.Append(e, true))
		got, err := Load(m, dir)
		mustNil(t, err)
		if describe(got) != describe(s) {
			t.Fatalf("after\n%s loaded\n%s, want\n%s", e, describe(got), describe(s))
		}
	}
	mustNil(t, errors.Join(l.Finish(), l.Close()))
	golden(t, "manifest-v1-sidecars", readFile(t, m, "MANIFEST-000001"))
	if s.NextFileNum != 23 {
		t.Errorf("the next file number is %d, a sidecar has 22", s.NextFileNum)
	}
	l, err = Create(m, dir, 30, s)
	mustNil(t, errors.Join(err, l.Close()))
	got, err := Load(m, dir)
	mustNil(t, err)
	if got.Version.Describe() != s.Version.Describe() {
		t.Errorf("a snapshot has\n%s, want\n%s", got.Version.Describe(), s.Version.Describe())
	}
}

// TestEdit_Rebase moves a table that has got a sidecar after the move was planned. The
// sidecar moves with it.
func TestEdit_Rebase(t *testing.T) {
	planned := mustParse(t, "L0.9: 000009:[a-z]\nL1: 000001:[a-c] 000002:[d-f]")
	move := &Edit{Removed: []Removed{{Level: 1, Num: 2}}, Added: []Added{{Level: 3, Table: planned.Levels[1].Runs[0].Tables[1]}, {Level: 1, Table: table(11, "x", "z")}}}
	v, err := planned.Apply(&Edit{Sidecars: []SidecarChange{{Level: 1, Num: 2, Sidecar: sidecar(20)}, {Level: 0, Num: 9, Sidecar: sidecar(21)}}})
	mustNil(t, err)
	move.Rebase(v)
	v, err = v.Apply(move)
	mustNil(t, err)
	want := "L0.9: 000009:[a-z]{size=100,seq=9-9,entries=10,del=0,keys=10,filter=0,sidecar=000021/229/160/12.5}\n" +
		"L1: 000001:[a-c]{size=100,seq=0-0,entries=10,del=0,keys=10,filter=0} 000011:[x-z]{size=1011,seq=11-11,entries=10,del=1,keys=9,filter=24}\n" +
		"L3: 000002:[d-f]{size=100,seq=0-0,entries=10,del=0,keys=10,filter=0,sidecar=000020/229/160/12.5}\n"
	if got := v.Describe(); got != want {
		t.Errorf("the version is\n%s, want\n%s", got, want)
	}
}

// workedExample is the manifest of the package comment and docs/FORMAT.md.
const workedExample = `
	73 68 61 6c 65 4d 41 4e  01 00 00 00  00 00 00 00
	88 77 66 55 44 33 22 11  01 00 00 00 00 00 00 00
	82 08 87 f0
	03 00 00 00  b5 02 30 fa  96 74 2b b5
	02 01 02`

const workedCurrent = "shale 1 MANIFEST-000001 51 3cdb247a\n"

func TestManifest_WorkedExample(t *testing.T) {
	m := newMem(t)
	l, err := Create(m, dir, 1, &State{StoreID: 0x1122334455667788})
	mustNil(t, err)
	mustNil(t, l.Close())
	if got, want := readFile(t, m, "MANIFEST-000001"), unhex(t, workedExample); !bytes.Equal(got, want) {
		t.Errorf("manifest\n%s, documented\n%s", hex.Dump(got), hex.Dump(want))
	}
	if got := string(readFile(t, m, "CURRENT")); got != workedCurrent {
		t.Errorf("CURRENT %q, documented %q", got, workedCurrent)
	}
	for _, doc := range []string{"doc.go", "../docs/FORMAT.md"} {
		text, err := os.ReadFile(doc)
		mustNil(t, err)
		for line := range strings.Lines(strings.TrimSpace(workedExample)) {
			if !strings.Contains(string(text), strings.TrimSpace(line)) {
				t.Errorf("%s lacks the line %q of the worked example", doc, strings.TrimSpace(line))
			}
		}
	}
}

func TestManifest_NewerVersion(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, true)
	good := readFile(t, m, "MANIFEST-000001")
	newer := appendHeader(nil, 1, 1)
	newer[8] = FormatVersion + 1
	sum := appendCRC(newer[:32])
	putFile(t, m, "MANIFEST-000001", append(sum, good[headerSize:]...))
	if _, err := Load(m, dir); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("Load of manifest version 2: %v, want ErrFormatTooNew", err)
	}
	putFile(t, m, "MANIFEST-000001", good)
	putFile(t, m, "CURRENT", sumLine("shale 2 something new"))
	if _, err := Load(m, dir); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("Load of CURRENT version 2: %v, want ErrFormatTooNew", err)
	}
	// An edit with a field that only a newer program knows.
	l, err := Create(m, dir, 40, states(t)[7])
	mustNil(t, err)
	mustNil(t, writeAll(l.file, l.chain.appendRecord(nil, []byte{30, 1, 0})))
	mustNil(t, l.Close())
	if _, err := Load(m, dir); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("Load of an edit with a new required field: %v, want ErrFormatTooNew", err)
	}
}
