package fault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A testMount is a file system that the test has mounted.
type testMount struct {
	t    *testing.T
	dir  string // where
	args []string
}

// mountTmpfs mounts a file system of so many MiB in memory, or skips the test.
func mountTmpfs(t *testing.T, mib int) *testMount {
	t.Helper()
	m := newMount(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mib), "shale-test")
	m.firstMount()
	return m
}

// mountImage makes a file system in a sparse file of so many MiB and mounts it
// by a loop device, or skips the test.
func mountImage(t *testing.T, fstype, options string, mib int) *testMount {
	t.Helper()
	m := newMount(t)
	image := filepath.Join(filepath.Dir(m.dir), "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(int64(mib)<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	mkfs, err := exec.LookPath("mkfs." + fstype)
	if err != nil {
		t.Skipf("no mkfs.%s: %v", fstype, err)
	}
	if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
	m.args = []string{"-t", fstype, "-o", "loop" + options, image}
	m.firstMount()
	return m
}

func newMount(t *testing.T, args ...string) *testMount {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount file systems")
	}
	m := &testMount{t: t, dir: filepath.Join(t.TempDir(), "mnt"), args: args}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// firstMount is mount for the first time: whether it works is up to the machine.
func (m *testMount) firstMount() {
	m.t.Helper()
	if err := m.tryMount(); err != nil {
		m.t.Skipf("nothing can be mounted here: %v", err)
	}
	m.t.Cleanup(func() {
		// Also with files open, should the test have failed. EINVAL: it is not
		// mounted at present.
		if err := syscall.Unmount(m.dir, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			m.t.Errorf("unmount %s: %v", m.dir, err)
		}
	})
}

func (m *testMount) tryMount() error {
	out, err := exec.Command("mount", append(m.args[:len(m.args):len(m.args)], m.dir)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount %q: %w: %s", m.args, err, bytes.TrimSpace(out))
	}
	return nil
}

// mount mounts it again.
func (m *testMount) mount() {
	m.t.Helper()
	if err := m.tryMount(); err != nil {
		m.t.Fatal(err)
	}
}

// unmount takes it away, which needs that nobody has a file of it open.
func (m *testMount) unmount() {
	m.t.Helper()
	// Others on this machine that look at all mounts keep them busy for moments.
	err := syscall.EBUSY
	for deadline := time.Now().Add(20 * time.Second); err == syscall.EBUSY && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if e := syscall.Unmount(m.dir, 0); e == nil {
			return
		} else if !errors.As(e, &err) {
			m.t.Fatal(e)
		}
	}
	m.t.Fatalf("unmount: %v", err)
}

// remount changes options of what is mounted.
func (m *testMount) remount(flags uintptr) {
	m.t.Helper()
	if err := syscall.Mount("", m.dir, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		m.t.Fatalf("remount: %v", err)
	}
}

// path returns the name of a file there.
func (m *testMount) path(name string) string { return filepath.Join(m.dir, name) }

// free returns how many bytes there is room for.
func (m *testMount) free() int64 {
	m.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(m.dir, &s); err != nil {
		m.t.Fatal(err)
	}
	return int64(s.Bfree) * int64(s.Bsize)
}

// fillTo takes room with a ballast file until so many bytes are left.
func (m *testMount) fillTo(left int64) {
	m.t.Helper()
	f, err := os.OpenFile(m.path("ballast"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		m.t.Fatal(err)
	}
	size := info.Size()
	// What is freed and taken in the background makes this a matter of a few
	// attempts; and near the end each block counts.
	for step := max(m.free()-left, 0) &^ 4095; step >= 4096; {
		if err := syscall.Fallocate(int(f.Fd()), 0, size, step); err == nil {
			size += step
		} else if errors.Is(err, syscall.ENOSPC) {
			step /= 2
			step &^= 4095
		} else if !errors.Is(err, syscall.EINTR) {
			m.t.Fatal(err)
		}
		step = min(step, (m.free()-left)&^4095)
	}
}

// release gives the room back. btrfs has the room of a deleted file only when its
// transaction has ended, which `sync -f` waits for.
func (m *testMount) release() {
	m.t.Helper()
	if err := os.Remove(m.path("ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	if out, err := exec.Command("sync", "-f", m.dir).CombinedOutput(); err != nil {
		m.t.Fatalf("sync -f %s: %v: %s", m.dir, err, out)
	}
}
