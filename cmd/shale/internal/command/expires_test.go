package command

import (
	"bufio"
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The format jsonl carries the time at which a value expires, and back.
func TestRecords_Expires(t *testing.T) {
	var out bytes.Buffer
	w := newRecordWriter(&out, formatJSONL)
	want := []time.Time{time.UnixMilli(1_900_000_000_123), {}}
	for _, at := range want {
		if err := w.write([]byte("k"), []byte("v"), at); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), `"expires_ms":1900000000123`); got != 1 {
		t.Errorf("written:\n%s", out.String())
	}
	out.WriteString(`{"key":"k","expires_ms":"soon"}` + "\n")
	in, err := newRecordReader(bufio.NewReader(&out), recordForm{format: formatJSONL}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range want {
		if rec, err := in.next(); err != nil || !rec.expires.Equal(at) {
			t.Errorf("read: until %v, %v, want %v", rec.expires, err, at)
		}
	}
	if _, err := in.next(); err == nil || !strings.Contains(err.Error(), "expires_ms") {
		t.Errorf("a time that is none: %v", err)
	}
}

// At the prompt, get says when a value expires, and nothing of one that does not.
func TestGet_Expires(t *testing.T) {
	y := newTyped(t, filepath.Join(t.TempDir(), "db"))
	y.lines("put a 1 --ttl 999h", "put b 2")
	if got := y.lines("get b"); got != "2\n" {
		t.Errorf("get of a value that does not expire: %q", got)
	}
	got := y.lines("get a")
	if line, rest, _ := strings.Cut(got, "\n"); line != "1" || !strings.HasPrefix(rest, "expires at 2") || !strings.Contains(rest, "Z, in 999 h 0 min") {
		t.Errorf("get of a value that expires: %q", got)
	}
}
