package testenv

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// module is in the stack of each goroutine that runs code of this module.
const module = "github.com/shaledb/shale"

// CheckLeaks fails the test if goroutines that run code of this module, or
// descriptors of the process, are left when it ends that were not there when
// it began. Call it first: what the test itself registers for its end runs
// before.
func CheckLeaks(t testing.TB) {
	t.Helper()
	left := leaks()
	t.Cleanup(func() {
		if t.Failed() {
			return // what was found already says more, and may have left all open
		}
		for _, what := range left() {
			t.Error(what)
		}
	})
}

// Main is the TestMain of packages whose tests run at the same time: it does what CheckLeaks does for all of
// them together.
func Main(m *testing.M) {
	left := leaks()
	code := m.Run()
	if code == 0 {
		for _, what := range left() {
			fmt.Fprintln(os.Stderr, what)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks returns a function that returns what is left that was not there when leaks was called, as texts. It
// waits for what is about to end.
func leaks() func() []string {
	time.Sleep(time.Nanosecond) // the first timer makes Go open two descriptors for itself
	before, files := ourGoroutines(), OpenDescriptors()
	return func() (texts []string) {
		var left map[string]string
		for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
			left = ourGoroutines()
			maps.DeleteFunc(left, func(id, _ string) bool { _, old := before[id]; return old })
			if len(left) == 0 && OpenDescriptors() <= files {
				return nil
			}
			time.Sleep(wait)
		}
		for _, stack := range left {
			texts = append(texts, "a goroutine is left:\n"+stack)
		}
		if n := OpenDescriptors(); n > files {
			texts = append(texts, fmt.Sprintf("%d descriptors are open, %d before", n, files))
		}
		return texts
	}
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

// OpenDescriptors returns how many descriptors the process has open, 0 where
// that can't be told.
func OpenDescriptors() int {
	dir := "/proc/self/fd"
	switch runtime.GOOS {
	case "darwin":
		dir = "/dev/fd"
	case "windows":
		return 0 // under wine that directory is there, but it is the one of wine's server
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return len(names)
}

// Within runs fn, which must not take longer than limit: a store never hangs.
func Within(t testing.TB, limit time.Duration, what string, fn func()) {
	t.Helper()
	defer Watch(limit, func() string { return t.Name() + ": " + what })()
	fn()
}
