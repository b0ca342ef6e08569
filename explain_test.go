package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// places writes the steps as one line: "memtable no; L0 found".
func places(x Explanation) string {
	words := map[Verdict]string{OutOfRange: "out", FilterNegative: "no", FalsePositive: "false", NoFilter: "unfiltered",
		Found: "found", Tombstone: "deleted", Skipped: "skipped", Remembered: "remembered"}
	var s []string
	for _, step := range x.Steps {
		s = append(s, step.Place+" "+words[step.Verdict])
	}
	return strings.Join(s, "; ")
}

// The steps have the order in which Get looks, from the newest place to the oldest, each with its
// verdict.
func TestExplain_Verdicts(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for _, k := range []string{"b", "d", "f"} {
		mustPut(t, db, k, "oldest")
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "a", "1")
	mustPut(t, db, "d", "newer")
	mustFlush(t, db)
	mustDelete(t, db, "b")
	mustPut(t, db, "c", "1")
	mustFlush(t, db)
	mustPut(t, db, "f", "newest")
	mustDelete(t, db, "a")
	for _, c := range []struct{ key, want string }{
		{"f", "memtable found; L0 skipped; L0 skipped; L6 skipped"},
		{"a", "memtable deleted; L0 skipped; L0 skipped; L6 skipped"},
		{"b", "memtable no; L0 deleted; L0 skipped; L6 skipped"},
		{"c", "memtable no; L0 found; L0 skipped; L6 skipped"},
		{"d", "memtable no; L0 out; L0 found; L6 skipped"},
		{"e", "memtable no; L0 out; L0 out; L6 no"},
		{"bb", "memtable no; L0 no; L0 no; L6 no"},
		{"z", "memtable no; L0 out; L0 out; L6 out"},
	} {
		x := mustExplain(t, db, c.key)
		if got := places(x); got != c.want {
			t.Errorf("Explain(%q): %s, want %s", c.key, got, c.want)
		}
		for _, step := range x.Steps { // each run has one table here, which has a name even where it was not asked
			if where, _, _ := step.Words(); step.Level >= 0 && (step.Only == 0 || where != fmt.Sprintf("%s #%06d", step.Place, step.Only)) {
				t.Errorf("Explain(%q) names a run %s, and its table is %d", c.key, where, step.Only)
			}
		}
		for _, step := range x.Steps { // each run has one table here, which has a name even where it was not asked
			if where, _, _ := step.Words(); step.Level >= 0 && (step.Only == 0 || where != fmt.Sprintf("%s #%06d", step.Place, step.Only)) {
				t.Errorf("Explain(%q) names a run %s, and its table is %d", c.key, where, step.Only)
			}
		}
		checkAgreement(t, db, x)
	}
}

// checkAgreement checks that an explanation has the answer of Get, that its steps fit each other and
// the tables, and that it prints all of them.
func checkAgreement(t *testing.T, db *DB, x Explanation) {
	t.Helper()
	value, err := db.Get(x.Key)
	if x.Found != (err == nil) || !bytes.Equal(x.Value, value) || x.Found != (x.Value != nil) {
		t.Errorf("Explain(%q) = %q, %v; Get = %q, %v", x.Key, x.Value, x.Found, value, err)
	}
	tables := make(map[uint64]TableInfo)
	for _, info := range db.Inspect().Tables() {
		tables[info.Number] = info
	}
	answers := 0
	for _, step := range x.Steps {
		info, isTable := tables[step.Table]
		if isTable && (info.Level != step.Level || info.Run != step.Run) {
			t.Errorf("Explain(%q): step %+v, table %+v", x.Key, step, info)
		}
		switch step.Verdict {
		case Found, Tombstone:
			answers++
			if answers > 1 || step.Table != 0 && len(step.Blocks) == 0 {
				t.Errorf("Explain(%q): answer %d is %+v", x.Key, answers, step)
			}
		case FalsePositive, NoFilter:
			if isTable && len(step.Blocks) == 0 {
				t.Errorf("Explain(%q): no block in %+v", x.Key, step)
			}
		default:
			if len(step.Blocks) != 0 || step.Verdict == FilterNegative && step.Level >= 0 && !isTable {
				t.Errorf("Explain(%q): blocks in %+v", x.Key, step)
			}
		}
		if answers > 0 != (step.Verdict == Found || step.Verdict == Tombstone || step.Verdict == Skipped) {
			t.Errorf("Explain(%q): %+v after %d answers", x.Key, step, answers)
		}
		for _, b := range step.Blocks {
			if b.Kind != "data block" || b.Offset < 0 || b.Bytes <= 0 || b.Offset+b.Bytes > info.Size {
				t.Errorf("Explain(%q): block %+v of table %+v", x.Key, b, info)
			}
		}
	}
	blocks, size := x.BlocksRead()
	if s := x.String(); strings.Count(s, "\n") != len(x.Steps)+3 || !strings.Contains(s, fmt.Sprintf("%s from disk, %s;", plural(blocks, "block"), base.FormatBytes(size))) {
		t.Errorf("Explain(%q) prints\n%s", x.Key, s)
	}
}

