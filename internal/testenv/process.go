package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Self returns the command that runs the tests of this binary whose names match the regular
// expression run, in a process of their own.
func Self(t testing.TB, run string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Skipf("the path of the test binary is unknown: %v", err)
	}
	return exec.Command(self, "-test.run="+run)
}
