package output

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// shown returns a table of one row on a terminal of that width.
func shown(t *testing.T, width int, colours bool) string {
	t.Helper()
	var b bytes.Buffer
	p := &Printer{Out: bufio.NewWriter(&b), Columns: func() int { return width }, Colours: colours}
	g := NewGrid("table", ">entries", ">asked", "state", "keys")
	g.Row("000012", 1_234_567, NoCell("-"), In(Bad, "DAMAGED"), KeysCell([]byte("user:000000000000001"), []byte("user:000000000000999")))
	if err := p.Show(g); err != nil {
		t.Fatal(err)
	}
	if err := p.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A table fits the terminal. Keys are cut first, then columns without anything are left out, and at last each cell has a line. Numbers
// are never cut.
func TestGrid_FitsTheTerminal(t *testing.T) {
	whole := "table     entries  asked  state    keys\n" +
		"000012  1,234,567      -  DAMAGED  user:000000000000001 … user:000000000000999\n"
	for width, want := range map[int]string{
		0:  whole, // the width is unknown
		80: whole,
		78: whole,
		77: "table     entries  asked  state    keys\n" +
			"000012  1,234,567      -  DAMAGED  user:0000000000… … user:0000000000…\n",
		60: "table     entries  state    keys\n" +
			"000012  1,234,567  DAMAGED  user:000000… … user:000000…\n",
		40: "table    000012\nentries  1,234,567\nstate    DAMAGED\nkeys     user:000000… … user:000000…\n",
	} {
		if got := shown(t, width, false); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// Colours change nothing of a table but the colours.
func TestGrid_Colours(t *testing.T) {
	for _, width := range []int{80, 40} {
		got := shown(t, width, true)
		if plain := strings.ReplaceAll(strings.ReplaceAll(got, string(Bad), ""), "\x1b[0m", ""); plain != shown(t, width, false) {
			t.Errorf("%d columns: with colours:\n%s", width, got)
		}
		if !strings.Contains(got, "\x1b[31mDAMAGED\x1b[0m") {
			t.Errorf("%d columns: nothing is red in\n%q", width, got)
		}
	}
}

// A command that must end stops in the midst of a large value, and not of a small one.
func TestPrinter_StopsInALargeValue(t *testing.T) {
	var b bytes.Buffer
	pieces := 0
	p := &Printer{Out: bufio.NewWriter(&b), Stopped: func() error {
		if pieces++; pieces > 2 {
			return bufio.ErrTooLong
		}
		return nil
	}}
	if err := p.Write(make([]byte, 1<<20)); err != bufio.ErrTooLong || b.Len() != 128<<10 {
		t.Errorf("%d bytes were written, %v", b.Len(), err)
	}
	if err := p.Write([]byte("the end\n")); err != nil {
		t.Error(err)
	}
}
