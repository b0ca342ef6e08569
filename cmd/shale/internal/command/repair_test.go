package command

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/repair"
)

// If the manifest can't say how far the store had come, what is saved may be newer than the number that is
// printed, and the sentence says what that means.
func TestRepair_OfALaterState(t *testing.T) {
	var notes bytes.Buffer
	s := &Session{Printer: output.Printer{Out: bufio.NewWriter(io.Discard)}, Notes: &LockedWriter{W: &notes}}
	r := &repair.Report{AsOf: 7}
	r.AtLeast = true
	writeAsOf(s, r)
	if want := "as of sequence number 7; it may also have later writes. Nothing shows"; !strings.Contains(notes.String(), want) {
		t.Errorf("%q, want %q in it", notes.String(), want)
	}
}
