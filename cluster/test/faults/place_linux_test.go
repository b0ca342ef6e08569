package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// endWithParent has the kernel kill a member when the test's process dies, also one that is stopped.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// A testDisk is a small file system in memory for one member.
type testDisk struct {
	t   testing.TB
	dir string
}

// newTestDisk mounts a disk of so many MiB. It returns nil where nothing can be mounted.
func newTestDisk(t testing.TB, dir string, mib int) *testDisk {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("shale-test", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		return nil
	}
	return &testDisk{t, dir}
}

// fill takes all the room that there is.
func (d *testDisk) fill() {
	f, err := os.OpenFile(filepath.Join(d.dir, "ballast"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer f.Close()
	for size, step := int64(0), int64(1<<20); step >= 4096; {
		switch err := syscall.Fallocate(int(f.Fd()), 0, size, step); {
		case err == nil:
			size += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		case !errors.Is(err, syscall.EINTR):
			d.t.Error(err)
			return
		}
	}
}

// release gives the room back.
func (d *testDisk) release() {
	if err := os.Remove(filepath.Join(d.dir, "ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Error(err)
	}
}

func (d *testDisk) close() {
	if d == nil {
		return
	}
	if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
		d.t.Errorf("unmount %s: %v", d.dir, err)
	}
}

// A kernelNet has a network namespace for each member, with a cable to a bridge. What a member sends to
// another is stopped by a route that leads nowhere. Nobody is told: packets just vanish, in one direction.
type kernelNet struct {
	prefix string
	mu     sync.Mutex
	hosts  map[string]int // by member
}

// run runs a command of ip(8).
func run(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return nil
}

// newKernelNet returns an error where there can be none.
func newKernelNet() (network, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("only root may make network namespaces")
	}
	k := &kernelNet{prefix: fmt.Sprintf("shale%d", os.Getpid()), hosts: map[string]int{}}
	hub := k.prefix + "hub"
	err := run("netns", "add", hub)
	if err == nil {
		err = errors.Join(run("-n", hub, "link", "add", "br0", "type", "bridge"), run("-n", hub, "link", "set", "br0", "up"))
	}
	if err != nil {
		return nil, errors.Join(err, run("netns", "del", hub))
	}
	return k, nil
}

func (k *kernelNet) name(id string) string { return k.prefix + id }

func (k *kernelNet) host(id string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf("10.77.0.%d", k.hosts[id])
}

func (k *kernelNet) join(id string) (string, error) {
	k.mu.Lock()
	n := len(k.hosts) + 1
	k.hosts[id] = n
	k.mu.Unlock()
	ns, hub, cable := k.name(id), k.prefix+"hub", fmt.Sprintf("h%d", n)
	for _, args := range [][]string{
		{"netns", "add", ns},
		{"link", "add", "v0", "netns", ns, "type", "veth", "peer", "name", cable, "netns", hub},
		{"-n", hub, "link", "set", cable, "master", "br0", "up"},
		{"-n", ns, "addr", "add", k.host(id) + "/24", "dev", "v0"},
		{"-n", ns, "link", "set", "v0", "up"},
		{"-n", ns, "link", "set", "lo", "up"},
	} {
		if err := run(args...); err != nil {
			return "", err
		}
	}
	return k.host(id) + ":7000", nil
}

func (k *kernelNet) place(id string, cmd *exec.Cmd) {
	ip, err := exec.LookPath("ip")
	if err != nil {
		return // join has had it
	}
	cmd.Args = append([]string{ip, "netns", "exec", k.name(id)}, cmd.Args...)
	cmd.Path = ip
}

func (k *kernelNet) proxy() string { return "" }

func (k *kernelNet) bytes() int64 { return 0 }

func (k *kernelNet) block(from, to string, stop bool) error {
	what := "del"
	if stop {
		what = "add"
	}
	return run("-n", k.name(from), "route", what, "blackhole", k.host(to)+"/32")
}

func (k *kernelNet) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := []error{run("netns", "del", k.prefix+"hub")}
	for id := range k.hosts {
		errs = append(errs, run("netns", "del", k.name(id)))
	}
	return errors.Join(errs...)
}
