package filtertest

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// File returns a file that a peer wrote. It skips the test on a machine without them.
func File(t testing.TB, name string) []byte {
	t.Helper()
	return testenv.ReadShared(t, "vectors/"+name)
}

// Rows returns the lines of a file of tab-separated columns.
func Rows(t testing.TB, name string, columns int) [][]string {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(string(File(t, name))) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != columns {
			t.Fatalf("%s: %d columns in %q, want %d", name, len(row), line, columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// Compare asks for each input of an .expect.tsv what the peer was asked. The
// answer is in the last column.
func Compare(t testing.TB, name string, columns int, ask func(row []string) bool) {
	t.Helper()
	rows := Rows(t, name, columns)
	differing, present := 0, 0
	for _, row := range rows {
		want := row[columns-1] == "1"
		if want {
			present++
		}
		if ask(row) != want {
			if differing++; differing <= 5 {
				t.Errorf("%s: %q: %v, the peer says %v", name, row[0], !want, want)
			}
		}
	}
	if present == 0 || present == len(rows) {
		t.Errorf("%s: %d of %d answers are yes: that tells nothing", name, present, len(rows))
	}
	t.Logf("%s: %d probes, %d answered yes by the peer, %d differing answers", name, len(rows), present, differing)
}

// Collisions returns sixteen keys with one hash, by bloom.Murmur3 with any seed.
func Collisions(t testing.TB) (keys [][]byte) {
	t.Helper()
	for _, row := range Rows(t, "murmur3-128-universal-collisions.tsv", 1)[1:] {
		key, err := hex.DecodeString(row[0])
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}

// Golden compares b with a golden file.
func Golden(t testing.TB, name string, b []byte) {
	t.Helper()
	if want := ReadGolden(t, name, func() []byte { return b }); !bytes.Equal(b, want) {
		t.Errorf("%s: written otherwise than it was: %d bytes, want %d", name, len(b), len(want))
	}
}
