package repair

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// newStore makes a store with tables and logs, under drawn options, and returns its closed life.
// With crashed the disk is as a crash leaves it.
func newStore(t *testing.T, crashed bool) *harness.Life {
	t.Helper()
	seed := testenv.Seed(t)
	l := harness.NewLife(seed)
	s := harness.NewScript(seed)
	for range 4 {
		s.Write(20, 0)
		s.Flush()
	}
	s.Compact()
	s.Write(10, 0)
	s.Flush()
	s.Write(5, 0)
	must(t, l.Open())
	for i, step := range s.Steps {
		if err := l.Do(step); err != nil {
			t.Fatalf("step %d, %s: %v; %s", i, step, err, harness.OptionsText(&l.Opts))
		}
	}
	after := l.Mem.Crash(harness.KeepAll)
	must(t, l.Close())
	if crashed {
		l.Mem = after
	}
	l.Opts.FS = l.Mem
	return l
}

// filesIn returns the files of the store and their bytes.
func filesIn(t *testing.T, mem *vfs.Mem) map[string]string {
	t.Helper()
	files, err := harness.Files(mem, harness.Dir)
	must(t, err)
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
