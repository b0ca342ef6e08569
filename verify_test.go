package shale

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Verify reads the logs that the store keeps, and reports damage with the name of the log.
func TestVerify_ReadsTheLogs(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, &Options{FS: mem})
	mustPut(t, db, "k", strings.Repeat("v", 1000))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	kept := db.logs.CurrentNum()
	db = openTest(t, &Options{FS: mem}) // the log that holds k is kept
	if err := db.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	log := base.LogName(kept)
	name := db.path(log)
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flip := func() {
		var b [1]byte
		if _, err := f.ReadAt(b[:], 4096+300); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], 4096+300); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	var damage *CorruptionError
	if err := db.Verify(context.Background()); !errors.As(err, &damage) || damage.File != log {
		t.Errorf("Verify = %v; want a CorruptionError that names the log", err)
	}
	flip()
}

// Verify returns at the first damaged log, and keeps none of the logs from being removed: after a
// flush they go.
func TestVerify_HoldsNoLogAfterDamage(t *testing.T) {
	mem := vfs.NewMem()
	opts := &Options{FS: mem, testing: testOptions{minPrepared: 1}}
	for range 3 {
		db := openTest(t, opts)
		mustPut(t, db, "k", strings.Repeat("v", 1000))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := openTest(t, opts)
	held := db.holdLogs()
	if len(held) < 2 {
		t.Fatalf("%d sealed logs, want some", len(held))
	}
	db.releaseLogs(held)
	editFile(t, mem, db.path(base.LogName(held[0].Num)), flipByte(4096+300))
	var damage *CorruptionError
	if err := db.Verify(context.Background()); !errors.As(err, &damage) {
		t.Fatalf("Verify = %v; want a CorruptionError", err)
	}
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	db.awaitDeletions(t.Context())
	_, kept := db.logs.Spare()
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			logs++
		}
	}
	if logs > kept+2 {
		t.Errorf("after the flush %d logs lie in the directory: one in use, one prepared, %d to be used again", logs, kept)
	}
}

// Verify compares what the manifest says of a table with its entries.
func TestVerify_Facts(t *testing.T) {
	db := openTest(t, byHand(vfs.NewMem()))
	for _, err := range []error{
		db.Put([]byte("a"), []byte("1")), db.Put([]byte("b"), []byte("2")), db.Delete([]byte("c")),
		db.PutTTL([]byte("d"), []byte("v"), time.Hour), db.PutTTL([]byte("e"), []byte("v"), 2*time.Hour), db.Flush(t.Context()),
		db.DeleteRange([]byte("b"), []byte("c")), db.Flush(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := db.mems.View().Runs[0].Tables[0].Meta
	if err := db.Verify(t.Context()); err != nil || meta.Entries != 5 {
		t.Fatalf("Verify = %v, with %d entries", err, meta.Entries)
	}
	for name, change := range map[string]func(){
		"entries":      func() { meta.Entries++ },
		"keys":         func() { meta.Keys-- },
		"tombstones":   func() { meta.Tombstones-- },
		"smallest":     func() { meta.Smallest = nil },
		"largest":      func() { meta.Largest = []byte("f") },
		"least number": func() { meta.MinSeq++ },
		"last number":  func() { meta.MaxSeq++ },
		"keys' bytes":  func() { meta.RawKeyBytes-- },
		"bytes":        func() { meta.RawValueBytes++ },
		"expiring":     func() { meta.Expiring-- },
		"first is over": func() {
			meta.Expiry[0]--
		},
		"all are over": func() { meta.Expiry[8]++ },
		"none expire":  func() { meta.Expiring, meta.Expiry = 0, nil },
		"clean":        func() { meta.Clean = db.mems.View().Meta.Spans.Last() },
	} {
		was := *meta
		expiry := *meta.Expiry
		change()
		var damage *CorruptionError
		if err := db.Verify(t.Context()); !errors.As(err, &damage) || damage.File != base.TableName(meta.Num) {
			t.Errorf("%s: Verify = %v, want damage of the table", name, err)
		}
		*meta = was
		*meta.Expiry = expiry
	}
}
