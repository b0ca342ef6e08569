package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// export and import agree on the format, whatever the file's name says, or standard output: the
// copy has the same entries, byte for byte.
func TestExport_ImportGivesTheSame(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	var records strings.Builder
	for i, value := range []string{"", "plain", "a\ttab", "a\nline", `"quoted"`, "\x00\xff\xfe", `{"json": [1, "é"]}`, "0x41", "@file", "--option", "-"} {
		fmt.Fprintf(&records, "put %q %q\nput %q %q\n", fmt.Sprint("key", i), value, value+"!", fmt.Sprint("value", i))
	}
	if _, notes, st := call(records.String(), "-C", own); st != command.Found {
		t.Fatal(notes)
	}
	want := cmdtest.Contents(t, own)
	for i, file := range []string{"-", "entries", "entries.txt", "a.tsv", "a.csv", "a.jsonl", "a.ndjson", "a.json", "A.TSV", "-\n--format\ncsv", "-\n--format\njsonl", "a.b\n--format\ntsv"} {
		args := strings.Split(file, "\n")
		if args[0] != "-" {
			args[0] = filepath.Join(dir, args[0])
		}
		from, to := append([]string{"-C", own, "export"}, args...), append([]string{"-C", filepath.Join(dir, fmt.Sprint(i)), "import"}, args...)
		out, notes, st := call("", from...)
		if st != command.Found {
			t.Errorf("export %q: %s", args, notes)
		}
		if _, notes, st := call(out, to...); st != command.Found {
			t.Errorf("import %q: %s", args, notes)
		} else if got := cmdtest.Contents(t, to[1]); !maps.Equal(got, want) {
			t.Errorf("%q: %q were exported, and %q imported", args, want, got)
		}
	}
	for _, name := range []string{"out.parquet", "out.db", "out.tsv.gz"} {
		if _, notes, st := call("", "-C", own, "export", filepath.Join(dir, name)); st != command.Failed || !strings.Contains(notes, "names no format") {
			t.Errorf("export to %s: status %d, %s", name, st, notes)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// What a message says to write does what it says, when a shell has passed it on.
func TestMistake_AdviceWorksInAShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	dir := filepath.Join(t.TempDir(), "db")
	advice := regexp.MustCompile(`write -- before it `)
	for _, word := range []string{"--bogus", "0x123", "0xzz", `\"a`} {
		key := strings.TrimPrefix(word, `\`)
		_, notes, st := call("", "-C", dir, "put", key, "v")
		if st != command.Failed || !advice.MatchString(notes) {
			t.Fatalf("put %s: status %d, %s", word, st, notes)
		}
		// The program takes its arguments from this variable, one on each line.
		line := "SHALE_CHILD_ARGS=\"-C\n" + dir + "\nput\n--\n" + word + "\nv\""
		c := child(line+` "$0"`, "unused")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", line, err, out)
		}
		if _, there := cmdtest.Contents(t, dir)[key]; !there {
			t.Errorf("%s: the key %s is not there, but %q", line, key, cmdtest.Contents(t, dir))
		}
	}
}

// A lack of descriptors is one line with its cure, and not a line for each table.
func TestTooManyOpenFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no ulimit")
	}
	dir := filepath.Join(t.TempDir(), "db")
	var script []string
	for i := range 12 {
		script = append(script, "-e", fmt.Sprintf("put k%d v", i), "-e", "flush")
	}
	if _, notes, st := call("", append([]string{"-C", dir}, script...)...); st != command.Found {
		t.Fatal(notes)
	}
	met := 0
	for limit := 6; limit < 14; limit++ {
		for _, args := range []string{"count", "get\nk1", "put\na\nb", "compact", "check", "space", "levels"} {
			out, _ := child(fmt.Sprintf(`ulimit -n %d; exec "$0"`, limit), append([]string{"-C", dir}, strings.Split(args, "\n")...)...).CombinedOutput()
			if !bytes.Contains(out, []byte("too many open files")) {
				continue
			}
			met++
			if want := "shale: too many open files; raise the limit with ulimit -n, and run this again\n"; !strings.HasSuffix(string(out), want) || strings.Count(string(out), "too many") > 1 {
				t.Errorf("%s with %d files: %s", args, limit, out)
			}
		}
	}
	if met == 0 {
		t.Error("no limit was too low")
	}
}

// No command takes the store of another program for a damaged one, or leaves something in it.
func TestStoreOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	level, bolt := filepath.Join(dir, "level"), filepath.Join(dir, "bolt.db")
	for name, content := range map[string]string{
		filepath.Join(level, "CURRENT"):         "MANIFEST-000004\n",
		filepath.Join(level, "MANIFEST-000004"): "not ours",
		filepath.Join(level, "000005.sst"):      "not ours",
		bolt:                                    "0123456789abcdef\xed\xda\x0c\xed and so on",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := filesOf(t, dir)
	for _, args := range []string{"count", "put a b", "del a", "check", "space", "levels", "compact", "tables", "serve", "repair " + filepath.Join(dir, "into")} {
		_, notes, st := call("", append([]string{"-C", level}, strings.Fields(args)...)...)
		if st != command.Failed || !strings.Contains(notes, "no store of shale; it looks like one of LevelDB, RocksDB or Pebble") || strings.Contains(notes, "damage") {
			t.Errorf("%s: status %d, %s", args, st, notes)
		}
	}
	if _, notes, st := call("", "-C", bolt, "put", "a", "b"); st != command.Failed || !strings.Contains(notes, "is a file, not a store") {
		t.Errorf("a file of bbolt: status %d, %s", st, notes)
	}
	if after := filesOf(t, dir); !maps.Equal(before, after) {
		t.Errorf("the files were %q, and are %q", before, after)
	}
}
