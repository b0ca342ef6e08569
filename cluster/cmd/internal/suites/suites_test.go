// Package suites runs what others have written to test servers of these commands on shaled: Redis's unit tests, RedisBloom's,
// and those of the client go-redis. None of them is kept here. testdata has the tests that are expected to fail, each with the
// reason; any other failure fails, and so does a test of these lists that passes. It runs the examples of programs, too.
package suites

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/program"
	"github.com/shaledb/shale/internal/testenv"
)

// A server is a shaled in this process, alone in a folder of its own.
type server struct {
	args []string
	addr string // of this machine
	port string
	stop func()
}

// serve starts a server, which ends with the test.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := new(server)
	s.addr, s.port = free(t)
	s.args = slices.Concat([]string{"serve", t.TempDir(), "--addr", s.addr, "--http", "none", "--sync", "no"}, args)
	t.Cleanup(func() { s.stop() })
	s.start(t)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var notes bytes.Buffer
	var ended sync.WaitGroup
	ended.Go(func() {
		status := program.Run(ctx, program.Environment{Args: s.args, Out: &notes, Err: &notes, Getenv: func(string) string { return "" }})
		if status != 0 {
			t.Errorf("shaled has ended with status %d: %s", status, &notes)
		}
	})
	s.stop = func() { cancel(); ended.Wait() }
	answers(t, s.addr)
}

// restart ends the server and starts it again with what it has on disk.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.stop()
	s.start(t)
}

// free returns an address of this machine where nobody listens at the moment.
func free(t *testing.T) (addr, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustNil(t, err)
	mustNil(t, l.Close())
	addr = l.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	mustNil(t, err)
	return addr, port
}

// answers returns when a server takes connections.
func answers(t *testing.T, addr string) {
	t.Helper()
	testenv.WaitFor(t, addr, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close() // it was a question
		}
		return err == nil
	})
}

// given returns the folder that a variable names, and skips the test if there is none.
func given(t *testing.T, variable, source string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s is not given: it is a folder with the source of %s", variable, source)
	}
	return dir
}

// run runs a program, which may fail, and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if len(out) == 0 {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

// An outcome is what the tests of a suite have come to. Names have the file or the group in front, as the lists have them.
type outcome struct {
	passed  []string
	failed  map[string]string // with what they print
	ignored map[string]int    // tests, or groups of them, that did not run, by the reason
}

// A row of a list says why some tests are expected to fail.
type row struct {
	text, why string
	name      string         // of one test, or the beginning of names if * is behind it
	says      *regexp.Regexp // nil, or what the tests print
	used      bool
}

// covers reports whether the row is about a test that has failed.
func (r *row) covers(name, text string) bool {
	if r.says != nil {
		return r.says.MatchString(text)
	}
	begin, open := strings.CutSuffix(r.name, "*")
	return r.name == name || open && strings.HasPrefix(name, begin)
}

// judge compares what has failed with the list of what is expected to, and reports how many there are of each reason. A row that
// no test needs, or that a test passes, is a failure too: so the list does not outlive what it says.
func judge(t *testing.T, suite string, out outcome) {
	t.Helper()
	file := "testdata/" + suite + ".txt"
	list, counts := readList(t, file), make(map[string]int)
	for name, text := range out.failed {
		if i := slices.IndexFunc(list, func(r *row) bool { return r.covers(name, text) }); i >= 0 {
			list[i].used = true
			counts[list[i].why]++
		} else {
			t.Errorf("%s fails:\n%s", name, text)
		}
	}
	for _, r := range list {
		if !r.used {
			t.Errorf("%s: no test fails as %q says", file, r.text)
		}
		if i := slices.IndexFunc(out.passed, func(name string) bool { return r.says == nil && r.covers(name, "") }); i >= 0 {
			t.Errorf("%s: %s passes, though %q says that it can't", file, out.passed[i], r.text)
		}
	}
	t.Logf("of the tests of %s %d pass. %d can't, because they need:%s\nNot run were:%s",
		suite, len(out.passed), len(out.failed), table(counts), table(out.ignored))
	if len(out.passed) == 0 {
		t.Error("no test passes: they did not run")
	}
}

// table returns counts as lines, the largest first.
func table(counts map[string]int) string {
	var lines strings.Builder
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for _, name := range names {
		fmt.Fprintf(&lines, "\n%5d  %s", counts[name], name)
	}
	return lines.String()
}

// readList reads lines of NAME | WHAT IT NEEDS, or /WHAT IT PRINTS/ | WHAT IT NEEDS. Those that begin with # say nothing.
func readList(t *testing.T, file string) (list []*row) {
	t.Helper()
	text, err := os.ReadFile(file)
	mustNil(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndex(line, " | ")
		if at < 0 {
			t.Fatalf("%s: %q is no NAME | WHAT IT NEEDS", file, line)
		}
		r := &row{text: line, name: line[:at], why: line[at+3:]}
		if pattern, ok := strings.CutPrefix(r.name, "/"); ok {
			r.says, err = regexp.Compile("(?i)" + strings.TrimSuffix(pattern, "/"))
			mustNil(t, err)
		}
		list = append(list, r)
	}
	return list
}

func mustNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
