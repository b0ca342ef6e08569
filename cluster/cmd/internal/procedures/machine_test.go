//go:build unix

package procedures

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A site is some machines on this one, and a place for backups that all of them reach. What the pages say is done on
// it as it stands, but for these changes:
//
//   - Addresses 10.0.0.N are loopback addresses 127.X.Y.N, where X.Y is drawn for the site. Ports are those of the pages.
//   - Folders /etc, /var, /srv, /mnt and /usr/local are folders of the machine's own, below a temporary one.
//   - A bucket s3://… is a folder of the site, and a-5d3f01c2/state-1 below it is one that is there.
//   - systemctl, journalctl, useradd and chown are those of testdata/bin, since a test may neither start services of this
//     system nor make users. systemctl starts what the unit file of the machine says, with the options quick added.
type site struct {
	t      *testing.T
	dir    string
	prefix string // of addresses, such as 127.12.34.

	// bucket is what the site has in place of the name of a state's bucket in the pages.
	bucket string
}

// bucketOfPage is the part of a bucket's name that has chance in it.
const bucketOfPage = "a-5d3f01c2/state-1"

// quick are options that make elections quick, and that a busy machine still meets.
const quick = "--heartbeat 400ms --timeout 20s --raft-log error"

const (
	patience      = 90 * time.Second // how long a test waits for something
	blockPatience = 10 * time.Minute // how long a block may take; one builds programs
)

func newSite(t *testing.T) *site {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "openssl", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "no "+tool+" here")
		}
	}
	s := &site{t: t, dir: t.TempDir(), prefix: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), 1+rand.IntN(250))}
	l, err := net.Listen("tcp", s.prefix+"1:0")
	if err != nil {
		skip(t, "no addresses of loopback but 127.0.0.1 here")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// step runs a part of a test. The parts after it need it.
func (s *site) step(name string, do func()) {
	whole := s.t
	defer func() { s.t = whole }()
	if !whole.Run(name, func(t *testing.T) {
		s.t = t
		do()
	}) {
		whole.FailNow()
	}
}

// skip skips a test that a machine can't run.
func skip(t *testing.T, why string) {
	t.Helper()
	used.mu.Lock()
	used.skips++
	used.mu.Unlock()
	t.Skip(why)
}

// A machine of a site has an address and folders of its own.
type machine struct {
	*site
	address, root string
	shell         string // what its shells begin with
}

// machine returns a new machine with the address 10.0.0.N, on which the programs are installed.
func (s *site) machine(n int) *machine {
	s.t.Helper()
	address := s.prefix + strconv.Itoa(n)
	m := &machine{site: s, address: address, root: filepath.Join(s.dir, address)}
	for _, dir := range []string{"home", "run", "etc/systemd/system", "usr/local/bin", "srv", "mnt", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o777); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{"shale", "shale-remote", "shaled"} {
		if err := os.Symlink(filepath.Join(programs(s.t), name), filepath.Join(m.root, "usr/local/bin", name)); err != nil {
			s.t.Fatal(err)
		}
	}
	t := s.t // that of the site, whose steps have others
	t.Cleanup(func() {
		if pid, err := os.ReadFile(filepath.Join(m.root, "run/supervisor")); err == nil {
			n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
			if err == nil {
				_ = syscall.Kill(-n, syscall.SIGKILL) // it may have ended
			}
		}
		if t.Failed() {
			t.Logf("machine %s:\n%s", address, m.log())
		}
	})
	return m
}

var (
	servers = regexp.MustCompile(`s3://([\w./$-]+)`)
	// A path that follows a colon is that of another machine, which scp finds.
	paths  = regexp.MustCompile(`(^|[^\w/.:-])(/(?:etc|var|srv|mnt|usr/local)\b)`)
	remain = regexp.MustCompile(`(?:^|[^\w.:-])/(?:etc|var|srv|mnt|usr/local)\b`)
)

// here returns what a page says, for this machine.
func (m *machine) here(text string) string {
	m.t.Helper()
	text = strings.ReplaceAll(text, "10.0.0.", m.prefix)
	if m.bucket != "" {
		text = strings.ReplaceAll(text, bucketOfPage, m.bucket)
	}
	text = servers.ReplaceAllString(text, m.dir+"/s3/$1")
	text = paths.ReplaceAllString(text, "${1}"+m.root+"$2")
	if found := remain.FindString(strings.ReplaceAll(text, m.root+"/", "")); found != "" {
		m.t.Fatalf("%q would be a folder of this system:\n%s", found, text)
	}
	return text
}

// path returns where a folder or file of a page is.
func (m *machine) path(name string) string { return m.here(name) }

// file puts a file of a page where the page says.
func (m *machine) file(name string) {
	m.t.Helper()
	if err := os.WriteFile(m.path(name), []byte(m.here(find(m.t, name))), 0o666); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a block of a page and returns what it prints. The block has to succeed. changes are what somebody who follows
// the page changes in it, old and new by turns, such as "ID=b", "ID=c".
func (m *machine) run(name string, changes ...string) string {
	m.t.Helper()
	text := find(m.t, name)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			m.t.Fatalf("%s has no %q", name, changes[i])
		}
	}
	out, err := m.try(strings.NewReplacer(changes...).Replace(text))
	if err != nil {
		m.t.Fatalf("machine %s: %s: %v\n%s", m.address, name, err, out)
	}
	return out
}

