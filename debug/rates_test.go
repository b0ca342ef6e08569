package debug

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

// There is one sample a second, for any number of pages. Each is of the time since the one
// before, and no more than ten minutes are kept.
func TestRates(t *testing.T) {
	var r recorder
	var m shale.Metrics
	now := time.UnixMilli(1e12)
	looks := 0
	metrics := func() shale.Metrics { looks++; return m }
	for range 3 { // three look at the same time
		if list := r.look(now, metrics, 0); len(list) != 0 || looks != 1 {
			t.Fatalf("first look: %v, %d looks", list, looks)
		}
	}
	m.Gets, m.GetHits, m.FilterFalsePositive = 300, 100, 20
	list := r.look(now.Add(2*time.Second), metrics, 0)
	if len(list) != 1 || len(list[0]) != len(series)+1 {
		t.Fatalf("samples: %v", list)
	}
	for name, want := range map[string]rate{"gets": 150, "hits": 50, "misses": 100, "fpr": 0.1, "writes": 0} {
		i := slices.IndexFunc(series, func(s struct {
			name string
			of   func(*shale.Metrics, float64) float64
		}) bool {
			return s.name == name
		})
		if got := list[0][i+1]; got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if text, err := json.Marshal(list); err != nil || !strings.Contains(string(text), "null") {
		t.Errorf("without lookups of blocks: %s, %v; want null for the part of them in the cache", text, err)
	}
	if again := r.look(now.Add(2500*time.Millisecond), metrics, float64(list[0][0])); len(again) != 0 || looks != 2 {
		t.Errorf("half a second later: %v, %d looks", again, looks)
	}
	for i := range 2 * keepSamples {
		r.look(now.Add(time.Duration(3+i)*time.Second), metrics, 0)
	}
	list = r.look(now, metrics, 0)
	if len(list) != keepSamples || list[0][0] >= list[keepSamples-1][0] {
		t.Errorf("%d samples are kept", len(list))
	}
}

func TestStalls_ArePaired(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	got := stallsOf([]shale.Event{
		{Kind: shale.EventStallEnd, Time: at(10), Duration: 4 * time.Second, Reason: "slowed: a"},
		{Kind: shale.EventStallBegin, Time: at(20), Reason: "slowed: a"},
		{Kind: shale.EventFlush, Time: at(21)},
		{Kind: shale.EventStallBegin, Time: at(22), Reason: "b"},
		{Kind: shale.EventStallEnd, Time: at(25), Duration: 3 * time.Second, Reason: "b"},
		{Kind: shale.EventStallEnd, Time: at(28), Duration: time.Second, Reason: "b"}, // its beginning is forgotten
		{Kind: shale.EventStallEnd, Time: at(30), Duration: time.Second, Reason: "slowed: a"},
		{Kind: shale.EventStallBegin, Time: at(40), Reason: "b"},
	})
	want := []stall{
		{From: 6000, To: 10000, Seconds: 4, Reason: "slowed: a"},
		{From: 20000, To: 30000, Seconds: 1, Reason: "slowed: a"},
		{From: 22000, To: 25000, Seconds: 3, Reason: "b"},
		{From: 27000, To: 28000, Seconds: 1, Reason: "b"},
		{From: 40000, Reason: "b"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
