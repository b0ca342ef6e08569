package shale

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// bare makes a store of n keys in several levels whose tables have no filters, and closes it. It returns
// options to open it with filters.
func bare(t *testing.T, n int) *Options {
	t.Helper()
	return bareOf(t, n, func(*Options) {})
}

// bareOf does the same with options that set has changed.
func bareOf(t *testing.T, n int, set func(*Options)) *Options {
	t.Helper()
	opts := small()
	set(opts)
	opts.FS, opts.FilterBits, opts.CompactionWorkers = vfs.NewMem(), -1, -1
	db := openTest(t, opts)
	fill(t, db, n, 0)
	settle(t, db)
	fill(t, db, n/20, 1)
	mustFlush(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FilterBits = 0
	return opts
}

func mustRebuild(t testing.TB, db *DB) FilterRebuild {
	t.Helper()
	r, err := db.Inspect().RebuildFilters(context.Background())
	if err != nil {
		t.Fatalf("RebuildFilters: %v", err)
	}
	return r
}

// filesOf waits until the files that nothing needs are removed, and returns the contents of those whose
// names end with the suffix.
func filesOf(t testing.TB, db *DB, suffix string) map[string]string {
	t.Helper()
	db.awaitDeletions(t.Context())
	files := storeFiles(t, db.opts.FS.(*vfs.Mem))
	for name := range files {
		if !strings.HasSuffix(name, suffix) {
			delete(files, name)
		}
	}
	return files
}

// readsAMiss looks up n absent keys that lie among the present ones. It returns how many tables a lookup
// had to read on average.
func readsAMiss(t testing.TB, db *DB, from, n int) float64 {
	t.Helper()
	before := db.Metrics()
	for i := from; i < from+n; i++ {
		if has, err := db.Has(fmt.Appendf(nil, "key%06d-%d", i%20000, i)); has || err != nil {
			t.Fatalf("Has = %v, %v", has, err)
		}
	}
	m := db.Metrics().Sub(before)
	return float64(m.NoFilter+m.FilterFalsePositive) / float64(n)
}

// A store without filters gets filters, and no table is written again for that. Afterwards lookups of
// absent keys read as rarely as the filters promise.
func TestRebuildFilters_OfAStoreWithout(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	opts := bare(t, 20000)
	db := openTest(t, opts)
	const n = 40000
	if got := readsAMiss(t, db, 0, n); got < 0.9 {
		t.Fatalf("%.3f reads a miss without filters", got)
	}
	before, shape := filesOf(t, db, ".sst"), db.Inspect().Tables()
	r := mustRebuild(t, db)
	after, made := filesOf(t, db, ".sst"), filesOf(t, db, ".flt")
	if len(after) != len(before) || len(made) != len(before) {
		t.Errorf("%d tables and %d filters, of %d tables", len(after), len(made), len(before))
	}
	for name, data := range before {
		if after[name] != data {
			t.Errorf("%s was written again", name)
		}
	}
	written := 0
	for _, data := range made {
		written += len(data)
	}
	if r.Tables != len(shape) || r.Rebuilt != len(shape) || r.Gone != 0 || r.BytesWritten != int64(written) ||
		r.FilterBytesBefore != 0 || r.FilterBytesAfter <= 0 || r.FilterBytesAfter >= r.BytesWritten {
		t.Errorf("the report is %+v; %d tables, %d bytes in files", r, len(shape), written)
	}
	if again := mustRebuild(t, db); again.Rebuilt != 0 || again.BytesWritten != 0 || again.FilterBytesBefore != r.FilterBytesAfter ||
		again.FilterBytesAfter != r.FilterBytesAfter || again.Tables != r.Tables {
		t.Errorf("a second call did %+v", again)
	}
	checkBeside(t, db)
	for round := range 2 {
		want := db.Metrics().PredictedFPR()
		got := readsAMiss(t, db, (round+1)*n, n)
		// Several levels are asked, so a lookup may read more than once.
		if sigma := math.Sqrt(want / n); want > 0.05 || math.Abs(got-want) > 5*sigma+0.001 {
			t.Errorf("%.4f reads a miss, %.4f are promised", got, want)
		}
		t.Logf("%d filters, %d bytes; %.4f reads a miss, %.4f promised", r.Rebuilt, r.BytesWritten, got, want)
		if round == 0 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = openTest(t, opts)
			awaitLoaded(t, db)
			checkBeside(t, db)
		}
	}
	for i := range 20000 {
		if has, err := db.Has(fmt.Appendf(nil, "key%06d", i)); !has || err != nil {
			t.Fatalf("Has(key%06d) = %v, %v", i, has, err)
		}
	}
}

