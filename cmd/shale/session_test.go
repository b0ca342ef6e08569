package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shaledb/shale"
)

// call runs the program as main would, in the folder dir.
func call(in string, args ...string) (out, notes string, st status) {
	var o, e bytes.Buffer
	st = run(environment{
		args: args, in: strings.NewReader(in), out: &o, err: &e,
		getenv: func(string) string { return "" }, more: promptCommands(),
	})
	return o.String(), e.String(), st
}

// varying is what differs from run to run, times, and memory the size of a
// machine's words.
var (
	varying = regexp.MustCompile(`\d+(\.\d+)? ?(µs|ms|s\b)(, [0-9,]+ lines/s)?`)
	memory  = regexp.MustCompile(`(?m)^memory: .*$`)
)

// Sessions as text: `run` is one command, its words one a line; `script` is a
// script on standard input; `input` is what commands read from now on; `file` makes a file, `flip` changes a byte of one. Output is shown as it is,
// complaints after it with ! before each line, then the status unless it is 0.
func TestSessions(t *testing.T) {
	datadriven.Walk(t, "testdata/sessions", func(t *testing.T, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		input := "from standard input"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			flags := []string{"-C", "db"}
			for _, arg := range d.CmdArgs {
				flags = append(flags, arg.String())
			}
			var out, notes string
			var st status
			switch d.Cmd {
			case "input":
				input = d.Input + "\n"
				return ""
			case "run":
				if d.Input != "" {
					flags = append(flags, strings.Split(d.Input, "\n")...)
				}
				out, notes, st = call(input, flags...)
			case "script":
				out, notes, st = call(d.Input+"\n", flags...)
			case "flip":
				flip(t, d.CmdArgs[0].String(), d.CmdArgs[1].String())
				return ""
			case "file":
				if err := os.WriteFile(d.CmdArgs[0].String(), []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return transcript(out, notes, st)
		})
	})
}

// flip changes the byte of a file at an offset.
func flip(t *testing.T, name, offset string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.Atoi(offset)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x55
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func transcript(out, notes string, st status) string {
	var s strings.Builder
	for line := range strings.Lines(out) {
		s.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	for line := range strings.Lines(notes) {
		s.WriteString("! " + line)
	}
	if st != found {
		fmt.Fprintf(&s, "status %d\n", st)
	}
	return memory.ReplaceAllString(varying.ReplaceAllString(s.String(), "<time>"), "memory: <sizes>")
}

func TestReadingBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// One key in a table, one in the log only.
	for _, err := range []error{
		db.Put([]byte("flushed"), []byte("v")), db.Flush(t.Context()), db.Put([]byte("k"), []byte("v")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, notes, _ := call("", "-C", dir, "scan"); out != "flushed\tv\nk\tv\n" {
		t.Errorf("scan beside a writer = %q, %s", out, notes)
	}
	for _, args := range [][]string{
		{"get", "k"}, {"has", "k", "flushed"}, {"may", "k"}, {"count"}, {"explain", "flushed"},
		{"levels"}, {"tables"}, {"filters"}, {"metrics"}, {"check"},
	} {
		if out, notes, st := call("", append([]string{"-C", dir}, args...)...); st != found {
			t.Errorf("%v beside a writer: status %d, %s%s", args, st, out, notes)
		}
	}
	if _, notes, st := call("", "-C", dir, "put", "k", "w"); st != failed || !strings.Contains(notes, "process") {
		t.Errorf("put beside a writer: status %d, %q; want 2 and the owner's process", st, notes)
	}
}

func TestMissingStoreIsNotMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	for _, args := range [][]string{{"get", "k"}, {"del", "k"}, {"flush"}, {"scan"}, {"check"}, {"repair", "into"}} {
		if _, notes, st := call("", append([]string{"-C", dir}, args...)...); st != failed || !strings.Contains(notes, "no store") {
			t.Errorf("%v: status %d, %q", args, st, notes)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("%v made a store", args)
		}
	}
}

// brokenWriter is a pipe whose reader is gone.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "v"); st != found {
		t.Fatal(notes)
	}
	var notes bytes.Buffer
	st := run(environment{args: []string{"-C", dir, "get", "k"}, out: brokenWriter{}, err: &notes, getenv: func(string) string { return "" }})
	if st != failed || !strings.Contains(notes.String(), "broken pipe") {
		t.Errorf("status %d, %q; want 2 and the error of the output", st, notes.String())
	}
}

// Whoever closes the pipe, as head does, wants no message, and it is no error.
func TestClosedPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "v"); st != found {
		t.Fatal(notes)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var notes bytes.Buffer
	for _, args := range [][]string{{"scan"}, {"count"}, {"tables"}, {"help"}, {"-h"}} {
		_, _, want := call("", append([]string{"-C", dir}, args...)...)
		st := run(environment{args: append([]string{"-C", dir}, args...), out: w, err: &notes, getenv: func(string) string { return "" }})
		if runtime.GOOS != "windows" && (st != want || notes.Len() > 0) {
			t.Errorf("%v: status %d, %q; want %d and no word", args, st, notes.String(), want)
		}
	}
	// To lose what cannot be printed again, or what is not done, is an error.
	for _, args := range [][]string{{"dedup", "--quiet"}, {"-e", "scan", "-e", "put l v"}} {
		notes.Reset()
		st := run(environment{args: append([]string{"-C", dir}, args...), in: strings.NewReader("a\n"), out: w, err: &notes,
			getenv: func(string) string { return "" }})
		if runtime.GOOS != "windows" && (st != failed || strings.Count(notes.String(), "nobody reads the output any more") != 1) {
			t.Errorf("%v: status %d, %q; want 2 and why", args, st, notes.String())
		}
	}
}

// A program that sends commands one by one gets each answer before it sends
// the next.
func TestScriptAnswersAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	commands, in := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan status)
	go func() {
		done <- run(environment{args: []string{"-C", dir}, in: commands, out: answers, err: io.Discard, getenv: func(string) string { return "" }})
	}()
	lines := bufio.NewScanner(out)
	for i := range 3 {
		fmt.Fprintf(in, "put k %d\nget k\n", i)
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Fatalf("answer %q, want %d", lines.Text(), i)
		}
	}
	in.Close()
	if st := <-done; st != found {
		t.Errorf("status %d", st)
	}
}

func TestRawValueGoesThroughAPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	value := "any\x00bytes\n\xff"
	if _, notes, st := call(value, "-C", dir, "put", "k", "-"); st != found {
		t.Fatal(notes)
	}
	if out, _, st := call("", "-C", dir, "get", "k", "--raw"); out != value || st != found {
		t.Errorf("get --raw = %q, status %d; want %q", out, st, value)
	}
}

func TestDamagedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "-e", "put k v", "-e", "flush"); st != found {
		t.Fatal(notes)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	if err := os.Truncate(tables[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, notes, st := call("", "-C", dir, "get", "k"); st != failed || !strings.Contains(notes, filepath.Base(tables[0])) {
		t.Errorf("get from a damaged store: status %d, %q; want 2 and the table's name", st, notes)
	}
	if err := os.Remove(tables[0]); err != nil {
		t.Fatal(err)
	}
	if _, notes, st := call("", "-C", dir, "get", "k"); st != failed || !strings.Contains(notes, filepath.Base(tables[0])) {
		t.Errorf("get from a store that lost a table: status %d, %q; want 2 and the table's name", st, notes)
	}
}

// newStore makes a store of n keys, k0 and so on.
func newStore(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b shale.Batch
	for i := range n {
		if err := b.Put(fmt.Appendf(nil, "k%d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}
