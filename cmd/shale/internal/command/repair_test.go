package command

import (
	"bufio"
	"bytes"
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
