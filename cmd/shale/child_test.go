package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childArgs is the variable that makes the test binary the program itself, with
// these arguments, one a line.
const childArgs = "SHALE_CHILD_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(childArgs); args != "" {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		main() // it exits
	}
	os.Exit(m.Run())
}

// child returns the program as a process of its own. A command of a shell, in
// which "$0" stands for the program, may run it; empty: it runs by itself.
func child(shell string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	if shell != "" {
		cmd = exec.Command("sh", "-c", shell, os.Args[0])
	}
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(args, "\n"), "SHALE_DIR=")
	return cmd
}
