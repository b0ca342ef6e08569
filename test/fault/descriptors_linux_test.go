package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

const (
	fewDir  = "SHALE_FEW_DIR"  // tells a test binary to be the child, and where the store is
	fewSeed = "SHALE_FEW_SEED" // of what it does
	fewLong = "SHALE_FEW_LONG" // for how long
)

// A process has no descriptors left, and then has some again. It does not die of
// that; writers get errors that say so, then the same handle takes writes again,
// and nothing that was acknowledged is lost.
func TestDescriptors_Exhausted(t *testing.T) {
	cmd := testenv.Self(t, "^TestDescriptors_Child$")
	cmd.Args = append(cmd.Args, "-test.v")
	cmd.Env = append(os.Environ(), fewDir+"="+testenv.QuickDir(t), fewSeed+"="+strconv.FormatUint(testenv.Seed(t), 10),
		fewLong+"="+(testenv.Long(t)/4).String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the child: %v:\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "rounds") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestDescriptors_Child is not a test: TestDescriptors_Exhausted runs it in a
// process of its own, because the limit is the process's.
func TestDescriptors_Child(t *testing.T) {
	dir := os.Getenv(fewDir)
	if dir == "" {
		t.Skip("only for TestDescriptors_Exhausted")
	}
	seed, err := strconv.ParseUint(os.Getenv(fewSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	long, err := time.ParseDuration(os.Getenv(fewLong))
	if err != nil {
		t.Fatal(err)
	}
	testenv.CheckLeaks(t)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	s := newCrowdedStore(t, dir, syscall.EMFILE, seed)
	s.relieve = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
	s.most = 400
	// leave lets the process open n more files.
	leave := func(n int) {
		lowest, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Close(lowest); err != nil {
			t.Fatal(err)
		}
		few := before
		few.Cur = uint64(lowest + n)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
	}
	spare := 0
	s.squeeze = func() {
		leave(spare % 5)
		spare++
	}
	opens, failed, most := 0, 0, 0
	for lives := 0; lives == 0 || time.Since(s.begin) < long; lives++ {
		for i := range 6 {
			free := i / 2 // as good as none, or enough
			if i%2 == 1 {
				free = enough + i
			}
			leave(free)
			for _, readOnly := range []bool{true, false} {
				opts := harness.DrawOnDisk(s.r.Uint64(), uint64(lives))
				opts.Tuning.MaxOpenFiles, opts.ReadOnly = 16, readOnly
				opens++
				db, err := shale.Open(filepath.Join(dir, "db"), &opts)
				switch {
				case err == nil:
					most = max(most, len(db.Inspect().Tables()))
					s.wantExcused("Close", db.Close())
				case errors.Is(err, os.ErrNotExist) && lives == 0 && readOnly: // there is no store yet
				case free >= enough:
					t.Errorf("Open with room for %d files, ReadOnly %v: %v", free, readOnly, err)
				default:
					failed++
					s.wantExcused("Open", err)
				}
			}
			s.relieve()
		}
		s.life(5)
	}
	manyTables(t, filepath.Join(dir, "many"), leave, s.relieve)
	if s.refused == 0 || failed == 0 {
		t.Errorf("refused in %d rounds, and %d Opens failed; want some", s.refused, failed)
	}
	t.Logf("%v; %d reads failed; %d of %d opens failed, of up to %d tables", s, s.unread, failed, opens, most)
}

// enough is how many descriptors a store can do with whose MaxOpenFiles is 16: those 16, 16 that are being opened, and
// those of lock, manifest and logs.
const enough = 48

// manyTables opens a store of more tables than there are descriptors: to write, and to read with the same limit and
// with the default one.
func manyTables(t *testing.T, dir string, leave func(n int), relieve func()) {
	opts := shale.Options{Tuning: shale.Tuning{MaxOpenFiles: 16}, MemtableSize: 4 << 10, TableSize: 4 << 10, CacheSize: -1, Durability: shale.SyncManual,
		Compression: shale.NoCompression, CompactionWorkers: -1}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	for round, o := range []shale.Options{{}, {}, {ReadOnly: true}, {ReadOnly: true}} {
		opts.ReadOnly = o.ReadOnly
		if round == 3 {
			opts.Tuning.MaxOpenFiles = 0
		}
		if round > 0 {
			leave(enough)
		}
		db, err := shale.Open(dir, &opts)
		if err != nil {
			t.Fatalf("round %d: Open: %v", round, err)
		}
		for i := range 500 {
			if round == 0 {
				err = db.Put(key(i), make([]byte, 900))
			} else if ok, hasErr := db.Has(key(i)); hasErr != nil || !ok {
				t.Fatalf("round %d: Has(%s) = %v, %v", round, key(i), ok, hasErr)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			err = db.Compact(t.Context(), shale.Range{})
		}
		if n := len(db.Inspect().Tables()); err != nil || n < 2*enough {
			t.Fatalf("%d tables, want %d: %v", n, 2*enough, err)
		}
		harness.WantClose(t, db)
		relieve()
	}
}
