//go:build linux && !android && (amd64 || arm64 || loong64 || riscv64)

package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// mappedFile makes a file of n random bytes, and reads all of it in small pieces, so that it is
// mapped and all its pages are found.
func mappedFile(t *testing.T, n int) (f *osFile, name string, content []byte) {
	t.Helper()
	file, content := tryFile(t, n)
	f = file.(*osFile)
	p := make([]byte, 4096)
	for range 2 { // in the first pass it is mapped after some reads
		for off := 0; off < n; off += len(p) {
			if _, err := f.ReadAt(p[:min(len(p), n-off)], int64(off)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.mapped.m.Load() == nil {
		t.Fatal("the file is not mapped")
	}
	return f, f.f.Name(), content
}

func TestMappedReads(t *testing.T) {
	const size = 300_000
	before := mappings.Load()
	f, _, content := mappedFile(t, size)
	if mappings.Load() != before+1 {
		t.Errorf("%d more mappings, want 1", mappings.Load()-before)
	}
	p := make([]byte, 9000)
	if m := f.mapped.m.Load(); !m.holds(150_001, len(p)) || !m.copyTo(p, 150_001) || !bytes.Equal(p, content[150_001:159_001]) {
		t.Error("what was read is not found in the mapping, or has wrong bytes")
	}
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for range 3000 {
		off, n := rng.IntN(size+5000), rng.IntN(len(p))
		want := content[min(off, size):min(off+n, size)]
		got, err := f.ReadAt(p[:n], int64(off))
		if got != len(want) || !bytes.Equal(p[:got], want) || (err == nil) != (got == n) || err != nil && err != io.EOF {
			t.Fatalf("ReadAt of %d bytes at %d = %d, %v, or wrong bytes", n, off, got, err)
		}
	}
	if _, err := f.ReadAt(p, -1); err == nil {
		t.Error("ReadAt at a negative offset is no error")
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = f.ReadAt(p, 100) }); n > 0.1 && !testenv.Race {
		t.Errorf("%v allocations", n)
	}
	must(t, f.Close())
	if mappings.Load() != before {
		t.Error("Close leaves the mapping")
	}
	if _, err := f.ReadAt(p, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadAt after Close = %v, want %v", err, fs.ErrClosed)
	}
}

// TestMappedReads_OnlyWhatWasRead checks that pages which no read has met are read by calls: they
// may not be in memory.
func TestMappedReads_OnlyWhatWasRead(t *testing.T) {
	file, content := tryFile(t, 1<<20)
	defer file.Close()
	f := file.(*osFile)
	p := make([]byte, 3000)
	for range mapAfter + 1 {
		if n, err := f.ReadAt(p, 200_000); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	m := f.mapped.m.Load()
	if m == nil || !m.holds(200_000, len(p)) {
		t.Fatal("what was read is not found")
	}
	for _, off := range []int64{0, 190_000, 210_000, 1<<20 - 3000} {
		if m.holds(off, len(p)) {
			t.Errorf("the pages at %d are found before they were read", off)
		}
		if n, err := f.ReadAt(p, off); n != len(p) || err != nil || !bytes.Equal(p, content[off:off+3000]) {
			t.Errorf("ReadAt at %d = %d, %v, or wrong bytes", off, n, err)
		}
		if !m.holds(off, len(p)) {
			t.Errorf("the pages at %d are not found after they were read", off)
		}
	}
}

// TestMappedReads_Cut cuts a file that is mapped. Its reads return errors, and no fault ends the
// process.
func TestMappedReads_Cut(t *testing.T) {
	f, name, _ := mappedFile(t, 100_000)
	defer f.Close()
	must(t, os.Truncate(name, 10_000))
	p := make([]byte, 3000)
	for range 100 {
		if n, err := f.ReadAt(p, 50_000); n != 0 || err != io.EOF {
			t.Fatalf("ReadAt behind the cut = %d, %v, want EOF", n, err)
		}
		if n, err := f.ReadAt(p, 8000); n != 2000 || err != io.EOF {
			t.Fatalf("ReadAt over the cut = %d, %v, want 2000 bytes and EOF", n, err)
		}
	}
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil {
		t.Errorf("ReadAt before the cut = %d, %v", n, err)
	}
}

// TestMappedReads_Forgets drops a mapped file from memory. Before long a read notices, and reads
// are calls again. A read notices by a call that would have to wait. A device may answer so fast that
// no call has to; whether calls have to wait is tried by calls of the test itself.
func TestMappedReads_Forgets(t *testing.T) {
	f, _, content := mappedFile(t, 1<<20)
	defer f.Close()
	p := make([]byte, 100)
	m := f.mapped.m.Load()
	offset := func() int64 { return rand.Int64N(int64(len(content) - 200)) }
	const want = 20 * checkEvery
	waits := 0
	for range 10 * want {
		// The page of the read has to go too: mappings keep pages in memory.
		_ = syscall.Madvise(m.mem, syscall.MADV_DONTNEED)
		if err := DropCache(f); err != nil {
			t.Skip(err)
		}
		if errors.Is(f.tryCall(p, offset()), ErrWouldWait) {
			waits++
		}
		off := offset()
		if _, err := f.ReadAt(p, off); err != nil || !bytes.Equal(p, content[off:off+100]) {
			t.Fatalf("ReadAt = %v, or wrong bytes", err)
		}
		switch {
		case !m.holds(int64(len(content)-100), 100):
			return
		case waits == want:
			t.Fatalf("the file was dropped from memory, calls had to wait %d times, and no read has noticed", waits)
		}
	}
	t.Skipf("the device answers at once: calls had to wait %d times", waits)
}

// TestMappedReads_Close closes files while others read them. A read returns its bytes or an error.
func TestMappedReads_Close(t *testing.T) {
	dir := t.TempDir()
	for i := range 30 {
		content := bytes.Repeat([]byte{byte(i + 1)}, 200_000)
		name := filepath.Join(dir, "f")
		must(t, os.WriteFile(name, content, 0o600))
		f, err := Default.Open(name)
		must(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				p := make([]byte, 5000)
				for {
					if _, err := f.ReadAt(p, rand.Int64N(190_000)); err != nil {
						if !errors.Is(err, fs.ErrClosed) {
							t.Errorf("ReadAt beside Close = %v", err)
						}
						return
					}
					if !bytes.Equal(p, content[:5000]) {
						t.Error("wrong bytes")
						return
					}
				}
			})
		}
		for f.(*osFile).mapped.m.Load() == nil {
			runtime.Gosched()
		}
		must(t, f.Close())
		wg.Wait()
	}
}

// A file of Unmapped is read by calls only, which the system counts.
func TestUnmapped(t *testing.T) {
	calls := func() int {
		data, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skip("the system counts no calls of this process: ", err)
		}
		var read, written, n int
		if _, err := fmt.Sscanf(string(data), "rchar: %d\nwchar: %d\nsyscr: %d", &read, &written, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	_, name, content := mappedFile(t, 50_000)
	f, err := Unmapped.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const reads = 1000
	p := make([]byte, 100)
	before := calls()
	for i := range reads {
		if _, err := f.ReadAt(p, int64(i)); err != nil || !bytes.Equal(p, content[i:i+len(p)]) {
			t.Fatalf("ReadAt at %d: %v, or wrong bytes", i, err)
		}
	}
	if n := calls() - before; n < reads {
		t.Errorf("%d calls for %d reads", n, reads)
	}
}
