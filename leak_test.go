package shale

import (
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// checkLeaks fails the test if goroutines that run code of this module, or
// descriptors of the process, are left when it ends that were not there when
// it began. Call it first: what the test itself registers for its end runs
// before.
func checkLeaks(t testing.TB) {
	t.Helper()
	time.Sleep(time.Nanosecond) // the first timer makes Go open two descriptors for itself
	before, files := ourGoroutines(), openDescriptors()
	t.Cleanup(func() {
		if t.Failed() {
			return // what was found already says more, and may have left all open
		}
		var left map[string]string
		for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
			left = ourGoroutines()
			maps.DeleteFunc(left, func(id, _ string) bool { _, old := before[id]; return old })
			if len(left) == 0 && openDescriptors() <= files {
				return
			}
			time.Sleep(wait)
		}
		for _, stack := range left {
			t.Errorf("a goroutine is left:\n%s", stack)
		}
		if n := openDescriptors(); n > files {
			t.Errorf("%d descriptors are open, %d before the test", n, files)
		}
	})
}

// ourGoroutines returns the stacks of the goroutines that run code of this
// module, by what Go calls them.
func ourGoroutines() map[string]string {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	ours := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(stack, "[") // goroutine 12 [running]:
		if strings.Contains(stack, module) {
			ours[head] = stack
		}
	}
	return ours
}

// openDescriptors returns how many descriptors the process has open, 0 where
// that can't be told.
func openDescriptors() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// wantNoOpenFiles checks that a store let go of all that it opened in mem.
func wantNoOpenFiles(t testing.TB, mem *vfs.Mem) {
	t.Helper()
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files or locks are still open", n)
	}
}

// within runs fn, which must not take longer than limit: a store never hangs.
func within(t testing.TB, limit time.Duration, what string, fn func()) {
	t.Helper()
	defer fuzzing.Watch(limit, func() string { return t.Name() + ": " + what })()
	fn()
}

// Open, use and Close leave nothing behind, on a disk or in memory, whether
// Open succeeds or not.
func TestLeaks_OpenAndClose(t *testing.T) {
	testenv.SkipRace(t)
	checkLeaks(t)
	dir := t.TempDir()
	for i := range 15 {
		opts := small()
		db, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 100*i, i)
		if _, err := Open(dir, opts); err == nil {
			t.Fatal("a second Open succeeded")
		}
		ro, err := Open(dir, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []*DB{ro, db} {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// abandon ends the use of a store as the death of its process would, but for the files and
// goroutines of this one.
func (db *DB) abandon() {
	db.letGo()
	_ = db.unlock()
}
