package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// call runs the program as main would, in the folder dir.
func call(in string, args ...string) (out, notes string, st Status) {
	var o, e bytes.Buffer
	st = Run(Environment{
		Args: args, In: strings.NewReader(in), Out: &o, Err: &e,
		Getenv: func(string) string { return "" },
	})
	return o.String(), e.String(), st
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
		{"get", "k"}, {"has", "k", "flushed"}, {"has", "--filters", "k"}, {"count"}, {"explain", "flushed"},
		{"levels"}, {"tables"}, {"filters"}, {"metrics"}, {"check"},
	} {
		if out, notes, st := call("", append([]string{"-C", dir}, args...)...); st != Found {
			t.Errorf("%v beside a writer: status %d, %s%s", args, st, out, notes)
		}
	}
	if _, notes, st := call("", "-C", dir, "put", "k", "w"); st != Failed || !strings.Contains(notes, "process") {
		t.Errorf("put beside a writer: status %d, %q; want 2 and the owner's process", st, notes)
	}
}

// A session that is read-only sees before each command what the writer has done. If the folder has another
// store then, it sees that one; if the store can't be read any more, what it saw before.
func TestReadOnlySessionFollows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out bytes.Buffer
	s := &Session{Dir: dir, readOnly: true, Mode: AtPrompt, Printer: output.Printer{Out: bufio.NewWriter(&out)}, Notes: &LockedWriter{W: &out}}
	get := func(want string) {
		t.Helper()
		out.Reset()
		if _, err := s.RunLine("get k"); err != nil {
			t.Fatal(err)
		}
		if err := s.Out.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasSuffix(got, want+"\n") {
			t.Errorf("get k = %q, want %q", got, want)
		}
	}
	get("absent")
	first := (*shale.DB)(nil)
	for i := range 5 {
		if err := db.Put([]byte("k"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		get(fmt.Sprint(i))
		if first == nil {
			first = s.DB
		}
		if s.DB != first {
			t.Error("the store was opened again")
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+" before"); err != nil {
		t.Fatal(err)
	}
	get("4")
	if !strings.Contains(out.String(), "could not be read") {
		t.Errorf("%q does not say that the store is gone", out.String())
	}
	if _, notes, st := call("", "-C", dir, "put", "k", "other"); st != Found {
		t.Fatal(notes)
	}
	get("other")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever closes the pipe, as head does, wants no message, and it is no error.
func TestClosedPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "-C", dir, "put", "k", "v"); st != Found {
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
		st := Run(Environment{Args: append([]string{"-C", dir}, args...), Out: w, Err: &notes, Getenv: func(string) string { return "" }})
		if runtime.GOOS != "windows" && (st != want || notes.Len() > 0) {
			t.Errorf("%v: status %d, %q; want %d and no word", args, st, notes.String(), want)
		}
	}
	// It is an error if commands were not run.
	for _, args := range [][]string{{"-e", "scan", "-e", "put l v"}} {
		notes.Reset()
		st := Run(Environment{Args: append([]string{"-C", dir}, args...), In: strings.NewReader("a\n"), Out: w, Err: &notes,
			Getenv: func(string) string { return "" }})
		if runtime.GOOS != "windows" && (st != Failed || strings.Count(notes.String(), "the reader of the output has closed it") != 1) {
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
	done := make(chan Status)
	go func() {
		done <- Run(Environment{Args: []string{"-C", dir}, In: commands, Out: answers, Err: io.Discard, Getenv: func(string) string { return "" }})
	}()
	lines := bufio.NewScanner(out)
	for i := range 3 {
		fmt.Fprintf(in, "put k %d\nget k\n", i)
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Fatalf("answer %q, want %d", lines.Text(), i)
		}
	}
	in.Close()
	if st := <-done; st != Found {
		t.Errorf("status %d", st)
	}
}

func TestRawValueGoesThroughAPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	value := "any\x00bytes\n\xff"
	if _, notes, st := call(value, "-C", dir, "put", "k", "-"); st != Found {
		t.Fatal(notes)
	}
	if out, _, st := call("", "-C", dir, "get", "k", "--mode", "raw"); out != value || st != Found {
		t.Errorf("get --mode raw = %q, status %d; want %q", out, st, value)
	}
}

// While a prompt waits for a line, another program can write, and the prompt sees it. Only a transaction
// keeps the store.
func TestPrompt_HoldsNoLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	var out bytes.Buffer
	s := &Session{Dir: dir, Mode: AtPrompt, Printer: output.Printer{Out: bufio.NewWriter(&out)}, Notes: &LockedWriter{W: &out}}
	defer s.Close()
	run := func(line string) string {
		t.Helper()
		out.Reset()
		_, err := s.RunLine(line)
		if err != nil {
			return err.Error()
		}
		if err := s.Out.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	elsewhere := func(args ...string) string {
		_, notes, _ := call("", append([]string{dir}, args...)...)
		return notes
	}
	if got := run("put a 1"); got != "made a new store in "+dir+"\n" {
		t.Error(got)
	}
	if got := elsewhere("put", "b", "2"); got != "" {
		t.Errorf("after a put at the prompt: %s", got)
	}
	if words, _ := s.Complete([]Word{{Text: "get"}}, "a"); fmt.Sprint(words) != "[a]" {
		t.Errorf("Tab knows %v", words)
	}
	first := s.DB
	if got := run("scan"); got != "a\t1\nb\t2\n" {
		t.Error(got)
	}
	if got := run("put c 3"); got != "" || s.DB != first {
		t.Errorf("%s; the handle that reads was replaced: %t", got, s.DB != first)
	}
	if got := run("begin"); got != "" {
		t.Error(got)
	}
	if got := elsewhere("put", "d", "4"); !strings.Contains(got, "open for writing") {
		t.Errorf("in a transaction: %s", got)
	}
	run("put e 5")
	run("commit")
	if got := elsewhere("del", "b"); got != "" {
		t.Errorf("after a transaction: %s", got)
	}
	if got := run("scan"); got != "a\t1\nc\t3\ne\t5\n" {
		t.Error(got)
	}
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got := run("put f 6"); !strings.Contains(got, "open for writing; try again when it ends") {
		t.Errorf("next to a writer: %s", got)
	}
	if got := run("get a"); got != "1\n" {
		t.Error(got)
	}
}
