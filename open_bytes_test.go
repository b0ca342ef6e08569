package shale

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// plainLife lets a store live that uses neither range deletes nor values that expire, and returns its files at some
// moments. The same program always writes the same bytes: one goroutine writes, it also compacts, and nothing is drawn by
// chance.
func plainLife(t *testing.T) map[string]string {
	t.Helper()
	mem := vfs.NewMem()
	session := uint64(0)
	o := Options{FS: mem, TableSize: 4 << 10, BlockSize: 512, CompactionWorkers: -1, Durability: SyncManual,
		testing: testOptions{seed: 42, baseSize: 8 << 10, session: func() uint64 { session++; return session }}}
	var db *DB
	files := make(map[string]string)
	open := func() {
		opts := o
		var err error
		if db, err = Open("db", &opts); err != nil {
			t.Fatal(err)
		}
	}
	end := func(when string) {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for name, content := range storeFiles(t, mem) {
			files[when+" "+name] = content
		}
	}
	ctx := context.Background()
	open()
	for i := range 900 {
		mustPut(t, db, fmt.Sprintf("key%04d", i%400), strings.Repeat(fmt.Sprint(i, " "), 5))
		if i%300 == 299 {
			settle(t, db)
		}
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	for i := range 100 {
		mustDelete(t, &b, fmt.Sprintf("key%04d", i*3))
		mustPut(t, &b, fmt.Sprintf("other%04d", i), "")
	}
	if err := db.Write(ctx, &b); err != nil {
		t.Fatal(err)
	}
	settle(t, db)
	if err := errors.Join(s.Close(), db.Compact(ctx, Range{Upper: []byte("key0200")})); err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutIfAbsent([]byte("absent"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(ctx, func(tx *Txn) error {
		mustPut(t, tx, "by a transaction", "yes")
		return tx.Delete([]byte("key0001"))
	}); err != nil {
		t.Fatal(err)
	}
	end("with a log")
	open()
	mustFlush(t, db)
	mustIngest(t, db, sortedKeys(0, 200, "ingested"))
	mustPut(t, db, "\xff\xff", "last")
	end("ingested")
	o.FilterBits = 14
	open()
	if _, err := db.Inspect().RebuildFilters(ctx); err != nil {
		t.Fatal(err)
	}
	end("with new filters")
	open()
	if err := db.Compact(ctx, Range{}); err != nil {
		t.Fatal(err)
	}
	end("compacted")
	return files
}

// A store that uses nothing new has the files that programs wrote before there were range deletes and values that expire,
// byte for byte: these programs still open it. The sum is that of revision 54760274. Who changes on purpose what such a
// store looks like checks by hand that earlier programs read it, and takes the new sum.
func TestGolden_SameBytes(t *testing.T) {
	const want = "eeddadd207c03a3b34e92a57a2cf3e2ca3e90afcc8112cb5dafe0def64272bd2"
	files := plainLife(t)
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			t.Logf("%s: %d bytes, %x", name, len(files[name]), sha256.Sum256([]byte(files[name])))
		}
		t.Errorf("the sum of all files is %s, want %s", got, want)
	}
}
