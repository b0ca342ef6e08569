package command

import (
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// showCounters prints the metrics as a table with one counter on each line, for modes other
// than text. The levels are in the table of the command levels.
func (s *Session) showCounters(m shale.Metrics) error {
	g := output.NewGrid("counter", ">value")
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if c, ok := counterCell(v.Type().Field(i).Name, v.Field(i).Interface()); ok {
			g.Row(snakeCase(v.Type().Field(i).Name), c)
		}
	}
	return s.Show(g)
}

// counterCell returns the cell of a field of the metrics. It returns false for fields that
// are no counters, such as the levels.
func counterCell(name string, value any) (output.Cell, bool) {
	isSize := strings.HasSuffix(name, "Bytes") || strings.HasSuffix(name, "Memory") || name == "CompactionDebt"
	switch n := value.(type) {
	case time.Duration:
		return output.DurationCell(n), true
	case uint64:
		if isSize {
			return output.SizeCell(n), true
		}
		return output.NumberCell(n), true
	case int64:
		if isSize {
			return output.SizeCell(n), true
		}
		return output.NumberCell(n), true
	case int:
		return output.NumberCell(n), true
	}
	return output.Cell{}, false
}

// snakeCase turns CacheHits into cache_hits, and WALBytes into wal_bytes.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		// A capital letter begins a word if a small letter is before or after it.
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(rune(name[i-1])) || i+1 < len(name) && unicode.IsLower(rune(name[i+1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
