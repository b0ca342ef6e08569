package debug

import (
	"bufio"
	"expvar"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// exposed is a parsed answer of /metrics.
type exposed struct {
	kind, help map[string]string
	values     map[string]float64 // by name and labels
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	valueLine  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"\})? (\S+)$`)
	unitOfName = regexp.MustCompile(`^shale_[a-z0-9]+(_[a-z0-9]+)*$`)
)

// parseExposition reads Prometheus' text format as strictly as promtool check
// metrics does: each family once, in one piece, HELP and TYPE before its
// samples, no sample twice, counters and only they with names in _total.
func parseExposition(text string) (exposed, error) {
	x := exposed{map[string]string{}, map[string]string{}, map[string]float64{}}
	family := ""
	if !strings.HasSuffix(text, "\n") {
		return x, fmt.Errorf("the last line has no end")
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if m := headLine.FindStringSubmatch(line); m != nil {
			if err := x.head(m[1], m[2], m[3], &family); err != nil {
				return x, err
			}
			continue
		}
		m := valueLine.FindStringSubmatch(line)
		if m == nil || m[1] != family || x.kind[family] == "" {
			return x, fmt.Errorf("line out of place, or no sample: %s", line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return x, err
		}
		if _, twice := x.values[m[1]+m[2]]; twice {
			return x, fmt.Errorf("twice: %s", line)
		}
		x.values[m[1]+m[2]] = v
	}
	return x, nil
}

func (x exposed) head(what, name, rest string, family *string) error {
	switch {
	case what == "HELP" && x.help[name] != "":
		return fmt.Errorf("a second HELP of %s", name)
	case what == "HELP":
		x.help[name], *family = rest, name
	case name != *family || x.kind[name] != "":
		return fmt.Errorf("TYPE of %s out of place", name)
	case rest != "counter" && rest != "gauge":
		return fmt.Errorf("%s is a %s", name, rest)
	case (rest == "counter") != strings.HasSuffix(name, "_total"):
		return fmt.Errorf("%s is a %s", name, rest)
	case !unitOfName.MatchString(name):
		return fmt.Errorf("name %s", name)
	default:
		x.kind[name] = rest
	}
	return nil
}

func TestPrometheus(t *testing.T) {
	db := openStore(t)
	r := ask(t, Handler(db), http.MethodGet, "/metrics")
	if ct := r.Header.Get("Content-Type"); ct != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %s", ct)
	}
	x, err := parseExposition(get(t, Handler(db), "/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	m := db.Metrics()
	for name, want := range map[string]float64{
		"shale_gets_total":                          float64(m.Gets),
		"shale_flushes_total":                       float64(m.Flushes),
		`shale_memory_bytes{owner="filters"}`:       float64(m.FilterMemory),
		`shale_level_tables{level="1"}`:             float64(m.Levels[1].Tables),
		`shale_level_filter_bytes{level="6"}`:       float64(m.Levels[6].FilterBytes),
		`shale_stall_seconds_total{cause="level0"}`: 0,
		"shale_writable":                            1,
	} {
		if got, ok := x.values[name]; !ok || got != want {
			t.Errorf("%s = %v, %v; want %v", name, got, ok, want)
		}
	}
	for name := range x.help {
		if x.kind[name] == "" {
			t.Errorf("%s has no type", name)
		}
	}
	// Counters never fall from one request to the next.
	if _, err := db.Has([]byte("absent")); err != nil {
		t.Fatal(err)
	}
	later, err := parseExposition(get(t, Handler(db), "/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for sample, v := range x.values {
		name, _, _ := strings.Cut(sample, "{")
		if x.kind[name] == "counter" && later.values[sample] < v {
			t.Errorf("%s went from %v to %v", sample, v, later.values[sample])
		}
	}
}

func TestPublish(t *testing.T) {
	first, second := openStore(t), openStore(t)
	Publish("shale test", first)
	gets := func() uint64 { return decode[shale.Metrics](t, expvar.Get("shale test").String()).Gets }
	if got, want := gets(), first.Metrics().Gets; got != want || want == 0 {
		t.Errorf("%d gets are published, want %d", got, want)
	}
	if _, err := second.Has([]byte("k")); err != nil {
		t.Fatal(err)
	}
	Publish("shale test", second)
	if got, want := gets(), second.Metrics().Gets; got != want || want == first.Metrics().Gets {
		t.Errorf("%d gets are published, want %d of the second store", got, want)
	}
}
