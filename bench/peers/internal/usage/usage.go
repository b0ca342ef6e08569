// Package usage measures what this process uses: CPU time, memory, calls of the
// operating system and the garbage collector.
package usage

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"time"
)

// A Point holds the counters of one moment.
type Point struct {
	CPU           time.Duration // user and system
	Allocs, Bytes uint64        // of Go, since the start
	GC, GoCPU     float64       // seconds, as of the last collection
	ReadCalls     int64
	ReadBytes     int64
	WriteCalls    int64
	WrittenBytes  int64
	DeviceRead    int64 // bytes that the device had to read
	DirtiedBytes  int64 // of pages of files made dirty, by calls or through a mapping
	counted       bool  // whether the operating system counts reads and writes
}

// IOKnown reports whether reads and writes are counted.
func (p *Point) IOKnown() bool { return p.counted }

var names = []string{
	"/gc/heap/allocs:objects", "/gc/heap/allocs:bytes",
	"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/total:cpu-seconds", "/cpu/classes/idle:cpu-seconds",
}

// Now reads all counters.
func Now() Point {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	p := Point{
		CPU: cpuTime(), Allocs: samples[0].Value.Uint64(), Bytes: samples[1].Value.Uint64(),
		GC: samples[2].Value.Float64(), GoCPU: samples[3].Value.Float64() - samples[4].Value.Float64(),
	}
	p.readIO()
	return p
}

func (p *Point) readIO() {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return
	}
	p.counted = true
	for name, to := range map[string]*int64{
		"rchar": &p.ReadBytes, "wchar": &p.WrittenBytes, "syscr": &p.ReadCalls, "syscw": &p.WriteCalls,
		"read_bytes": &p.DeviceRead, "write_bytes": &p.DirtiedBytes,
	} {
		*to = field(data, name)
	}
}

// Sub is what was used since an earlier point.
func (p Point) Sub(q Point) Point {
	p.CPU -= q.CPU
	p.Allocs -= q.Allocs
	p.Bytes -= q.Bytes
	p.GC -= q.GC
	p.GoCPU -= q.GoCPU
	p.ReadCalls -= q.ReadCalls
	p.ReadBytes -= q.ReadBytes
	p.WriteCalls -= q.WriteCalls
	p.WrittenBytes -= q.WrittenBytes
	p.DeviceRead -= q.DeviceRead
	p.DirtiedBytes -= q.DirtiedBytes
	return p
}

// BytesWritten is the larger of both views of writing: what is written through
// a mapping is in no call, and what is written twice to a page before that
// reaches the device dirties it once.
func (p *Point) BytesWritten() int64 { return max(p.WrittenBytes, p.DirtiedBytes) }

// GCShare is the part of Go's CPU time that went into collections. The runtime estimates both
// times, so on a busy machine that of the collections may be the larger one.
func (p *Point) GCShare() float64 {
	if p.GoCPU <= 0 {
		return 0
	}
	return min(max(p.GC, 0)/p.GoCPU, 1)
}

// ResetPeak makes the present memory the peak.
func ResetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) } // where it fails, the peak is that of the process

// Memory returns the peak since ResetPeak and what is resident of no file now,
// zeros where the operating system does not tell.
func Memory() (peak, anon int64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	return field(data, "VmHWM") << 10, field(data, "RssAnon") << 10
}

// field is the number after a name at the start of a line, 0 if there is none.
func field(data []byte, name string) int64 {
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte(name+":"))
		if fields := bytes.Fields(rest); ok && len(fields) > 0 {
			n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
			return n
		}
	}
	return 0
}
