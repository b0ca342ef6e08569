package fault

import (
	"errors"
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
	spare := 0
	s.squeeze = func() {
		lowest, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Close(lowest); err != nil {
			t.Fatal(err)
		}
		few := before
		few.Cur = uint64(lowest + spare%5)
		spare++
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
	}
	opens, failed := 0, 0
	for lives := 0; lives == 0 || time.Since(s.begin) < long; lives++ {
		for range 5 {
			s.squeeze()
			for _, readOnly := range []bool{true, false} {
				opts := harness.DrawOnDisk(s.r.Uint64(), uint64(lives))
				opts.ReadOnly = readOnly
				opens++
				db, err := shale.Open(filepath.Join(dir, "db"), &opts)
				if err == nil {
					s.wantExcused("Close", db.Close())
				} else if failed++; !errors.Is(err, os.ErrNotExist) {
					s.wantExcused("Open", err)
				}
			}
			s.relieve()
		}
		s.life(5)
	}
	if s.refused == 0 || failed == 0 {
		t.Errorf("refused in %d rounds, and %d Opens failed; want some", s.refused, failed)
	}
	t.Logf("%v; %d reads failed; %d of %d opens failed", s, s.unread, failed, opens)
}
