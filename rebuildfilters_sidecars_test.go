package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// poor opens a store whose tables have small filters in them, and rebuilt filters with another hash function
// in files of their own.
func poor(t *testing.T, set func(*Options)) (*DB, *Options) {
	t.Helper()
	opts := small()
	opts.FS, opts.FilterBits, opts.CompactionWorkers = vfs.NewMem(), 6, -1
	db := openTest(t, opts)
	fill(t, db, 4000, 0)
	settle(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FilterBits, opts.Tuning.FilterHash = 0, XXH3
	set(opts)
	db = openTest(t, opts)
	if r := mustRebuild(t, db); r.Rebuilt != len(db.Inspect().Tables()) {
		t.Fatalf("RebuildFilters: %+v", r)
	}
	return db, opts
}

// wantKeys checks that the store has the first n keys of fill.
func wantKeys(t *testing.T, db *DB, n int) {
	t.Helper()
	for i := range n {
		if has, err := db.Has(fmt.Appendf(nil, "key%06d", i)); !has || err != nil {
			t.Fatalf("Has(key%06d) = %v, %v", i, has, err)
		}
	}
}

// If the file of a filter is damaged or missing, lookups use the filter in the table. Metrics counts it, an
// event reports it, and Verify returns it with file and offset. RebuildFilters makes a new one.
func TestSidecars_Unusable(t *testing.T) {
	db, opts := poor(t, func(*Options) {})
	file := db.Inspect().Tables()[0].FilterFile
	good := filesOf(t, db, ".flt")[file]
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mem := opts.FS.(*vfs.Mem)
	flipped := []byte(good)
	flipped[3] ^= 1
	for what, data := range map[string]string{"flipped": string(flipped), "cut": good[:len(good)-9], "empty": "", "removed": "removed", "longer": good + "x"} {
		if err := writeFile(mem, "db/"+file, []byte(data)); err != nil {
			t.Fatal(err)
		}
		if data == "removed" {
			if err := mem.Remove("db/" + file); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var told []Event
		set := *opts
		set.OnEvent = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}
		db := openTest(t, &set)
		awaitLoaded(t, db)
		info := db.Inspect().Tables()[0]
		if info.FilterFile != "" || info.FilterKind != "blocked" || info.FilterBits > 8 || db.Metrics().UnusableFilters != 1 {
			t.Errorf("%s: table %+v, %d filters are unusable", what, info, db.Metrics().UnusableFilters)
		}
		var damage *CorruptionError
		if len(told) != 1 || told[0].Kind != EventFilterUnusable || !errors.As(told[0].Err, &damage) || damage.File != file || told[0].Tables[0] != info.Number {
			t.Errorf("%s: told %+v", what, told)
		}
		wantKeys(t, db, 4000)
		if err := db.Verify(context.Background()); !errors.As(err, &damage) || damage.File != file || damage.Offset < 0 && data != "removed" {
			t.Errorf("%s: Verify = %v", what, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	opts.OnEvent = func(Event) {}
	db = openTest(t, opts)
	if r := mustRebuild(t, db); r.Rebuilt != 1 {
		t.Errorf("RebuildFilters: %+v", r)
	}
	if err := db.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	if info := db.Inspect().Tables()[0]; info.FilterFile == file || info.FilterFile == "" {
		t.Errorf("table %+v", info)
	}
	checkNoStrays(t, db)
}
