package vfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestMain makes the test binary the other process of the tests below. It takes the lock
// that lockEnv names, prints the result, and waits for the end of its standard input.
func TestMain(m *testing.M) {
	name := os.Getenv(lockEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if _, err := Default.Lock(name); err != nil {
		fmt.Println("refused:", err)
	} else {
		fmt.Println("locked")
	}
	io.Copy(io.Discard, os.Stdin)
}

const lockEnv = "VFS_TEST_LOCK"

// otherProcess starts a process that locks name. It returns what
// the process prints, its id, and a function that kills it.
func otherProcess(t *testing.T, name string) (says string, pid int, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), lockEnv+"="+name)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip(err) // no processes here
	}
	says, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait() // the error is that it was killed
		in.Close()
	})
	t.Cleanup(kill)
	return strings.TrimSpace(says), cmd.Process.Pid, kill
}

func TestLock_OtherProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	says, pid, kill := otherProcess(t, name)
	if says != "locked" {
		t.Fatalf("other process says %q, want %q", says, "locked")
	}
	_, err := Default.Lock(name)
	wantError(t, "Lock", err, ErrLocked)
	if want := fmt.Sprintf("process %d", pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not name the owner, %q", err, want)
	}
	kill() // without a chance to unlock
	l, err := Default.Lock(name)
	must(t, err)
	says, _, _ = otherProcess(t, name)
	if want := fmt.Sprintf("process %d: locked", os.Getpid()); !strings.HasSuffix(says, want) {
		t.Errorf("other process says %q, want ...%q", says, want)
	}
	must(t, l.Close())
}

// If the lock file is deleted, nobody else gets
// the lock: the owner's directory is locked too.
func TestLock_DeletedFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("locked files can't be deleted")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "LOCK")
	says, _, kill := otherProcess(t, name)
	if says != "locked" {
		t.Fatalf("other process says %q, want %q", says, "locked")
	}
	writeFile(t, Default, filepath.Join(dir, "CURRENT"), "x")
	must(t, os.Remove(name))
	for range 2 { // the first leaves a new lock file behind
		_, err := Default.Lock(name)
		wantError(t, "Lock after the file was deleted", err, ErrLocked)
		_, err = Default.(SharedLocker).LockShared(name)
		wantError(t, "LockShared after the file was deleted", err, ErrLocked)
	}
	kill()
	l, err := Default.Lock(name)
	must(t, err)
	must(t, l.Close())
}

// Not even the owner itself gets the lock again by another path.
func TestLock_DeletedFileBySymlink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("locked files can't be deleted")
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	name, again := filepath.Join(dir, "real", "LOCK"), filepath.Join(dir, "link", "LOCK")
	l, err := Default.Lock(name)
	must(t, err)
	must(t, os.Remove(name))
	_, err = Default.Lock(again)
	wantError(t, "Lock by another path after the file was deleted", err, ErrLocked)
	writeFile(t, Default, again, "")
	_, err = Default.(SharedLocker).LockShared(again)
	wantError(t, "LockShared by another path after the file was made anew", err, ErrLocked)
	other, err := Default.Lock(filepath.Join(dir, "link", "OTHER"))
	must(t, err) // two locks in a directory are two locks
	must(t, other.Close())
	must(t, l.Close())
}

// A program may run under flock(1) on its own directory.
func TestLock_DirectoryLockedByOthers(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	must(t, err)
	defer d.Close()
	if busy, err := lockFile(d); busy || err != nil {
		t.Skip("directories can't be locked here")
	}
	for range 2 {
		l, err := Default.Lock(filepath.Join(dir, "LOCK"))
		must(t, err)
		writeFile(t, Default, filepath.Join(dir, "CURRENT"), "x")
		must(t, l.Close())
	}
}

func TestLock_BySymlink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	l, err := Default.Lock(filepath.Join(dir, "real", "LOCK"))
	must(t, err)
	defer l.Close()
	_, err = Default.Lock(filepath.Join(dir, "link", "LOCK"))
	wantError(t, "Lock by another path", err, ErrLocked)
}

func TestLock_Race(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		for range 20 {
			var wg sync.WaitGroup
			got := make(chan io.Closer, 3)
			for range cap(got) {
				wg.Go(func() {
					if l, err := fs.Lock(filepath.Join(dir, "LOCK")); err == nil {
						got <- l
					}
				})
			}
			wg.Wait()
			close(got)
			if len(got) != 1 {
				t.Errorf("%d of 3 raced calls got the lock, want 1", len(got))
			}
			for l := range got {
				must(t, l.Close())
			}
		}
	})
}
