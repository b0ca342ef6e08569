package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childArgs is an environment variable. If it is set, the test binary runs as the program, with
// the arguments in the variable, one on each line.
const childArgs = "SHALE_CHILD_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(childArgs); args != "" {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		main() // it exits
	}
	os.Exit(m.Run())
}

// child returns a command that runs the program in another process. If shell is not empty, it is a
// shell command that runs the program as "$0".
func child(shell string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	if shell != "" {
		cmd = exec.Command("sh", "-c", shell, os.Args[0])
	}
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(args, "\n"), "SHALE_DIR=")
	return cmd
}
