package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

const (
	ownerDir  = "SHALE_OWNER_DIR"  // makes a test binary the other process, and says where the store is
	ownerSeed = "SHALE_OWNER_SEED" // of its options
)

// ownerStream is what the other process writes, in each of its lives from the beginning.
func ownerStream() *harness.Stream { return harness.NewStream("a", 1, 120) }

// TestOwner_Child is not a test: others run it as another process. It does what it reads, a line
// each, and answers with a line.
func TestOwner_Child(t *testing.T) {
	dir := os.Getenv(ownerDir)
	if dir == "" {
		t.Skip("only for the tests of two processes")
	}
	seed, err := strconv.ParseUint(os.Getenv(ownerSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	options := &harness.Drawer{Seed: seed}
	var db *shale.DB
	s, written := ownerStream(), 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n int
		switch what, arg, _ := strings.Cut(in.Text(), " "); what {
		case "open":
			db, err = shale.Open(filepath.Join(dir, arg), options.Next())
		case "close":
			err = db.Close()
		case "verify":
			err = db.Verify(context.Background())
		case "write":
			if _, err = fmt.Sscan(arg, &n); err == nil {
				for ; n > 0 && err == nil; n-- {
					written++
					err = db.Write(context.Background(), s.Write(written).Batch())
				}
			}
		default:
			err = fmt.Errorf("%q is no command", in.Text())
		}
		if err != nil {
			fmt.Println("error:", err)
		} else {
			fmt.Println("done")
		}
	}
	os.Exit(0) // without the words of package testing
}

// An otherProcess is one that can open stores.
type otherProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startOther(t *testing.T, dir string) *otherProcess {
	t.Helper()
	p := &otherProcess{t: t, cmd: testenv.Self(t, "^TestOwner_Child$")}
	p.cmd.Env = append(os.Environ(), ownerDir+"="+dir, fmt.Sprintf("%s=%d", ownerSeed, testenv.Seed(t)))
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Skipf("the test binary can't be run: %v", err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process without giving it time for anything.
func (p *otherProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // if it is dead already
		_ = p.cmd.Wait()         // says that it was killed
	}
}

// tell gives a command.
func (p *otherProcess) tell(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Errorf("the other process: %v", err)
	}
}

// answer returns the error that the oldest command without one had.
func (p *otherProcess) answer() error {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the other process is dead: %w", err)
	}
	if line = strings.TrimSpace(line); line != "done" {
		return errors.New(line)
	}
	return nil
}

// do gives a command and returns its error.
func (p *otherProcess) do(format string, args ...any) error {
	p.t.Helper()
	p.tell(format, args...)
	return p.answer()
}

func (p *otherProcess) must(format string, args ...any) {
	p.t.Helper()
	if err := p.do(format, args...); err != nil {
		p.t.Fatalf(format+": %v", append(args, err)...)
	}
}

// wantLocked checks that a store is refused and the owner named; 0: unknown.
func wantLocked(t *testing.T, what string, err error, owner int) {
	t.Helper()
	want := shale.ErrLocked.Error()
	if owner != 0 {
		want = fmt.Sprintf("process %d: %s", owner, want)
	}
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: %v, want an error that ends in %q", what, err, want)
	}
}

// refused opens the store, which must not be possible.
func refused(t *testing.T, dir string, opts *shale.Options, owner int) {
	t.Helper()
	db, err := shale.Open(dir, opts)
	if wantLocked(t, "Open", err, owner); err == nil {
		_ = db.Close() // the test has failed
	} else if !errors.Is(err, shale.ErrLocked) {
		t.Errorf("Open: %v, want ErrLocked", err)
	}
}

// Of two processes, and of two handles in one, only one has a store open for
// writing, by whatever path they go. The other is told who has it.
func TestOwner_OneAtATime(t *testing.T) {
	testenv.CheckLeaks(t)
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	store, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	paths := []string{store, link, dir + "/./db/../db"}
	if err := os.Symlink("db", link); err != nil {
		t.Logf("no symbolic links: %v", err)
		paths = []string{store, paths[2]}
	}
	other := startOther(t, dir)
	other.must("open db")
	for _, path := range paths {
		refused(t, path, options.Next(), other.cmd.Process.Pid)
	}
	ro, err := shale.Open(store, options.ReadOnly())
	if err != nil {
		t.Errorf("Open read-only beside another process: %v", err)
	} else {
		harness.WantClose(t, ro)
	}
	other.must("close")
	for _, path := range paths {
		db, err := shale.Open(path, options.Next())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			refused(t, path, options.Next(), os.Getpid())
			name, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			wantLocked(t, "Open of another process", other.do("open %s", name), os.Getpid())
		}
		harness.WantClose(t, db)
	}
	other.must("open db")
}

// Somebody deletes the lock file of an open store. That lets nobody in: its
// directory is locked too. The owner can't tell it from the loss of all its
// files, and says so at the end at the latest.
func TestOwner_LockFileDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("locked files can't be deleted")
	}
	testenv.CheckLeaks(t)
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	store, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	if err := os.Symlink("db", link); err != nil {
		t.Skip(err)
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(filepath.Join(store, "LOCK")); err != nil {
			t.Fatal(err)
		}
	}
	other, third := startOther(t, dir), startOther(t, dir)
	other.must("open db")
	other.must("write 20")
	for range 2 {
		remove()
		for range 2 { // the first leaves a new lock file behind
			refused(t, store, options.Next(), 0)
			refused(t, link, options.Next(), 0)
			wantLocked(t, "Open of a third process", third.do("open db"), 0)
		}
	}
	if err := other.do("close"); err == nil || !strings.HasSuffix(err.Error(), shale.ErrMoved.Error()) {
		t.Errorf("Close of another process: %v, want ErrMoved", err)
	}
	db, err := shale.Open(store, options.Next())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		remove()
		for range 2 {
			refused(t, store, options.Next(), 0)
			refused(t, link, options.Next(), 0) // the same process comes by another path
			wantLocked(t, "Open of another process", other.do("open link"), 0)
		}
	}
	if err := ownerStream().Check(db, 20, 20); err != nil {
		t.Error(err)
	}
	if err := db.Close(); !errors.Is(err, shale.ErrMoved) {
		t.Errorf("Close: %v, want ErrMoved", err)
	}
	other.must("open db")
}
