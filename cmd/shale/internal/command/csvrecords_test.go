package command

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/internal/testenv"
)

// A quote that is never closed ends an import, because nobody knows which of the lines after it are
// records. The import says where it is, and --from-line goes on behind it: no other line is lost.
func TestImport_QuoteNeverClosed(t *testing.T) {
	testenv.SkipRace(t)
	const n = 3000
	for _, bad := range []int{1, 2, 1001, n} {
		dir := t.TempDir()
		file, db := filepath.Join(dir, "file.csv"), filepath.Join(dir, "db")
		var b strings.Builder
		for i := 1; i <= n; i++ {
			if i == bad {
				b.WriteString(`"`)
			}
			fmt.Fprintf(&b, "k%d,%d\n", i, i)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		skipped, wantStatus := 0, Failed
		if bad == n { // the mistake is within one line, which can be skipped
			skipped, wantStatus = 1, Absent
		}
		out, notes, st := call("", "-C", db, "import", file, "--on-error", "skip")
		if st != wantStatus || !strings.Contains(notes, fmt.Sprintf("line %d: a quote", bad)) || strings.Contains(out, "1 line skipped") != (skipped == 1) {
			t.Errorf("line %d: status %d, %s%s", bad, st, out, notes)
		}
		if bad == n {
			if got := len(cmdtest.Contents(t, db)); got != n-1 {
				t.Errorf("line %d is skipped: %d entries, want %d", bad, got, n-1)
			}
			continue
		}
		if _, notes, st := call("", "-C", db, "import", file, "--from-line", fmt.Sprint(bad+1)); st != Found {
			t.Errorf("--from-line %d: status %d, %s", bad+1, st, notes)
		}
		if got := len(cmdtest.Contents(t, db)); got != n-1 {
			t.Errorf("line %d: %d entries, want %d", bad, got, n-1)
		}
	}
}

// A record without an end is not read into memory as a whole.
func TestCSV_Limit(t *testing.T) {
	in := &limitedReader{in: io.MultiReader(strings.NewReader(`a,"`), endless{}), left: 1 << 20}
	if _, err := newCSV(in).Read(); !errors.Is(err, errLargeRecord) {
		t.Errorf("a record without an end: %v", err)
	}
	in = &limitedReader{in: strings.NewReader("a,b\nc,d\n"), left: 4}
	c := csv.NewReader(in)
	if fields, err := c.Read(); err != nil || len(fields) != 2 {
		t.Errorf("a record that ends in time: %q, %v", fields, err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }
