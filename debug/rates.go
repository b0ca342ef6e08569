package debug

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/shaledb/shale"
)

// Samples are taken when somebody asks for them, at most one in this time, so
// nothing runs while nobody looks.
const (
	sampleEvery = 900 * time.Millisecond // a page that asks each second may be a little early
	keepSamples = 600                    // ten minutes
)

// series are the rates, per second, and what is measured of one interval.
var series = []struct {
	name string
	of   func(d *shale.Metrics, seconds float64) float64
}{
	{"gets", func(d *shale.Metrics, s float64) float64 { return float64(d.Gets) / s }},
	{"hits", func(d *shale.Metrics, s float64) float64 { return float64(d.GetHits) / s }},
	{"misses", func(d *shale.Metrics, s float64) float64 { return float64(d.GetMisses) / s }},
	{"readsSaved", func(d *shale.Metrics, s float64) float64 { return float64(d.FilterNegative) / s }},
	{"falsePositives", func(d *shale.Metrics, s float64) float64 { return float64(d.FilterFalsePositive) / s }},
	{"fpr", func(d *shale.Metrics, _ float64) float64 { return part(d.FilterFalsePositive, d.GetMisses) }},
	{"blockReads", func(d *shale.Metrics, s float64) float64 { return float64(d.BlockReads) / s }},
	{"readBytes", func(d *shale.Metrics, s float64) float64 { return float64(d.BlockReadBytes) / s }},
	{"cacheHitRatio", func(d *shale.Metrics, _ float64) float64 { return part(d.CacheHits, d.CacheHits+d.CacheMisses) }},
	{"writes", func(d *shale.Metrics, s float64) float64 { return float64(d.Writes) / s }},
	{"writtenBytes", func(d *shale.Metrics, s float64) float64 { return float64(d.WrittenBytes) / s }},
	{"flushBytes", func(d *shale.Metrics, s float64) float64 { return float64(d.FlushBytes) / s }},
	{"compactBytes", func(d *shale.Metrics, s float64) float64 { return float64(d.CompactBytes) / s }},
	{"stalled", func(d *shale.Metrics, s float64) float64 { return d.StallTime.Seconds() / s }},
}

// A rate is a number, or NaN, which is null as JSON: of nothing there is no part.
type rate float64

// MarshalJSON writes r as a number or null.
func (r rate) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

func part(a, b uint64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// A recorder remembers the rates of the last minutes in which somebody looked.
// The zero value is ready.
type recorder struct {
	mu      sync.Mutex
	last    shale.Metrics
	at      time.Time
	samples [][]rate // time in milliseconds, then series; oldest first
}

// look adds a sample if it is time for one, and returns those after since.
func (r *recorder) look(now time.Time, metrics func() shale.Metrics, since float64) [][]rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := now.Sub(r.at); passed >= sampleEvery {
		m := metrics()
		if !r.at.IsZero() {
			r.add(now, m.Sub(r.last), passed.Seconds())
		}
		r.last, r.at = m, now
	}
	list := [][]rate{}
	for _, s := range r.samples {
		if float64(s[0]) > since {
			list = append(list, s)
		}
	}
	return list
}

func (r *recorder) add(now time.Time, d shale.Metrics, seconds float64) {
	row := []rate{rate(now.UnixMilli())}
	for _, s := range series {
		row = append(row, rate(s.of(&d, seconds)))
	}
	if len(r.samples) == keepSamples {
		r.samples = append(r.samples[:0], r.samples[1:]...)
	}
	r.samples = append(r.samples, row)
}

type rates struct {
	Series  []string `json:"series"`
	Samples [][]rate `json:"samples"`
}

// sampledRates returns the samples after that of ?since=, a time of one.
func (h *handler) sampledRates(r *http.Request) (any, error) {
	since := 0.0
	if text := r.FormValue("since"); text != "" {
		var err error
		if since, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("%w: since is no time in milliseconds", errBad)
		}
	}
	out := rates{Series: []string{"time"}, Samples: h.rates.look(time.Now(), h.db.Metrics, since)}
	for _, s := range series {
		out.Series = append(out.Series, s.name)
	}
	return out, nil
}
