//go:build unix && !linux

package faults

import (
	"errors"
	"os/exec"
	"testing"
)

// endWithParent: a member that is stopped outlives the test's process here.
func endWithParent(*exec.Cmd) {}

// A testDisk would be a small file system for one member.
type testDisk struct{ dir string }

func newTestDisk(testing.TB, string, int) *testDisk { return nil }

func (*testDisk) fill()    {}
func (*testDisk) release() {}
func (*testDisk) close()   {}

func newKernelNet() (network, error) { return nil, errors.New("no network namespaces here") }
