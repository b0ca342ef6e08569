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
//
// It goes over the fields of Metrics by reflection, so that a new counter is shown without a change
// here.
func (s *Session) showCounters(m shale.Metrics) error {
	g := output.NewGrid("counter", ">value")
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch d, isTime := f.Interface().(time.Duration); {
		case isTime:
			g.Row(snakeCase(name), d)
		case f.CanInt():
			g.Row(snakeCase(name), f.Int())
		case f.CanUint():
			g.Row(snakeCase(name), f.Uint())
		}
	}
	return s.Show(g)
}

// snakeCase turns CacheHits into cache_hits, and WALBytes into wal_bytes.
//
// These are the names in which Prometheus and JSON have counters.
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
