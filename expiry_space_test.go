package shale

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// Space falls in a store that nobody uses: tables in time order are dropped unread, others rewritten.
func TestTTL_SpaceFallsWithoutWrites(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), MemtableSize: 64 << 10, TableSize: 32 << 10, Durability: SyncManual})
			defer db.Close()
			for i := range 4000 {
				key := fmt.Sprintf("%05d", i)
				if mixed {
					key = fmt.Sprintf("%05d", int64(i)*2654435761%100000)
				}
				mustPutTTL(t, db, key, strings.Repeat("v", 100), time.Hour+time.Duration(i)*time.Minute)
				if i%50 == 0 {
					time.Sleep(time.Second)
				}
			}
			mustFlush(t, db)
			compactAll(t, db)
			size := func() (bytes int64) {
				for _, l := range db.Metrics().Levels {
					bytes += l.Bytes
				}
				return bytes
			}
			before, read := size(), db.Metrics().CompactReadBytes
			time.Sleep(time.Hour + 2000*time.Minute)
			synctest.Wait()
			if half := size(); half > before*8/10 {
				t.Errorf("mixed %v: of %d bytes %d are left, and half of the entries", mixed, before, half)
			}
			if n := db.Metrics().CompactReadBytes - read; !mixed && n > uint64(before/10) {
				t.Errorf("%d bytes were read to drop what has expired", n)
			}
			time.Sleep(2100 * time.Minute)
			synctest.Wait()
			if rest := size(); rest != 0 {
				t.Errorf("mixed %v: %d bytes are left, and no entries", mixed, rest)
			}
			if n := len(collect(t, db)); n != 0 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

// A snapshot that keeps what has expired lets it go when it is closed.
func TestTTL_SpaceFallsWhenASnapshotIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
		defer db.Close()
		for i := range 1000 {
			mustPutTTL(t, db, fmt.Sprint(i), "v", time.Minute)
		}
		snapshot, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		compactAll(t, db)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := entriesInTables(db); n != 1000 {
			t.Errorf("%d entries in tables next to a snapshot that sees 1000", n)
		}
		if v, err := snapshot.Get([]byte("7")); string(v) != "v" {
			t.Errorf("%q, %v", v, err)
		}
		snapshot.Close()
		synctest.Wait()
		if n := entriesInTables(db); n != 0 {
			t.Errorf("%d entries in tables after the snapshot", n)
		}
	})
}

func compactAll(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
}

func entriesInTables(db *DB) (n uint64) {
	for _, l := range db.Metrics().Levels {
		n += l.Entries
	}
	return n
}
