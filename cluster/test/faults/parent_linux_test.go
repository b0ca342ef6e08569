package faults

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill a member when the test's process dies, also one that is stopped.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
