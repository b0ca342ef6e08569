package doc

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

var (
	digits = regexp.MustCompile(`\d[\d,.]*( ([KMG]i)?B\b)?`)
	spaces = regexp.MustCompile(`[ ─]+`)
)

// stable returns the lines of a page without figures and widths of columns. These depend on the
// version of the compressor and on the moment of a flush.
func stable(page string) []string {
	return strings.Split(spaces.ReplaceAllString(digits.ReplaceAllString(page, "N"), " "), "\n")
}

var rewrite = flag.Bool("rewrite", false, "write docs/COMMAND.md again")

// The page has what the program prints now. With -rewrite it is made again.
func TestPageIsUpToDate(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs all of its commands")
	}
	data := testenv.Shared(t, "data")
	committed, err := os.ReadFile("../../../docs/COMMAND.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := makePage("sections", data)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("../../../docs/COMMAND.md", []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page == string(committed) {
		return
	}
	got, want := stable(page), stable(string(committed))
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			t.Fatalf("docs/COMMAND.md, line %d, is not up to date: go test -C cmd ./shale/doc -rewrite\nthe program: %s", i+1, strings.Split(page, "\n")[i])
		}
	}
	if len(want) > len(got) {
		t.Errorf("docs/COMMAND.md has %d lines too many: go test -C cmd ./shale/doc -rewrite", len(want)-len(got))
	}
	t.Log("figures differ")
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"at most (default 2.5s), 3s":          "at most (default 2.5s), <time>",
		"get: 1.25 ms, then 3µs":              "get: <time>, then <time>",
		"at 12:03:04 on 2024-05-06":           "at <clock> on <date>",
		"3 lines, 1,330.5 lines/s, 1.5 MiB/s": "3 lines, <rate> lines/s, <rate> MiB/s",
		"read       1.0 ms, 3 ms":             "read  <time>, <time>",
		"where     time\na    3 ns":           "where  time\na  <time>",
		"10 seats, 3 strings, 12 msg":         "10 seats, 3 strings, 12 msg",
		"held by process 123 since 2m3.5s.":   "held by process <number> since <time>.",
	} {
		if got := mask(in); got != want {
			t.Errorf("mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReadSections(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSections(dir); err == nil {
		t.Error("no error for a folder without sections")
	}
	if err := os.WriteFile(dir+"/a.txt", []byte("== # Topic\nprose\n== get\n\n$ shale get k\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readSections(dir)
	if err != nil || len(got) != 2 || got[0] != (section{"# Topic", "prose\n"}) || got[1] != (section{"get", "\n$ shale get k\n"}) {
		t.Errorf("%q, %v", got, err)
	}
}