// checkBeside checks that all tables use a filter in a file of its own, and that Verify finds no damage.
func checkBeside(t testing.TB, db *DB) {
	t.Helper()
	for _, info := range db.Inspect().Tables() {
		if info.FilterKind != "blocked" || !strings.HasSuffix(info.FilterFile, ".flt") || info.FilterBytes == 0 || info.PredictedFPR > 0.1 {
			t.Errorf("table %+v", info)
		}
	}
	if m := db.Metrics(); m.UnusableFilters != 0 {
		t.Errorf("%d filters can't be used", m.UnusableFilters)
	}
	if err := db.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

// Filters with fewer bits than the options say are replaced, and their files removed. Filters with as many
// bits or more stay.
func TestRebuildFilters_Replaces(t *testing.T) {
	opts := bare(t, 8000)
	opts.FilterBits = 5
	db := openTest(t, opts)
	poor := mustRebuild(t, db)
	first := filesOf(t, db, ".flt")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FilterBits = 12
	db = openTest(t, opts)
	rich := mustRebuild(t, db)
	second := filesOf(t, db, ".flt")
	if poor.Rebuilt == 0 || rich.Rebuilt == 0 || rich.FilterBytesBefore != poor.FilterBytesAfter || rich.FilterBytesAfter <= rich.FilterBytesBefore {
		t.Errorf("first %+v, then %+v", poor, rich)
	}
	kept := 0
	for name := range second {
		if _, old := first[name]; old {
			kept++
		}
	}
	// The filters of level 0 had as many bits as they can have.
	if len(second) != len(db.Inspect().Tables()) || kept != len(db.Inspect().Tables())-rich.Rebuilt {
		t.Errorf("%d filters in files, %d of them old, after %d of %d were replaced", len(second), kept, rich.Rebuilt, len(db.Inspect().Tables()))
	}
	checkBeside(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FilterBits = 9 // fewer than the filters have
	db = openTest(t, opts)
	if r := mustRebuild(t, db); r.Rebuilt != 0 {
		t.Errorf("richer filters were replaced: %+v", r)
	}
}

// The file of a filter that was replaced is kept as long as a version needs it, for a checkpoint, an
// iterator or Verify.
func TestRebuildFilters_KeepsWhatIsRead(t *testing.T) {
	opts := bare(t, 4000)
	opts.FilterBits = 5
	db := openTest(t, opts)
	mustRebuild(t, db)
	held := db.mems.Acquire()
	first := filesOf(t, db, ".flt")
	forceRebuild(t, db, 12)
	both := filesOf(t, db, ".flt")
	for name := range first {
		if both[name] == "" {
			t.Errorf("%s is gone, a version has it", name)
		}
	}
	for _, r := range held.Runs {
		for _, table := range r.Tables {
			if err := table.Reader.VerifyWith(context.Background(), db.tree.SidecarOf(held.Version, table), nil); err != nil {
				t.Error(err)
			}
		}
	}
	db.tree.Release(held.Version)
	checkNoStrays(t, db) // waits for the deleter
	if now := filesOf(t, db, ".flt"); len(now) != len(db.Inspect().Tables()) {
		t.Errorf("%d filters in files for %d tables", len(now), len(db.Inspect().Tables()))
	}
}

// A filter may be rebuilt after a compaction was planned that moves or merges its table. A table that is
// moved keeps the new filter. A table that is merged does not come back.
func TestRebuildFilters_WhileATableMoves(t *testing.T) {
	opts := small()
	opts.FS, opts.CompactionWorkers = vfs.NewMem(), -1
	db := openTest(t, opts)
	for i := range 2000 {
		mustPut(t, db, fmt.Sprintf("key%06d", i), "v")
	}
	mustFlush(t, db)
	db.opts.CompactionWorkers = 1
	moves := 0
	for range 20 {
		plan := db.scheduler.Pick()
		if plan == nil {
			break
		}
		forceRebuild(t, db, 10)
		if err := db.runPlan(db.life.Context, plan); err != nil {
			t.Fatal(err)
		}
		db.scheduler.Done(plan)
		if plan.Kind.String() == "move" {
			moves++
		}
		for _, info := range db.Inspect().Tables() {
			if plan.Kind.String() == "move" && info.Level > 0 && info.FilterFile == "" {
				t.Errorf("table %+v", info)
			}
		}
	}
	if moves == 0 {
		t.Fatal("no table was moved")
	}
	db.opts.CompactionWorkers = -1
	beside := make(map[uint64]string)
	for _, info := range db.Inspect().Tables() {
		beside[info.Number] = info.FilterFile
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, opts)
	awaitLoaded(t, db)
	for _, info := range db.Inspect().Tables() {
		if info.FilterFile != beside[info.Number] || info.FilterKind != "blocked" {
			t.Errorf("table %+v; before it was opened again %q", info, beside[info.Number])
		}
	}
}

// forceRebuild gives every table a new filter, whether it needs one or not.
func forceRebuild(t *testing.T, db *DB, bits float64) {
	t.Helper()
	r := rebuild{db: db, ctx: context.Background()}
	v := db.mems.Acquire()
	defer db.tree.Release(v.Version)
	for table := range v.Tables() {
		built, err := table.Reader.BuildFilter(r.ctx, sstable.IterOptions{}, nil, bloom.StaticOptions{BitsPerKey: bits, Hasher: db.hasher}, base.PrefixRule{})
		if err == nil {
			err = r.write(table, built, bits, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
}

// checkNoStrays checks that the directory has the files of filters that the version names, and no others.
func checkNoStrays(t testing.TB, db *DB) {
	t.Helper()
	if err := strays(db); err != nil {
		t.Error(err)
	}
}

// strays returns an error if the directory has a filter that the version does not name, or lacks one. As a
// compaction may be about to remove some, it tries for two seconds.
func strays(db *DB) error {
	var err error
	for range 2000 {
		if err = straysNow(db); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// straysNow does the same once.
func straysNow(db *DB) error {
	v := db.mems.Acquire()
	defer db.tree.Release(v.Version)
	names, err := db.fs.List(db.dir)
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for s := range v.Sidecars() {
		named[base.FilterName(s.Num)] = true
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".flt") && !named[name] {
			return fmt.Errorf("%s is left over", name)
		}
		delete(named, name)
	}
	for name := range named {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return nil
}

// However many tables get filters, about a hundred edits put them in place: each edit takes time for each
// table of the store.
func TestRebuildFilters_FewEditsForManyTables(t *testing.T) {
	testenv.SkipRace(t)
	const tables = 3000
	mem, edits := vfs.NewMem(), 0
	smallTables(t, mem, "db", tables)
	counting := faultfs.New(mem, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpSyncDir {
			edits++ // one comes before each of them
		}
		return nil
	})
	db := mustOpen(t, "db", &Options{FS: counting, Tuning: Tuning{FilterHash: XXH3}, CompactionWorkers: -1, Durability: SyncManual})
	edits = 0
	if r := mustRebuild(t, db); r.Rebuilt != tables {
		t.Errorf("%d of %d tables got filters", r.Rebuilt, tables)
	}
	if edits < installParts || edits > 2*installParts {
		t.Errorf("%d edits for %d tables", edits, tables)
	}
}
