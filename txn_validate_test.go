package shale

import (
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// Damage that a commit meets where it asks what was written fails it, and is reported as that of other reads.
func TestTxn_CommitMeetsDamage(t *testing.T) {
	for name, read := range map[string]func(tx *Txn) error{
		"key": func(tx *Txn) error { _, err := tx.Get([]byte("key000001")); return err },
		"scan": func(tx *Txn) (err error) {
			for _, err = range tx.Scan(Prefix("key00000")) {
			}
			return err
		},
	} {
		mem := vfs.NewMem()
		opts := small()
		opts.FS, opts.CacheSize, opts.CompactionWorkers, opts.testing.tailChunk = mem, -1, -1, 1
		db := mustOpen(t, "db", opts) // openTest would verify the damaged tables
		fill(t, db, 100, 0)
		tx := mustBegin(t, db)
		if err := errors.Join(read(tx), tx.Put([]byte("k"), nil)); err != nil {
			t.Fatal(err)
		}
		fill(t, db, 100, 1)
		mustFlush(t, db)
		for name, data := range storeFiles(t, mem) {
			if strings.HasSuffix(name, ".sst") {
				if err := writeFile(mem, db.path(name), make([]byte, len(data))); err != nil {
					t.Fatal(err)
				}
			}
		}
		var damage *CorruptionError
		if err := tx.Commit(t.Context()); !errors.As(err, &damage) {
			t.Errorf("%s: Commit = %v", name, err)
		}
		if n := db.Metrics().CorruptionsMet; n != 1 {
			t.Errorf("%s: %d corruptions met", name, n)
		}
		_ = db.Close() // says what it met
	}
}
