package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/internal/testenv"
)

// bashWords asks a real bash for the completions of the last word.
const bashWords = `
source <(shale completion bash) || exit
complete -p shale >&2
COMP_WORDS=(shale "$@") COMP_CWORD=$# COMP_LINE="shale $*" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
$(complete -p shale | sed 's/.*-F \([^ ]*\) .*/\1/') 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
`

// childScript runs the test binary as the program.
const childScript = `#!/bin/sh
args=$(printf '%s\n' "$@"; printf .)
SHALE_CHILD_ARGS=${args%?.} exec "$SHALE_TEST_BINARY"
`

func TestCompletion_Bash(t *testing.T) {
	testenv.SkipRace(t)
	bash, err := exec.LookPath("bash")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no bash, or no script that stands for a program")
	}
	bin, dir := t.TempDir(), filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(filepath.Join(bin, "shale"), []byte(strings.Replace(childScript, "%?.", "%\n.", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, notes, st := call("", "-C", dir, "-e", "put apple 1", "-e", "put apricot 2", "-e", `put "a pear" 3`); st != command.Found {
		t.Fatal(notes)
	}
	for _, c := range []struct {
		words []string
		want  string // without descriptions if there are several
	}{
		{[]string{"cou"}, "count"},
		{[]string{"filters", "re"}, "rebuild"},
		{[]string{"scan", "--rev"}, "--reverse"},
		{[]string{"scan", "--mode", "json"}, "json jsonl"},
		{[]string{"import", "--format", ""}, "csv jsonl lines tsv"},
		{[]string{"-C", dir, "get", "ap"}, "apple apricot"},
		{[]string{"-C", dir, "scan", "--from", "apr"}, "apricot"},
		{[]string{"get", "-C", dir, "ap"}, "apple apricot"},
		{[]string{dir, "get", "ap"}, "apple apricot"},
		{[]string{"--readonly", dir, "--mode", "hex", "scan", "--from", "apr"}, "apricot"},
		{[]string{dir, "cou"}, "count"},
		{[]string{"-C", dir + "2", "get", "ap"}, ""},
		{[]string{"help", "filters", "e"}, "export"},
	} {
		cmd := exec.Command(bash, append([]string{"-c", bashWords, "bash"}, c.words...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SHALE_TEST_BINARY="+os.Args[0], "SHALE_DIR=")
		var notes strings.Builder
		cmd.Stderr = &notes
		out, err := cmd.Output()
		if err != nil || !strings.Contains(notes.String(), "complete ") || !strings.Contains(notes.String(), " shale") {
			t.Fatalf("%v: %v, %s", c.words, err, &notes)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			got = append(got, word)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.words, got, c.want)
		}
	}
}

// Each shell has a script. The error for an unknown shell names it.
func TestCompletion_Scripts(t *testing.T) {
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, notes, st := call("", "completion", name); st != command.Found || !strings.Contains(out, "shale") {
			t.Errorf("%s: status %d, %s", name, st, notes)
		}
	}
	if _, notes, st := call("", "completion", "csh"); st != command.Failed || !strings.Contains(notes, "csh is not one of bash, zsh, fish, powershell") {
		t.Errorf("csh: status %d, %s", st, notes)
	}
}

// The help of every command can be called in three ways, and needs no store.
func TestHelp_OfEveryCommand(t *testing.T) {
	for _, g := range command.Groups() {
		for _, makes := range g.Commands {
			c := makes()
			name := strings.Fields(c.Title)
			want, notes, st := call("", append([]string{"help"}, name...)...)
			if st != command.Found || !strings.HasPrefix(want, c.Title) || !strings.Contains(strings.Join(strings.Fields(want), " "), c.Short) {
				t.Errorf("help %s: status %d, %s%s", c.Title, st, want, notes)
			}
			for _, option := range []string{"--help", "-h"} {
				if got, notes, st := call("", append(name, option)...); st != command.Found || got != want {
					t.Errorf("%s %s: status %d, %s%s, want\n%s", c.Title, option, st, got, notes, want)
				}
			}
			for line := range strings.Lines(want) {
				if n := len([]rune(line)); n > 101 {
					t.Errorf("help %s has a line of %d columns: %s", c.Title, n, line)
				}
			}
		}
	}
}

// An option before the command has one letter, which its argument may follow, or two dashes.
func TestOptions_BeforeTheCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, notes, st := call("", "--new", "-C", dir, "--mode", "text", "put", "-key", "v"); st != command.Found {
		t.Fatalf("status %d, %s", st, notes)
	}
	for _, args := range [][]string{
		{"-C", dir, "--readonly", "--mode", "hex", "get", "-key"}, {"-C=" + dir, "--readonly=true", "--mode=hex", "get", "-key"},
		{"--mode=text", "--readonly", "-C" + dir, "get", "-key", "--mode", "hex"}, {"--store", dir, "--mode=hex", "get", "-key"},
	} {
		if out, notes, st := call("", args...); st != command.Found || out != "0x76\n" {
			t.Errorf("%v: status %d, %s%s", args, st, out, notes)
		}
	}
	if _, notes, st := call("", "-readonly", "-C", dir, "count"); st != command.Failed || !strings.Contains(notes, "did you mean --readonly;") {
		t.Errorf("-readonly: status %d, %s", st, notes)
	}
}

// The first word names the store unless it is a command, and an option does so anywhere.
func TestOptions_TheStore(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"a.db put k 1", ""},
		{"new put k 2", ""},                 // a command follows
		{"./count put k 3 --mode text", ""}, // no command has a separator
		{"a.db get k", "1\n"},
		{"--mode hex a.db get k", "0x31\n"},
		{"a.db --mode hex get k", "0x31\n"},
		{"new get k", "2\n"},
		{"new -e count", "1\n"},
		{"-C count get k", "3\n"},
		{"get -C count k", "3\n"},
		{"get k --store count", "3\n"},
		{"get k --store=new --readonly", "2\n"},
		{"-C a.db -C a.db get k", "1\n"},
		{"a.db get k -C a.db", "1\n"},
		{"a.db put -- -C a.db", ""},
		{"a.db get -- -C", "a.db\n"},

		{"a.db get k -C new", "shale: get: --store new is a second store, after a.db; name one"},
		{"-C a.db new count", "shale: unknown command new; did"},
		{"a.db gte k", "shale: unknown command gte; did you mean get? help"},
		{"gte k", "shale: gte is neither a command nor a store; did you mean get? help lists"},
		{"nothing", "shale: nothing is neither a command nor a store; help lists the commands, and -C names a new store"},
		{"set count 3", "shale: set is neither a command nor a store; did you mean put?"},
		{"count a.db", "shale: no store is named: write its folder before the command, or set SHALE_DIR; a.db is a store: write shale a.db count"},
		{"check a.db", "shale: usage: check; help check says more; a.db is a store: write shale a.db check"},
		{"a.db put k 1 --readonly", "shale: put writes, and --readonly was given"},
		{"missing.db get k", "shale: there is no store in missing.db; put"},
	} {
		out, notes, st := call("", strings.Fields(c.args)...)
		if failed := strings.HasPrefix(c.want, "shale: "); failed != (st != command.Found) || failed && !strings.HasPrefix(notes, c.want) || !failed && out != c.want {
			t.Errorf("shale %s: status %d, %s%s; want %s", c.args, st, out, notes, c.want)
		}
	}
}

// Without a store and without a command there is nothing to do, which is a mistake and not a success.
func TestOptions_NothingIsAskedFor(t *testing.T) {
	if _, notes, st := call(""); st != command.Failed || !strings.Contains(notes, "no store is named") {
		t.Errorf("status %d, %s", st, notes)
	}
	if out, notes, st := call("\ufeffhelp get\r\n"); st != command.Found || !strings.HasPrefix(out, "get KEY") {
		t.Errorf("a script that an editor has marked as UTF-8: status %d, %s%s", st, out, notes)
	}
	if _, notes, _ := call("", "-C"); notes != "shale: option -C needs an argument: -C DIR; -h lists the options\n" {
		t.Error(notes)
	}
}

func TestVersion(t *testing.T) {
	out, notes, st := call("", "--version")
	if st != command.Found || !strings.Contains(out, "commit") || !strings.Contains(out, "go1.") || !strings.Contains(out, "files of a store  1") {
		t.Errorf("status %d, %s%s", st, out, notes)
	}
}
