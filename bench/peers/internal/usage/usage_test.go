package usage

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var sink []byte

func TestSub(t *testing.T) {
	before := Now()
	for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
		sink = make([]byte, 1<<10)
	}
	runtime.GC()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	used := Now().Sub(before)
	if used.Allocs == 0 || used.Bytes < 1<<10 || used.GCShare() <= 0 || used.GCShare() > 1 {
		t.Errorf("allocations %d of %d bytes, GC %v", used.Allocs, used.Bytes, used.GCShare())
	}
	if runtime.GOOS == "linux" && (!before.IOKnown() || used.WriteCalls == 0 || used.WrittenBytes < 100_000 || used.BytesWritten() < 100_000) {
		t.Errorf("writes %d of %d bytes", used.WriteCalls, used.WrittenBytes)
	}
	if runtime.GOOS != "windows" && used.CPU < time.Millisecond {
		t.Errorf("CPU time %v", used.CPU)
	}
	if n, err := DirBytes(filepath.Dir(path)); err != nil || n < 100_000 || n > 200_000 {
		t.Errorf("the directory takes %d bytes, %v", n, err)
	}
}

func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	sink = nil
	debug.FreeOSMemory() // else what another test has left is used again
	ResetPeak()
	before, _ := Memory()
	sink = make([]byte, 64<<20)
	for i := range sink {
		sink[i] = 1
	}
	if peak, anon := Memory(); peak < before+48<<20 || anon < 48<<20 {
		t.Errorf("peak %d after %d, anonymous %d", peak, before, anon)
	}
	sink = nil
}

func TestField(t *testing.T) {
	data := []byte("rchar: 12\nread_bytes: 7\nVmHWM:\t  34 kB\nbroken:\n")
	for name, want := range map[string]int64{"rchar": 12, "read_bytes": 7, "VmHWM": 34, "broken": 0, "none": 0} {
		if got := field(data, name); got != want {
			t.Errorf("field %s is %d, want %d", name, got, want)
		}
	}
}
