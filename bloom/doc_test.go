package bloom

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// costs are columns of the table in the package comment, as text.
type costs struct{ bits, passes, add, ask string }

// docCosts reads the table in the package comment, where the figures have their place.
func docCosts(t *testing.T) map[string]costs {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^//\t([A-Z]\w+) +([\d.]+(?: a number)?) +([\d.]+ %|none) +([\d.]+) +([\d.]+) `)
	rows := make(map[string]costs)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = costs{m[2], m[3], strings.TrimSuffix(m[4], "."), m[5]}
	}
	if len(rows) != 8 {
		t.Fatalf("%d types in the table of the package comment, want 8", len(rows))
	}
	return rows
}

// The tables of README.md quote those of the package comment: every type, with the same figures.
func TestReadme_QuotesThePackageComment(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("..", " to ", "1.00 %", "1 %")
	row := regexp.MustCompile("^`(?:bloom|sketch)\\.(\\w+)`")
	want := docCosts(t)
	for _, table := range []struct {
		head   string
		name   int // the columns of the type, and of the figures
		first  int
		second int
		of     func(c costs) (first, second string)
	}{
		{"| you have | take |", 2, 3, 4, func(c costs) (string, string) { return c.bits, c.passes }},
		{"| type | add | ask |", 1, 2, 3, func(c costs) (string, string) { return c.add, c.ask }},
	} {
		_, rest, _ := strings.Cut(string(text), "\n"+table.head)
		rest, _, _ = strings.Cut(rest, "\n\n")
		seen := 0
		for line := range strings.SplitSeq(rest, "\n") {
			columns := strings.Split(line, " | ")
			columns[0] = strings.TrimPrefix(columns[0], "| ")
			columns[len(columns)-1] = strings.TrimSuffix(columns[len(columns)-1], " |")
			if len(columns) <= table.second-1 {
				continue
			}
			m := row.FindStringSubmatch(columns[table.name-1])
			if m == nil || want[m[1]] == (costs{}) {
				continue
			}
			seen++
			first, second := table.of(want[m[1]])
			got := strings.TrimSuffix(columns[table.first-1], " (built at once)")
			if got != plain.Replace(first) || columns[table.second-1] != plain.Replace(second) {
				t.Errorf("README.md, %s: %s, %s; the package comment has %s, %s", m[1], got, columns[table.second-1], first, second)
			}
		}
		if seen != len(want) {
			t.Errorf("README.md has %d types below %q, the package comment %d", seen, table.head, len(want))
		}
	}
}
