package shale

import (
	"context"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A log that a checkpoint shares is not written over, by neither of the two
// stores, also after they were closed and opened again.
func TestCheckpoint_SharedLogsAreNotUsedAgain(t *testing.T) {
	for _, first := range []string{"db", "copy"} {
		mem := vfs.NewMem()
		opts := tinyStore(mem)
		opts.CompactionWorkers = -1
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "k", "v") // in a log only: the checkpoint links it
		if err := db.Checkpoint("copy"); err != nil {
			t.Fatal(err)
		}
		// As after a crash: what is not in tables stays in the shared log.
		db.cancel()
		db.background.Wait()
		db.abandon()
		mem = mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
		opts.FS = mem
		if db, err = Open(first, &opts); err != nil {
			t.Fatal(err)
		}
		for i := range 10 { // new logs, which may take the files of obsolete ones
			fillRandom(t, db, 100*i, 100)
			if err := db.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"db", "copy"} {
			db, err := Open(dir, &opts)
			if err != nil {
				t.Fatalf("%s after %s went on alone: %v", dir, first, err)
			}
			wantGet(t, db, "k", "v", true)
			closeTest(t, db)
		}
	}
}
