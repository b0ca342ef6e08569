//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/internal/companion"
)

// install puts a script in the place of the program shale-remote, and nothing else that PATH had before it.
func install(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, companion.Program), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

// TestCompanion_Arguments checks that the program gets every word and option as it was given, and the store.
func TestCompanion_Arguments(t *testing.T) {
	install(t, `printf '<%s>' "$@"; printf ' %s\n' "$SHALE_DIR"`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ship", "db", "/backup/a b"}, "<ship><--><db></backup/a b> "},
		{[]string{"-C", "my.db", "ship", "s3://host/bucket"}, "<ship><--><s3://host/bucket> my.db"},
		{[]string{"ship", "--once", "--every", "5s", "db", "--strict", "b"}, "<ship><--once><--strict><--every=5s><--><db><b> "},
		{[]string{"restore", "b", "db", "--at=seq:7"}, "<restore><--at=seq:7><--><b><db> "},
		{[]string{"restore", "--at", "", "b", "--", "--db"}, "<restore><--at=><--><b><--db> "},
		{[]string{"verify", "--bucket", "b", "--deep", "--mode", "json"}, "<verify><--deep><--bucket=b><--> "},
		{[]string{"pin", "b", "before-upgrade", "--owner", "ann & bob"}, "<pin><--owner=ann & bob><--><b><before-upgrade> "},
		{[]string{"-e", `restore b "a\x20b"`}, "<restore><--><b><a b> "},
	} {
		if out, notes, st := call("", c.args...); st != command.Found || out != c.want+"\n" || notes != "" {
			t.Errorf("%q: status %d, %s%s; want %s", c.args, st, out, notes, c.want)
		}
	}
}

// TestCompanion_Mistakes checks that mistakes are found before the program is started.
func TestCompanion_Mistakes(t *testing.T) {
	install(t, `echo it was started`)
	for want, args := range map[string][]string{
		"usage: ship [DIR] BUCKET": {"ship"}, "usage: restore BUCKET DIR": {"restore", "b"}, "unknown option --att; did you mean --at?": {"restore", "--att", "x", "b", "d"},
		"option --at needs an argument: --at POINT": {"restore", "b", "d", "--at"}, "usage: pin BUCKET NAME": {"pin", "b", "n", "x"},
	} {
		if out, notes, st := call("", args...); st != command.Failed || out != "" || !strings.Contains(notes, want) {
			t.Errorf("%q: status %d, %s%s; want %s", args, st, out, notes, want)
		}
	}
}

// TestCompanion_NotInstalled checks that the error says what to do.
func TestCompanion_NotInstalled(t *testing.T) {
	install(t, "")
	for _, c := range companion.Commands() {
		out, notes, st := call("", append([]string{c.Name}, strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(c.Words))...)...)
		if want := "cd remote/cmd && go install ./shale-remote"; st != command.Failed || out != "" || !strings.Contains(notes, want) {
			t.Errorf("%s: status %d, %s%s", c.Name, st, out, notes)
		}
	}
	if _, err := os.Stat("../../" + companion.Module + "/" + companion.Program); err != nil {
		t.Errorf("the error names a directory: %v", err)
	}
}

// TestCompanion_Status passes on the status of the program. A script ends where the program fails.
func TestCompanion_Status(t *testing.T) {
	install(t, `echo out; echo err >&2; exit $2`)
	for _, c := range []struct {
		status, notes string
		want          command.Status
	}{
		{"0", "err\n", command.Found}, {"1", "err\n", command.Absent}, {"2", "err\n", command.Failed}, {"7", "exit status 7", command.Failed},
	} {
		script := strings.Replace(`echo out; echo err >&2; exit N`, "N", c.status, 1)
		install(t, script)
		if out, notes, st := call("", "pins", "b"); st != c.want || out != "out\n" || !strings.Contains(notes, c.notes) || c.want == command.Found && notes != c.notes {
			t.Errorf("status %s: %d, %q, %q", c.status, st, out, notes)
		}
		out, notes, st := call("", "-C", cmdtest.NewStore(t, 1), "-e", "count", "-e", "pins b", "-e", "count")
		if want := "1\nout\n1\n"; c.want < command.Failed && (out != want || st != c.want) || c.want == command.Failed && (out != "1\nout\n" || !strings.Contains(notes, "line 2: ")) {
			t.Errorf("status %s in a script: %d, %q, %q", c.status, st, out, notes)
		}
	}
	install(t, `kill -9 $$`)
	if _, notes, st := call("", "pins", "b"); st != command.Failed || !strings.Contains(notes, "signal: killed") {
		t.Errorf("killed: %d, %q", st, notes)
	}
}

// TestCompanion_Streams checks that the program has the standard files, and a script keeps its own lines.
func TestCompanion_Streams(t *testing.T) {
	install(t, `cat`)
	c := start(t, "", "pins", "b")
	c.send(t, "from standard input\n")
	c.wantLine(t, "from standard input")
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if out, st := c.end(t); out != "" || st != 0 {
		t.Errorf("status %d, %q, %s", st, out, &c.notes)
	}
	if out, notes, st := call("pins b\nhelp --mode csv pins\n", "-C", "db"); st != command.Found || !strings.HasPrefix(out, "pins BUCKET") {
		t.Errorf("a script: status %d, %q, %s", st, out, notes)
	}
}

// TestCompanion_LetsGoOfTheStore checks that a script does not keep the store open that the program opens.
func TestCompanion_LetsGoOfTheStore(t *testing.T) {
	dir := cmdtest.NewStore(t, 1)
	t.Setenv("SHALE_TEST_BINARY", os.Args[0])
	install(t, "SHALE_CHILD_ARGS=\"$(printf 'put\\nfrom-the-program\\nv')\" exec \"$SHALE_TEST_BINARY\"")
	if out, notes, st := call("", "-C", dir, "-e", "put k v", "-e", "ship b", "-e", "count"); st != command.Found || out != "3\n" {
		t.Errorf("status %d, %q, %s", st, out, notes)
	}
}

// TestCompanion_Signals checks that a signal reaches the program, and that its end is waited for.
func TestCompanion_Signals(t *testing.T) {
	for _, sig := range endingSignals(t) {
		install(t, `trap 'echo it says goodbye; exit 0' TERM; trap '' INT; echo ready; while :; do sleep 0.01; done`)
		c := start(t, "", "ship", "db", "b")
		c.wantLine(t, "ready")
		c.signal(t, sig)
		if out, st := c.end(t); st != 0 || out != "it says goodbye\n" {
			t.Errorf("%v: status %d, %q, %s", sig, st, out, &c.notes)
		}
	}
}

// TestCompanion_Beside prefers the program next to shale.
func TestCompanion_Beside(t *testing.T) {
	install(t, `echo the one on PATH`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), companion.Program)
	if err := os.WriteFile(beside, []byte("#!/bin/sh\necho the one next to it\n"), 0o700); err != nil {
		t.Skip(err)
	}
	defer os.Remove(beside)
	if out, _, _ := call("", "pins", "b"); out != "the one next to it\n" {
		t.Errorf("%q is started", out)
	}
}
