package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// Nothing that a command prints about a store is wider than the terminal.
func TestWidth_OfTheTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := "s.db"
	db, err := shale.Open(dir, &shale.Options{CompactionWorkers: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6_000 {
		if err := db.Put(fmt.Appendf(nil, "host%05d.example.org", i%4_000), fmt.Appendf(nil, "value %d", i)); err != nil {
			t.Fatal(err)
		}
		if i%1_500 == 0 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := "damaged.db"
	if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	tables, _ := filepath.Glob(damaged + "/*.sst") // the pattern is right
	f, err := os.OpenFile(tables[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 3); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
	for _, width := range []int{50, 80, 120} {
		for _, args := range [][]string{
			{"levels"}, {"tables"}, {"tables", "4"}, {"tables", "4", "blocks"}, {"filters"}, {"metrics"}, {"space"}, {"space", "host00"}, {"check"}, {"manifest"}, {"wal"},
			{"explain", "host00001.example.org"}, {"explain", "--versions", "host00001.example.org"}, {"explain", "absent"}, {"help"}, {"help", "space"},
			{"backup", "to"}, {"backup", "--list", "to"}, {"damaged"},
			{"-e", "get host00001.example.org", "-e", "get absent", "-e", "metrics"},
		} {
			store := dir
			if args[0] == "damaged" {
				store, args = damaged, []string{"check"}
			}
			var out, notes bytes.Buffer
			Run(Environment{
				Args: append([]string{store}, args...), Out: &out, Err: &notes, ToScreen: true,
				Getenv: func(string) string { return "" }, Columns: func() int { return width },
			})
			if out.Len() == 0 {
				t.Fatalf("%v: %s", args, &notes)
			}
			for line := range strings.Lines(strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(out.String())) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d columns, %v: %d wide: %s", width, args, n, line)
				}
			}
		}
	}
}

// What the prompt says by itself fits as well.
func TestWidth_OfSay(t *testing.T) {
	var out bytes.Buffer
	s := &Session{Mode: AtPrompt, Printer: output.Printer{Out: bufio.NewWriter(&out), Columns: func() int { return 30 }}}
	s.Say("%d words of a sentence that is wider than the terminal", 10)
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "10 words of a sentence that is\nwider than the terminal\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}
