package shell

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/vfs"
)

// completions are lines with | at the cursor, and the completions offered for them.
var completions = []struct{ line, head, want, tail string }{
	{"ge|", "", "[get ]", ""},
	{"get ap|", "get ", "[apple  apricot ]", ""},
	{"get ap| x", "get ", "[apple  apricot ]", " x"},
	{`get "a |`, "get ", `["a pear" ]`, ""},
	{"has apple f|", "has apple ", "[fig ]", ""},
	{"has -apple f|", "has -apple ", "[fig ]", ""},
	{"put apple ap|", "put apple ", "[]", ""},
	{"get 0x617|", "get ", "[0x6170706c65  0x61707269636f74 ]", ""},
	{"get 0x617072|", "get ", "[0x61707269636f74 ]", ""},
	{"get 0xf|", "get ", "[]", ""},
	{"get 0xz|", "get ", "[]", ""},
	{"get é ap|", "get é ", "[]", ""},
	{"has é ap|x", "has é ", "[apple  apricot ]", "x"},
	{"scan --from ap|", "scan --from ", "[apple  apricot ]", ""},
	{"scan --limit ap|", "scan --limit ", "[]", ""},
	{"scan --keys ap|", "scan --keys ", "[apple  apricot ]", ""},
	{"scan --re|", "scan ", "[--reverse ]", ""},
	{"help rep|", "help ", "[repair ]", ""},
	{"help filters |", "help filters ", "[export  rebuild ]", ""},
	{"filters e|", "filters ", "[export ]", ""},
	{"filters rebuild --h|", "filters rebuild ", "[--help  --hash ]", ""},
	{"has --bundle |", "has --bundle ", `["a folder/" fig  fruit/]`, ""},
	{"has --bundle fig ap|", "has --bundle fig ", "[apple  apricot ]", ""},
	{"batch fr|", "batch ", "[fruit/]", ""},
	{"batch fruit/|", "batch ", "[fruit/apple ]", ""},
	{"batch ./f|", "batch ", "[./fig  ./fruit/]", ""},
	{`batch "a |`, "batch ", `["a folder/"]`, ""},
	{"batch none/|", "batch ", "[]", ""},
	{"checkpoint f|", "checkpoint ", "[fruit/]", ""},
	{"batch fr|", "batch ", "[fruit/]", ""},
	{"begin --r|", "begin ", "[--readonly ]", ""},
	{".m|", "", "[.mode ]", ""},
	{".mode |", ".mode ", "[text  hex  raw  json  jsonl  csv ]", ""},
	{".help rep|", ".help ", "[repair ]", ""},
	{"get apple --mode j|", "get apple --mode ", "[json  jsonl ]", ""},
	{"filters rebuild --kind |", "filters rebuild --kind ", "[blocked  fuse ]", ""},
	{"levels |", "levels ", "[]", ""},
	{"nonsense a|", "nonsense ", "[]", ""},
	{`get "x" y |`, `get "x" y `, "[]", ""},
}

func TestComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a folder/x", "fruit/apple", "fig", ".hidden"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, k := range []string{"apple", "apricot", "a pear", "0x", "fig"} {
		if err := db.Put([]byte(k), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if err := db.Put(fmt.Appendf(nil, "many%03d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	s := &command.Session{DB: db, Printer: output.Printer{Out: bufio.NewWriter(io.Discard)}}
	for _, c := range completions {
		pos := len(c.line)
		for i := range c.line {
			if c.line[i] == '|' {
				pos = i
			}
		}
		line := c.line
		if pos < len(line) {
			line = line[:pos] + line[pos+1:]
		}
		head, got, tail := complete(s, line, utf8.RuneCountInString(c.line[:pos]))
		if fmt.Sprint(got) != c.want || head != c.head || tail != c.tail {
			t.Errorf("complete(%q) = %q, %v, %q; want %q, %s, %q", c.line, head, got, tail, c.head, c.want, c.tail)
		}
	}
	// For an empty line these are all commands except those that begin with a dot.
	var all []string
	for _, g := range command.Groups() {
		for _, makes := range g.Commands {
			if c := makes(); !strings.ContainsAny(c.Title, ". ") {
				all = append(all, c.Title+" ")
			}
		}
	}
	slices.Sort(all)
	if _, got, _ := complete(s, "", 0); !slices.Equal(got, all) {
		t.Errorf("an empty line becomes %q, want %q", got, all)
	}
	// The last of many keys is offered. Otherwise the editor would take the common prefix of the first
	// keys for that of all keys.
	if _, got, _ := complete(s, "get many", 8); len(got) != command.MaxCompletions || got[command.MaxCompletions-1] != "many199 " {
		t.Errorf("%d completions up to %s; want %d up to many199", len(got), got[len(got)-1], command.MaxCompletions)
	}
}
