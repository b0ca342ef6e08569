package command

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/internal/testenv"
)

// A csvRow is the result of reading a record: its fields, or that it is wrong.
type csvRow struct {
	line   int
	fields []string // nil: it is wrong
}

func (r csvRow) String() string { return fmt.Sprintf("line %d: %q", r.line, r.fields) }

// rowsOf reads text with csvLines.
func rowsOf(t *testing.T, text string, most, long int) []csvRow {
	t.Helper()
	c := newCSVLines(bufio.NewReaderSize(strings.NewReader(text), 16))
	c.most, c.long = most, long
	var rows []csvRow
	for {
		line, err := c.next()
		var wrong *badLine
		switch {
		case err == io.EOF:
			return rows
		case errors.As(err, &wrong):
			rows = append(rows, csvRow{line: wrong.line})
		case err != nil && most < len(text):
			return rows // a line within a record is too long
		case err != nil:
			t.Fatalf("%q: %v", text, err)
		default:
			rows = append(rows, csvRow{line, slices.Clone(c.fields)})
		}
		if len(rows) > 2*len(text)+2 {
			t.Fatalf("%q: reading does not end", text)
		}
	}
}

// wantRows reads text with encoding/csv. After a wrong record it goes on with the line after the
// one in which the record begins.
func wantRows(t *testing.T, text string) []csvRow {
	t.Helper()
	var rows []csvRow
	for skipped := 0; ; {
		r := csv.NewReader(strings.NewReader(text))
		r.FieldsPerRecord = -1
		again := false
		for !again {
			fields, err := r.Read()
			var wrong *csv.ParseError
			switch {
			case err == io.EOF:
				return rows
			case errors.As(err, &wrong):
				rows = append(rows, csvRow{line: skipped + wrong.StartLine})
				skipped += wrong.StartLine
				for range wrong.StartLine {
					_, text, _ = strings.Cut(text, "\n")
				}
				again = true
			case err != nil:
				t.Fatal(err)
			default:
				line, _ := r.FieldPos(0)
				rows = append(rows, csvRow{skipped + line, fields})
			}
		}
	}
}

// csvLines returns the same records as encoding/csv. After a wrong record it reads the next line,
// and it loses no line.
func FuzzCSVLines(f *testing.F) {
	for _, text := range []string{
		"", "a,b\n", "a\r\n\r\n\nb", "\"a\nb\",c\n", "\"a\"\"b\",\n", "a,1\n\"b,2\nc,3\nd,4\n", "a\"b\nc\n", "\"a\nb\"c\nd\n", "\"\"\"\n,\"\r\n\"\r",
		"\"a\r\r\nb\"\r", ",,\n\n,\"", "a\r", "\"\",\"",
	} {
		f.Add(text)
	}
	f.Fuzz(checkCSVLines)
}

func checkCSVLines(t *testing.T, text string) {
	want := wantRows(t, text)
	for _, long := range []int{0, 5, 1 << 20} {
		got := rowsOf(t, text, 1<<20, long)
		if !slices.EqualFunc(got, want, func(a, b csvRow) bool {
			return a.line == b.line && (a.fields == nil) == (b.fields == nil) && slices.Equal(a.fields, b.fields)
		}) {
			t.Fatalf("%q, long from %d: read\n%v, want\n%v", text, long, got, want)
		}
		rowsOf(t, text, 5, long) // reading ends, whatever is too large
	}
}

func TestCSVLines_Random(t *testing.T) {
	testenv.SkipRace(t)
	const letters = "aab,,\"\"\"\n\n\r"
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	for range 6_000 {
		text := make([]byte, r.IntN(40))
		for i := range text {
			text[i] = letters[r.IntN(len(letters))]
		}
		checkCSVLines(t, string(text))
	}
}

// A quote that is never closed costs only its line, wherever it is. No other line is lost with
// --on-error skip, or with --from-line after it.
func TestImport_QuoteNeverClosed(t *testing.T) {
	testenv.SkipRace(t)
	const n = 3000
	for _, bad := range []int{1, 2, 1001, n} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file.csv")
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
		skipped := filepath.Join(dir, "skipped")
		out, notes, st := call("", "-C", skipped, "import", file, "--on-error", "skip")
		if want := fmt.Sprintf("line %d: the quote that opens in line %d is never closed", bad, bad); st != Absent || !strings.Contains(notes, want) ||
			!strings.Contains(out, "2,999 entries written") || !strings.Contains(out, "1 line skipped") {
			t.Errorf("line %d is skipped: status %d, %s%s", bad, st, out, notes)
		}
		resumed := filepath.Join(dir, "resumed")
		_, notes, st = call("", "-C", resumed, "import", file)
		if want := fmt.Sprintf("line %d: the quote", bad); st != Failed || !strings.Contains(notes, want) {
			t.Errorf("line %d stops: status %d, %s", bad, st, notes)
		}
		if _, notes, st = call("", "-C", resumed, "import", file, "--from-line", fmt.Sprint(bad+1)); st != Found {
			t.Errorf("--from-line %d: status %d, %s", bad+1, st, notes)
		}
		for _, db := range []string{skipped, resumed} {
			if got := len(cmdtest.Contents(t, db)); got != n-1 {
				t.Errorf("line %d, %s: %d entries, want %d", bad, filepath.Base(db), got, n-1)
			}
		}
	}
}
