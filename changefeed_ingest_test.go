package shale

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// What an ingestion is shown with is durable too: its range may have newer writes by then that are not.
func TestChanges_IngestionIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	o.Durability = SyncManual
	db := mustOpen(t, "db", o)
	if err := db.Ingest(t.Context(), sortedKeys(0, 2, "i")); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k000001", "newer")
	wantChanges(t, db, 0, 1, "1-1 ingested put k000000=i put k000001=newer")
	crashed := *o
	crashed.FS = mem.Crash(vfs.CrashConfig{})
	wantGet(t, mustOpen(t, "db", &crashed), "k000001", "newer", true)
}

// A large ingestion comes in pieces. Only the last has its number, so whoever stops in between gets all of it again.
func TestChanges_IngestionInPieces(t *testing.T) {
	db := openTest(t, feedOptions(nil))
	mustPut(t, db, "a", "1")
	const keys = 3000
	if err := db.Ingest(t.Context(), sortedKeys(0, keys, strings.Repeat("v", 1000))); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "b", "1")
	var ops, pieces int
	for c, err := range db.Changes(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if !c.Ingested() {
			if c.Seq != 3 {
				t.Errorf("number %d comes after the ingestion", c.Seq)
			}
			break
		}
		pieces++
		for op := range c.Ops() {
			if want := fmt.Sprintf("k%06d", ops); string(op.Key) != want {
				t.Fatalf("key %q, want %q", op.Key, want)
			}
			ops++
		}
		if want := uint64(1); c.Seq != 2 || ops < keys && c.Last != want || ops == keys && c.Last != 2 {
			t.Errorf("piece %d is %d-%d", pieces, c.Seq, c.Last)
		}
	}
	if ops != keys || pieces < 3 {
		t.Errorf("%d keys in %d pieces", ops, pieces)
	}
}

// A crash may come when the manifest has the tables of an ingestion, and the log does not have its mark. The feed does
// not pass over it.
func TestChanges_MarkMissing(t *testing.T) {
	fault := errors.New("injected")
	for _, how := range []string{"crash", "resume"} {
		mem := vfs.NewMem()
		disk := faultfs.New(mem, nil)
		o := feedOptions(disk)
		db := mustOpen(t, "db", o)
		mustPut(t, db, "a", "1")
		mustFlush(t, db)
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf((op == vfs.OpWrite || op == vfs.OpSync) && strings.HasSuffix(name, ".wal"), fault)
		})
		if err := db.Ingest(t.Context(), sortedKeys(0, 2, "i")); err != nil {
			t.Fatal(err)
		}
		if db.Err() == nil {
			t.Fatal("the mark was written")
		}
		disk.Inject(nil)
		if how == "resume" {
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
		} else {
			o.FS = mem.Crash(vfs.CrashConfig{})
			db = mustOpen(t, "db", o)
		}
		wantGet(t, db, "k000001", "i", true)
		mustPut(t, db, "b", "1")
		check := func() {
			t.Helper()
			got, err := changesUpTo(db, 0, 3)
			if !errors.Is(err, ErrChangesGone) || !slices.Equal(got, []string{"1-1 put a=1"}) {
				t.Errorf("%s: %q, %v", how, got, err)
			}
			wantGone(t, db, 1, 3)
			wantChanges(t, db, 2, 3, "3-3 put b=1")
		}
		check()
		closeTest(t, db)
		db = mustOpen(t, "db", o)
		check()
		closeTest(t, db)
	}
}

// The mark of an ingestion is durable when Ingest returns, if logs are kept. So a power cut costs a feed nothing.
func TestChanges_MarkIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	o.Durability = SyncManual
	db := mustOpen(t, "db", o)
	if err := db.Ingest(t.Context(), sortedKeys(0, 1, "i")); err != nil {
		t.Fatal(err)
	}
	o.FS = mem.Crash(vfs.CrashConfig{})
	db = mustOpen(t, "db", o)
	wantChanges(t, db, 0, 1, "1-1 ingested put k000000=i")
}
