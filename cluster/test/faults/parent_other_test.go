//go:build unix && !linux

package faults

import "os/exec"

// endWithParent: a member that is stopped outlives the test's process here.
func endWithParent(*exec.Cmd) {}
