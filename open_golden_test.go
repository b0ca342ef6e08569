package shale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the golden store")

// Golden stores hold a store of format version 1: tables in two levels and
// level 0, deletions, and writes that are in a log only. Every later version
// must read them. The first was written before there were sessions.
const (
	firstGoldenStore = "testdata/golden/v1"
	goldenStore      = "testdata/golden/v1-sessions"
)

// goldenContents is what the golden store holds.
func goldenContents() map[string]string {
	contents := map[string]string{"": "the empty key", "empty": "", "only in the log": "yes", "\xff\xff": "\x00"}
	for i := range 400 {
		contents[fmt.Sprintf("key%04d", i)] = goldenValue(i)
	}
	for i := 0; i < 400; i += 10 {
		delete(contents, fmt.Sprintf("key%04d", i))
	}
	return contents
}

func goldenValue(i int) string {
	if i%3 == 0 {
		return fmt.Sprint("written again ", i)
	}
	return strings.Repeat(fmt.Sprint(i, " "), 5)
}

func writeGoldenStore(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(goldenStore); err != nil {
		t.Fatal(err)
	}
	db, err := Open(goldenStore, &Options{MemtableSize: 4 << 10, TableSize: 4 << 10, BlockSize: 512, CompactionWorkers: -1,
		testing: testOptions{seed: 42, baseSize: 8 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		mustPut(t, db, fmt.Sprintf("key%04d", i), strings.Repeat(fmt.Sprint(i, " "), 5))
	}
	settle(t, db)
	for i := 0; i < 400; i += 3 {
		mustPut(t, db, fmt.Sprintf("key%04d", i), goldenValue(i))
	}
	settle(t, db)
	for i := 0; i < 400; i += 10 {
		mustDelete(t, db, fmt.Sprintf("key%04d", i))
	}
	for _, k := range []string{"", "empty", "\xff\xff"} {
		mustPut(t, db, k, goldenContents()[k])
	}
	mustFlush(t, db)
	mustPut(t, db, "only in the log", "yes")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(goldenStore, "LOCK")); err != nil {
		t.Fatal(err)
	}
}

// copyGoldenStore returns a copy to open.
func copyGoldenStore(t *testing.T) (dir string) { return copyStore(t, goldenStore) }

func copyStore(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkGolden(t *testing.T, db *DB) {
	t.Helper()
	want := goldenContents()
	n := 0
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := want[string(e.Key)]; !ok || v != string(e.Value) {
			t.Errorf("%q = %q, want %q (%v)", e.Key, e.Value, v, ok)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	for k, v := range want {
		wantGet(t, db, k, v, true)
	}
	wantGet(t, db, "key0010", "", false)
	if err := db.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

// The golden store opens for reading and for writing, and has all its entries, also after a compaction.
func TestGolden_Store(t *testing.T) {
	if *update {
		writeGoldenStore(t)
	}
	for i := range 4 {
		dir, readOnly := copyStore(t, []string{firstGoldenStore, goldenStore}[i/2]), i%2 == 0
		db, err := Open(dir, &Options{ReadOnly: readOnly, CompactionWorkers: -1}) // so that the levels stay as they are
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, db)
		if levels := levelsInUse(db); len(levels) < 2 || levels[0] != 0 {
			t.Errorf("the golden store has levels %v; want level 0 and another", levels)
		}
		if !readOnly {
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
			checkGolden(t, db)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Open refuses a file of the next format version with an error that names the file and the
// version, and changes nothing.
func TestGolden_NextVersion(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum := func(b []byte, parts ...[]byte) {
		crc := uint32(0)
		for _, p := range parts {
			crc = crc32.Update(crc, castagnoli, p)
		}
		binary.LittleEndian.PutUint32(b, crc)
	}
	newVersion := regexp.MustCompile(`(version|format) 2\b`)
	for pattern, bump := range map[string]func(b []byte) []byte{
		"CURRENT": func(b []byte) []byte {
			line := bytes.Replace(b[:bytes.LastIndexByte(b, ' ')], []byte("shale 1"), []byte("shale 2"), 1)
			return fmt.Appendf(nil, "%s %08x\n", line, crc32.Checksum(line, castagnoli))
		},
		"MANIFEST-*": func(b []byte) []byte { b[8]++; sum(b[32:], b[:32]); return b },
		"*.wal":      func(b []byte) []byte { b[8]++; sum(b[12:], b[:12]); return b },
		"*.sst": func(b []byte) []byte {
			f := b[len(b)-108:]
			f[96]++
			sum(f[92:], f[:92], f[96:])
			return b
		},
	} {
		dir := copyGoldenStore(t)
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], bump(b), 0o600); err != nil {
			t.Fatal(err)
		}
		before := dirContents(t, dir)
		for _, readOnly := range []bool{true, false} {
			_, err = Open(dir, &Options{ReadOnly: readOnly})
			if !errors.Is(err, ErrFormatTooNew) || !strings.Contains(fmt.Sprint(err), filepath.Base(files[0])) || !newVersion.MatchString(fmt.Sprint(err)) {
				t.Errorf("%s of the next version: Open = %v; want ErrFormatTooNew with name and version", filepath.Base(files[0]), err)
			}
		}
		after := dirContents(t, dir)
		delete(after, "LOCK")
		for name, content := range before {
			if after[name] != content {
				t.Errorf("%s of the next version: Open changed %s", pattern, name)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s of the next version: %d files before Open, %d after", pattern, len(before), len(after))
		}
	}
}

// A filter of an unknown kind, version or hash must not be asked. Lookups read blocks
// instead, and an event, the metrics and Tables report it.
func TestGolden_FilterOfTheNextVersion(t *testing.T) {
	for field, name := range []string{"kind", "version", "hash"} {
		dir := copyGoldenStore(t)
		files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			testenv.BumpFilter(b, field)
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var told atomic.Int64
		db, err := Open(dir, &Options{ReadOnly: true, OnEvent: func(e Event) {
			if e.Kind == EventFilterUnusable && len(e.Tables) == 1 && e.Err != nil && strings.Contains(e.Err.Error(), fmt.Sprintf("%06d.sst", e.Tables[0])) {
				told.Add(1)
			}
		}})
		if err != nil {
			t.Errorf("filters of the next %s: Open = %v", name, err)
			continue
		}
		for k, v := range goldenContents() {
			wantGet(t, db, k, v, true)
		}
		for i := range 400 {
			wantGet(t, db, fmt.Sprintf("key%04dx", i), "", false)
		}
		m := db.Metrics()
		if n := uint64(len(files)); told.Load() != int64(n) || m.UnusableFilters != n || m.FilterNegative != 0 || m.NoFilter == 0 || m.FilterMemory != 0 {
			t.Errorf("filters of the next %s: %d events, metrics %+v", name, told.Load(), m)
		}
		for _, info := range db.Inspect().Tables() {
			if info.FilterKind == "blocked" || info.FilterKind == "none" || info.FilterBytes != 0 || info.PredictedFPR != 1 {
				t.Errorf("filters of the next %s: %+v", name, info)
			}
		}
		var damage *CorruptionError
		if err := db.Verify(t.Context()); !errors.Is(err, ErrFormatTooNew) || errors.As(err, &damage) {
			t.Errorf("filters of the next %s: Verify = %v; want ErrFormatTooNew", name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func dirContents(t *testing.T, dir string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	for name := range strings.FieldsSeq(listDir(t, dir)) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = string(b)
	}
	return contents
}
