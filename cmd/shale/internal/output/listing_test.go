package output

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/quoting"
)

// hostile are keys and values that break careless programs.
var hostile = []string{
	"", " ", "plain", "a b", "a,b", `a"b`, `"quoted"`, "tab\tnewline\ncr\r\n", "\x00\x01\x1b[2J\x7f", "<script>alert(1)</script>&amp;",
	"\xff\xfe", "é\u0085\u009b2J", "\u2028\u202e", "日本", "\U000e0001", "0x6b", "--option", "-", "#", "=1+1", "│", strings.Repeat("k\n", 32<<10),
}

// listed prints pairs of the hostile strings in a mode.
func listed(t *testing.T, show Display) string {
	t.Helper()
	var b bytes.Buffer
	s := &Printer{Out: bufio.NewWriter(&b), Columns: func() int { return 80 }}
	s.Display = show
	l := s.List("key", "value")
	for i, k := range hostile {
		if err := l.Row(ByteCell([]byte(k)), ByteCell([]byte(hostile[len(hostile)-1-i]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// In no mode but raw does a key or value send control characters to the terminal.
func TestListing_NothingToObey(t *testing.T) {
	for i := range DisplayNames {
		if Display(i) == ShowRaw {
			continue
		}
		for _, r := range listed(t, Display(i)) {
			if r == utf8.RuneError || r != '\n' && r != '\t' && r != ' ' && !unicode.IsPrint(r) {
				t.Errorf("mode %v: prints %q", Display(i), r)
				break
			}
		}
	}
}

// Other programs can read the output and get the same bytes.
func TestListing_ReadBack(t *testing.T) {
	check := func(mode string, i int, key, value string) {
		t.Helper()
		if want := hostile[len(hostile)-1-i]; key != hostile[i] || value != want {
			t.Errorf("%s, row %d: %.50q, %.50q; want %.50q, %.50q", mode, i, key, value, hostile[i], want)
		}
	}
	field := func(row map[string]string, name string) string {
		text, ok := row[name]
		if ok {
			return text
		}
		b, err := base64.StdEncoding.DecodeString(row[name+"64"])
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	var rows []map[string]string
	if err := json.Unmarshal([]byte(listed(t, ShowJSON)), &rows); err != nil || len(rows) != len(hostile) {
		t.Fatal(len(rows), err)
	}
	for i, row := range rows {
		check("json", i, field(row, "key"), field(row, "value"))
	}
	lines := strings.Split(strings.TrimSpace(listed(t, ShowJSONLines)), "\n")
	for i, line := range lines {
		var row map[string]string
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		check("jsonl", i, field(row, "key"), field(row, "value"))
	}
	records, err := csv.NewReader(strings.NewReader(listed(t, ShowCSV))).ReadAll()
	if err != nil || len(records) != len(hostile)+1 || fmt.Sprint(records[0]) != "[key value]" {
		t.Fatal(len(records), err)
	}
	word := func(text string) string {
		if strings.HasPrefix(text, `"`) {
			w, _, err := quoting.Parse(text)
			if err != nil {
				t.Error(err)
			}
			return w
		}
		return text
	}
	for i, record := range records[1:] {
		check("csv", i, word(record[0]), word(record[1]))
	}
	lines = nil
	for _, f := range []Display{ShowText, ShowHex} {
		lines = append(lines, strings.Split(strings.TrimSuffix(listed(t, f), "\n"), "\n")...)
	}
	n := 0
	for _, line := range lines {
		key, value := twoWords(t, line)
		check("words", n%len(hostile), key, value)
		n++
	}
	if n != 2*len(hostile) {
		t.Errorf("%d lines of words, want %d", n, 2*len(hostile))
	}
}

// twoWords parses a line of two words with a tab between them.
func twoWords(t *testing.T, line string) (first, second string) {
	t.Helper()
	a, b, _ := strings.Cut(line, "\t")
	first, _, errA := quoting.Parse(a)
	second, _, errB := quoting.Parse(b)
	for _, word := range []string{a, b} {
		if errA != nil || errB != nil || word == "" || word[0] != '"' && strings.ContainsAny(word, " \t") {
			t.Fatalf("%.50q is not a line of two words: %v, %v", line, errA, errB)
		}
	}
	return first, second
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		value            any
		right            bool
		text, json, word string
	}{
		{"1,234", true, "1,234", "1234", "1234"},
		{"1,234", false, "1,234", `"1,234"`, "1,234"},
		{"1.50", true, "1.50", "1.5", "1.5"},
		{"-", true, "-", "null", "null"},
		{"", true, "", "null", "null"},
		{"NaN", true, "NaN", `"NaN"`, "NaN"},
		{"0x10", true, "0x10", `"0x10"`, "0x10"},
		{"a\x1bb", false, `a\x1bb`, `"a\u001bb"`, `a\x1bb`},
		{"\U000e0001", false, `\U000e0001`, `"\udb40\udc01"`, `\U000e0001`},
		{12345, true, "12,345", "12345", "12345"},
		{-5, true, "-5", "-5", "-5"},
		{uint64(1) << 63, true, "9,223,372,036,854,775,808", "9223372036854775808", "9223372036854775808"},
		{true, false, "true", "true", "true"},
		{1500 * time.Millisecond, true, "1.5 s", "1.5", "1.5"},
		{SizeCell(2048), true, "2.0 KiB", "2048", "2048"},
		{PercentCell(0.25), true, "25 %", "0.25", "0.25"},
		{KeyCell([]byte(strings.Repeat("k", 40))), false, strings.Repeat("k", 31) + "…", `"` + strings.Repeat("k", 40) + `"`, strings.Repeat("k", 40)},
		{KeysCell([]byte("a"), []byte("b c")), false, `a … "b c"`, `["a","b c"]`, `a "b c"`},
	} {
		cell := cellOf(c.value, c.right)
		text, js, word := cell.plain(AsWords), string(cell.appendJSON(nil)), string(cell.appendWord(nil, AsWords))
		if cell.isNull() {
			word = "null"
		}
		if text != c.text || js != c.json || word != c.word {
			t.Errorf("%v: %q, %s, %q; want %q, %s, %q", c.value, text, js, word, c.text, c.json, c.word)
		}
	}
}
