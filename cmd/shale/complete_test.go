package main

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

func TestComplete(t *testing.T) {
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
	s := &session{db: db, out: bufio.NewWriter(io.Discard)}
	for _, c := range []struct{ line, head, want, tail string }{
		{"", "", "[batch  check  checkpoint  compact  count  dedup  del  explain  filter  filters  flush  get  has  help  levels  may  metrics  put  quit  reopen  repair  scan  tables ]", ""},
		{"ge|", "", "[get ]", ""},
		{"get ap|", "get ", "[apple  apricot ]", ""},
		{"get ap| x", "get ", "[apple  apricot ]", " x"},
		{`get "a |`, "get ", `["a pear" ]`, ""},
		{"has apple f|", "has apple ", "[fig ]", ""},
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
		{"help filters |", "help filters ", "[export  may  rebuild ]", ""},
		{"filters e|", "filters ", "[export ]", ""},
		{"filters rebuild --h|", "filters rebuild ", "[--hash ]", ""},
		{"filters may |", "filters may ", "[]", ""},
		{"levels |", "levels ", "[]", ""},
		{"nonsense a|", "nonsense ", "[]", ""},
		{`get "x" y |`, `get "x" y `, "[]", ""},
	} {
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
		head, got, tail := s.complete(line, utf8.RuneCountInString(c.line[:pos]))
		if fmt.Sprint(got) != c.want || head != c.head || tail != c.tail {
			t.Errorf("complete(%q) = %q, %v, %q; want %q, %s, %q", c.line, head, got, tail, c.head, c.want, c.tail)
		}
	}
	// The last of many is among them: else the editor would take what the first
	// have in common for what all have.
	if _, got, _ := s.complete("get many", 8); len(got) != maxCompletions || got[maxCompletions-1] != "many199 " {
		t.Errorf("%d completions up to %s; want %d up to many199", len(got), got[len(got)-1], maxCompletions)
	}
}
