package command

import (
	"encoding/binary"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// Open leaves the filters of tables of a megabyte for later. Each command that shows what filters take waits for them, so all
// show the same.
func TestFiltersAreShownWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, &shale.Options{TableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Ingest(t.Context(), func(yield func(key, value []byte) bool) {
		for i := range uint64(500_000) {
			if !yield(binary.BigEndian.AppendUint64(nil, i), binary.BigEndian.AppendUint64(nil, i*0x9E3779B97F4A7C15)) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	gap, want := regexp.MustCompile(`  +`), ""
	for range 10 {
		for _, command := range []string{"levels", "metrics"} {
			out, notes, st := call("", "-C", dir, command)
			lines := strings.Split(out, "\n")
			columns := gap.Split(lines[0], -1)
			i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "L6 ") })
			if st != Found || i < 0 || strings.Contains(out, "loading") {
				t.Fatalf("%s: status %d, %s%s", command, st, out, notes)
			}
			got := gap.Split(lines[i], -1)[slices.Index(columns, "filters")]
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s: the filters take %s, and then %s", command, want, got)
			}
		}
	}
}
