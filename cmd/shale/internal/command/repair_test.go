package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/repair"
)

// If the manifest can't say how far the store had come, what is saved may be newer than the number that is
// printed, and the sentence says what that means.
func TestRepair_OfALaterState(t *testing.T) {
	var out bytes.Buffer
	s := &Session{Printer: output.Printer{Out: bufio.NewWriter(&out)}}
	r := &repair.Report{AsOf: 7, AtLeast: true}
	writeAsOf(s, r)
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "as of sequence number 7; it may also have later writes. Nothing shows"; !strings.Contains(out.String(), want) {
		t.Errorf("%q, want %q in it", out.String(), want)
	}
}

// Package repair works for two commands. An error that stops them begins with the name of the one that was called, and
// a file that was not there is not said to be as it was.
func TestRepair_NamesTheCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, notes, st := call("", "db", "put", "k", "v"); st != Found {
		t.Fatal(notes)
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"db repair db/in", "shale: db/in lies in the folder of the store"},
		{"db repair db", "shale: db lies in the store; repair only reads"},
		{"db repair file", "shale: file is there already; name a new"},
		{"db repair file/sub", "shale: repair: "},
		{"db export file/x.tsv", "shale: file/x.tsv: "},
	} {
		_, notes, st := call("", strings.Fields(c.args)...)
		if st != Failed || !strings.HasPrefix(notes, c.want) || strings.Contains(notes, "repair: repair") || strings.Contains(notes, "file already exists") || strings.Contains(notes, "as it was") {
			t.Errorf("shale %s: status %d, %s; want %s", c.args, st, notes, c.want)
		}
	}
	if got := repairError("check", "db", fmt.Errorf("repair: %w", fs.ErrPermission)).Error(); got != "check: permission denied" {
		t.Error(got)
	}
}
