package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// residentFiles returns the bytes of files that are mapped into this process's
// memory.
func residentFiles(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "RssFile: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Skip("the system does not tell")
	return 0
}

// TestMapping_StaysSmall writes a file from the beginning to the end. The part that was
// written before is not in the process's memory any more, and has the right contents.
func TestMapping_StaysSmall(t *testing.T) {
	const size = 32 << 20
	f, err := Default.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate(size); err != nil {
		t.Skip(err)
	}
	m, err := f.(Mapper).Map(size)
	if err != nil {
		t.Skip(err)
	}
	defer m.Unmap()
	before, most := residentFiles(t), int64(0)
	buf := make([]byte, 64<<10)
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf[0] = byte(off >> 16)
		if _, err := m.WriteAt(buf, off); err != nil {
			t.Fatal(err)
		}
		most = max(most, residentFiles(t)-before)
	}
	if most > 4*mappingWindow {
		t.Errorf("%d bytes of the mapping were in memory", most)
	}
	buf[0] = 200
	if _, err := m.WriteAt(buf[:1], 0); err != nil { // behind the window
		t.Error(err)
	}
	for off := int64(0); off < size; off += int64(len(buf)) {
		want := byte(off >> 16)
		if off == 0 {
			want = 200
		}
		if _, err := f.ReadAt(buf[:1], off); err != nil || buf[0] != want {
			t.Fatalf("at %d: %d, %v, want %d", off, buf[0], err, want)
		}
	}
	t.Logf("at most %d bytes in memory", most)
}
