package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func TestCounters(t *testing.T) {
	var b bytes.Buffer
	s := &Session{Printer: output.Printer{Out: bufio.NewWriter(&b)}}
	s.Display = output.ShowJSON
	err := s.showCounters(shale.Metrics{Gets: 3, WALBytes: 4096, StallTime: 1500 * time.Millisecond, CacheMemory: 1 << 20, Flushing: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Counter string
		Value   float64
	}
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range rows {
		got[r.Counter] = r.Value
	}
	for name, want := range map[string]float64{
		"gets": 3, "wal_bytes": 4096, "stall_time": 1.5, "cache_memory": 1 << 20, "flushing": 2, "filter_negative": 0, "stall_level0": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (there: %t), want %v", name, v, ok, want)
		}
	}
	if _, ok := got["levels"]; ok {
		t.Error("the levels are no counter")
	}
}
