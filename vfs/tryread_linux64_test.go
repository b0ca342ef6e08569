//go:build linux && !android && (amd64 || arm64 || loong64 || riscv64)

package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// tryFile makes a file of n random bytes that is on the disk.
func tryFile(t *testing.T, n int) (File, []byte) {
	t.Helper()
	content := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	name := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, content, 0o600))
	f, err := Default.Open(name)
	must(t, err)
	must(t, f.Sync())
	return f, content
}

// trySupported skips a test where the temporary directory's file system can't tell what is in memory.
func trySupported(t *testing.T, f File) TryReader {
	t.Helper()
	r := f.(TryReader)
	if err := r.TryReadAt(make([]byte, 1), 0); errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	return r
}

// TestTryReadAt_InMemory checks reads of what was just written: their bytes, those past the end,
// and that they allocate nothing.
func TestTryReadAt_InMemory(t *testing.T) {
	f, content := tryFile(t, 100_000)
	r := trySupported(t, f)
	p := make([]byte, 9000)
	for _, off := range []int64{0, 1, 4095, 4096, 50_001, 91_000} {
		if err := r.TryReadAt(p, off); err != nil || !bytes.Equal(p, content[off:off+9000]) {
			t.Errorf("TryReadAt of 9000 bytes at %d = %v, or wrong bytes", off, err)
		}
	}
	for _, off := range []int64{91_001, 99_999, 100_000, 1 << 40} {
		if err := r.TryReadAt(p, off); err != io.ErrUnexpectedEOF {
			t.Errorf("TryReadAt at %d, past the end = %v, want %v", off, err, io.ErrUnexpectedEOF)
		}
	}
	if err := r.TryReadAt(nil, 5); err != nil {
		t.Errorf("TryReadAt of nothing = %v", err)
	}
	if err := r.TryReadAt(p, -1); err == nil {
		t.Error("TryReadAt at a negative offset is no error")
	}
	if n := testing.AllocsPerRun(1000, func() {
		_ = r.TryReadAt(p, 100)
		r.WillNeed(100, 4096)
	}); n > 0.1 && !testenv.Race { // the collector may empty the pool, and the race detector does
		t.Errorf("%v allocations", n)
	}
	must(t, f.Close())
	if err := r.TryReadAt(p, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("TryReadAt of a closed file = %v, want %v", err, fs.ErrClosed)
	}
	r.WillNeed(0, 1)
}

// TestTryReadAt_NotInMemory drops a file from memory. TryReadAt does not wait for its bytes, and
// WillNeed brings them back.
func TestTryReadAt_NotInMemory(t *testing.T) {
	f, content := tryFile(t, 1<<20)
	defer f.Close()
	r := trySupported(t, f)
	p := make([]byte, 3000)
	const off = 700_001
	waited := false
	for range 100 { // a page may stay in memory for a while
		if err := DropCache(f); err != nil {
			t.Skip(err)
		}
		if resident, _, err := ResidentPages(f); err != nil || resident > 0 {
			continue
		}
		// It may succeed: the call begins to load the bytes, and they may come at once.
		err := r.TryReadAt(p, off)
		if waited = errors.Is(err, ErrWouldWait); waited {
			break
		}
		if err != nil || !bytes.Equal(p, content[off:off+3000]) {
			t.Fatalf("TryReadAt = %v, or wrong bytes", err)
		}
	}
	if !waited {
		t.Skip("the file stays in memory, or the device answers at once")
	}
	r.WillNeed(off, int64(len(p)))
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		err := r.TryReadAt(p, off)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrWouldWait) || time.Since(begin) > 20*time.Second {
			t.Fatalf("TryReadAt after WillNeed = %v, for %v", err, time.Since(begin))
		}
	}
	if !bytes.Equal(p, content[off:off+3000]) {
		t.Error("wrong bytes")
	}
}
