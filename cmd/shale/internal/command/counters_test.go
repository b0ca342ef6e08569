package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/monitor"
)

func TestCounters(t *testing.T) {
	var b bytes.Buffer
	s := &Session{Printer: output.Printer{Out: bufio.NewWriter(&b)}}
	s.Display = output.ShowJSON
	err := s.showCounters(monitor.State{Metrics: shale.Metrics{
		Gets: 3, WALBytes: 4096, WrittenBytes: 1024, StallLevel0: 1500 * time.Millisecond, CacheMemory: 1 << 20, Flushing: 2,
		LiveBytes: 2048, Levels: []shale.LevelMetrics{{Level: 6, Bytes: 4096}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Metric string
		Of     *string
		Value  float64
	}
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range rows {
		name := r.Metric
		if r.Of != nil {
			name += " of " + *r.Of
		}
		got[name] = r.Value
	}
	for name, want := range map[string]float64{
		"shale_gets_total": 3, "shale_log_bytes_total": 4096, "shale_stall_seconds_total of cause level0": 1.5,
		"shale_memory_bytes of owner cache": 1 << 20, "shale_flushing": 2, "shale_filter_negatives_total": 0,
		"shale_level_bytes of level 6": 4096, "shale_space_amplification": 2, "shale_write_amplification": 4,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (there: %t), want %v", name, v, ok, want)
		}
	}
}