// Explain reports a false positive, until a lookup has met it: then the store remembers that the table
// lacks the key, and Explain says so. Explain itself counts no lookup and remembers nothing.
func TestExplain_FalsePositive(t *testing.T) {
	opts := small()
	opts.FilterBits, opts.CacheSize = 5, 1<<20
	db := openTest(t, opts)
	fill(t, db, 5000, 0)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	before := db.Metrics()
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprintf("key%06dx", i); db.MayContain([]byte(k)) {
			key = k
		}
	}
	for i, cached := range []bool{false, true} {
		x := mustExplain(t, db, key)
		last := x.Steps[len(x.Steps)-1]
		if x.Found || last.Verdict != FalsePositive || len(last.Blocks) != 1 || last.Blocks[0].Cached != cached || x.ExpectedFalsePositives <= 0 {
			t.Errorf("Explain %d: %+v", i, x)
		}
		if n, bytes := x.BlocksRead(); (n == 0) != cached || (bytes == 0) != cached {
			t.Errorf("Explain %d: %d blocks, %d bytes from disk", i, n, bytes)
		}
	}
	d := db.Metrics().Sub(before)
	if d.CacheHits+d.CacheMisses != 2 {
		t.Errorf("Explain: %d hits and %d misses of the cache, want 1 and 1", d.CacheHits, d.CacheMisses)
	}
	if d.Gets+d.FilterNegative+d.FilterFalsePositive+d.FalsePositivesRemembered != 0 {
		t.Errorf("Explain counted lookups: %+v", d)
	}
	wantHas(t, db, key, false)
	x := mustExplain(t, db, key)
	if last := x.Steps[len(x.Steps)-1]; last.Verdict != Remembered || len(last.Blocks) != 0 || x.MeasuredFPR <= 0 {
		t.Errorf("Explain after a lookup: %+v, measured %v", last, x.MeasuredFPR)
	}
	if s := x.String(); !strings.Contains(s, "maybe (remembered)") || !strings.Contains(s, "1 false positive") {
		t.Errorf("printed:\n%s", s)
	}
}

// Explain of a key in a damaged block returns the damage, and the steps up to there.
func TestExplain_DamagedBlock(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, &Options{FS: mem, CacheSize: -1, Compression: NoCompression, OnEvent: func(Event) {}})
	mustPut(t, db, "a", "1")
	mustFlush(t, db)
	wantGet(t, db, "a", "1", true)
	name := fileNamed(t, mem, ".sst")
	editFile(t, mem, name, flipByte(20))
	x, err := db.Inspect().Explain([]byte("a"))
	var damage *CorruptionError
	if !errors.As(err, &damage) || len(x.Steps) != 2 {
		t.Errorf("Explain: %v, %s", err, places(x))
	}
	editFile(t, mem, name, flipByte(20)) // mended, because openTest verifies the store at the end
}
