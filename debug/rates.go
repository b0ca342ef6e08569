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

// A sample is taken when somebody asks for the rates, but at most one in sampleEvery. So
// nothing runs while nobody looks.
const (
	sampleEvery = 900 * time.Millisecond // less than the second after which the page asks again
	keepSamples = 600                    // ten minutes, at one a second
)

// series are the values of a sample. d is how much the metrics have grown since the
// sample before, and seconds how long ago that was. Most values are rates a second; fpr
// and cacheHitRatio are shares.
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

// A rate is a number, or NaN for a share of nothing. NaN is null as JSON.
type rate float64

// MarshalJSON writes r as a number or null.
func (r rate) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// part returns a / b, or NaN if b is 0.
func part(a, b uint64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// A recorder has the last samples. The zero value is ready to use.
type recorder struct {
	mu      sync.Mutex
	last    shale.Metrics // metrics at the time at
	at      time.Time
	samples [][]rate // time in milliseconds, then the values of series; the oldest first
}

// look takes a sample if enough time has passed, and returns the samples after
// since. since is in milliseconds.
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

// add appends a sample, and drops the oldest if there are too many. Requires: r.mu is held.
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

// A rates is the panel of rates, as JSON.
type rates struct {
	Series  []string `json:"series"`
	Samples [][]rate `json:"samples"`
}

// sampledRates returns the samples after the time ?since=, in milliseconds.
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
