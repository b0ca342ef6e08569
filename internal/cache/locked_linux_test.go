package cache

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A program may lock its memory so that none of it is swapped out.
// Memory that the cache has given back can be read in that case, too.
func TestPeek_LockedMemory(t *testing.T) {
	if os.Getenv("SHALE_MLOCKALL") != "" {
		if err := syscall.Mlockall(syscall.MCL_CURRENT | syscall.MCL_FUTURE); err != nil {
			t.Skipf("mlockall: %v", err)
		}
		TestPeek_Evicted(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestPeek_LockedMemory$", "-test.v", "-test.timeout", "1m")
	child.Env = append(os.Environ(), "SHALE_MLOCKALL=1")
	switch out, err := child.CombinedOutput(); {
	case err != nil:
		t.Errorf("%v:\n%.2000s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
}