// command runs a command that a page has in the middle of its text, as `COMMAND`. It has to succeed.
func (m *machine) command(command string) string {
	m.t.Helper()
	return m.sh(inPages(m.t, command))
}

// finds runs a block that finds something wrong, which it has to say with status 1. It returns what it prints.
func (m *machine) finds(name string) string {
	m.t.Helper()
	out, err := m.try(find(m.t, name))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		m.t.Fatalf("machine %s: %s: %v, want status 1\n%s", m.address, name, err, out)
	}
	return out
}

// sh runs commands of the test's own, in the same way.
func (m *machine) sh(commands string) string {
	m.t.Helper()
	out, err := m.try(commands)
	if err != nil {
		m.t.Fatalf("machine %s: %s: %v\n%s", m.address, commands, err, out)
	}
	return out
}

// try runs commands, each of which has to succeed, in the folder home of the machine.
func (m *machine) try(commands string) (string, error) {
	m.t.Helper()
	shims, err := filepath.Abs("testdata/bin")
	if err != nil {
		m.t.Fatal(err)
	}
	return script(m.t.Context(), filepath.Join(m.root, "home"), m.here(m.shell+commands),
		"PATH="+shims+":"+m.path("/usr/local/bin")+":"+os.Getenv("PATH"), "MACHINE="+m.root, "SITE="+m.dir,
		"QUICK="+quick, "TEST="+strconv.Itoa(os.Getpid()))
}

// script runs commands, each of which has to succeed, and returns what they print.
func script(ctx context.Context, dir, commands string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, blockPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "TZ=UTC"), env...)
	// Its process group ends with it. Services have groups of their own.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// waitFor waits until commands succeed and what they print has the text want.
func (m *machine) waitFor(commands, want string) {
	m.t.Helper()
	var out string
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if out, err = m.try(commands); err == nil && strings.Contains(out, want) {
			return
		}
	}
	m.t.Fatalf("machine %s: %s does not print %q: %v\n%s", m.address, commands, want, err, out)
}

// says checks that commands succeed and that what they print has the text want.
func (m *machine) says(commands, want string) {
	m.t.Helper()
	if out := m.sh(commands); !strings.Contains(out, want) {
		m.t.Fatalf("machine %s: %s prints no %q:\n%s", m.address, commands, want, out)
	}
}

// log returns the end of what the services of the machine have printed.
func (m *machine) log() string {
	text, err := os.ReadFile(filepath.Join(m.root, "run/log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// programsDir is the folder with the programs, once they are built.
var programsDir string

// build builds the programs with blocks of the pages.
var build = sync.OnceValue(func() error {
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var text string
	for _, name := range []string{"install shale", "install"} {
		part, err := lookup(name)
		if err != nil {
			return err
		}
		text += part
	}
	if programsDir, err = os.MkdirTemp("", "procedures"); err != nil {
		return err
	}
	out, err := script(context.Background(), top, strings.ReplaceAll(text, "/usr/local/bin", programsDir))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// programs returns the folder with the programs.
func programs(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return programsDir
}
