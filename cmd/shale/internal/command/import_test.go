package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
)

// However often an import ends in the middle, it can go on where it says.
func TestImportGoesOn(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "file.tsv"), filepath.Join(dir, "db")
	const n = 5000
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("k%05d\t%d", i, i)
	}
	bad := []int{0, 1, 999, 1000, 2500, 2501, n - 1}
	for _, i := range bad {
		lines[i] = "no tab"
	}
	write := func() {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	from := 1
	for _, i := range bad {
		_, notes, st := call("", "-C", db, "import", file, "--from-line", fmt.Sprint(from))
		if want := fmt.Sprintf("line %d: ", i+1); st != Failed || !strings.Contains(notes, want) {
			t.Fatalf("status %d, %q; want 2 and %q", st, notes, want)
		}
		if _, says, ok := strings.Cut(notes, "--from-line "); ok {
			_, _ = fmt.Sscan(says, &from)
		} else if !strings.Contains(notes, "nothing was written") {
			t.Fatalf("it does not say how to go on: %q", notes)
		}
		if from != i+1 && i > 1 && i != 1000 && i != 2501 {
			t.Errorf("line %d is wrong, and --from-line is %d", i+1, from)
		}
		lines[i] = fmt.Sprintf("k%05d\t%d", i, i)
		write()
	}
	if out, notes, st := call("", "-C", db, "import", file, "--from-line", fmt.Sprint(from)); st != Found || !strings.HasPrefix(out, "1 entry written") {
		t.Errorf("status %d, %q, %q", st, out, notes)
	}
	if got := len(cmdtest.Contents(t, db)); got != n {
		t.Errorf("%d entries, want %d", got, n)
	}
}
