//go:build unix

package bloom

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// mapped maps a file and returns its bytes until the test ends.
func mapped(t *testing.T, path string, write bool) []byte {
	t.Helper()
	flag, prot := os.O_RDONLY, syscall.PROT_READ
	if write {
		flag, prot = os.O_RDWR, prot|syscall.PROT_WRITE
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), prot, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A file that is mapped three times, as by three processes: two add at once, and the third one
// can only read.
func TestOpenAtomicBlocked_MappedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen.filter")
	stored, err := atomicOf(20000, 10).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, stored, 0o644); err != nil {
		t.Fatal(err)
	}
	writers := []*AtomicBlocked{
		Must(OpenAtomicBlocked(mapped(t, path, true))), Must(OpenAtomicBlocked(mapped(t, path, true))),
	}
	reader := Must(OpenAtomicBlocked(mapped(t, path, false)))
	hs := filtertest.RandomHashes(1, 10000)
	var adding sync.WaitGroup
	for w, f := range writers {
		adding.Go(func() {
			for i, h := range hs[w*5000 : (w+1)*5000] {
				if f.AddHash(h); i%100 == 0 && (!reader.MayContainHash(h) || !writers[1-w].MayContainHash(h)) {
					t.Errorf("key %d of writer %d is added and denied", i, w)
				}
			}
		})
	}
	adding.Wait()
	if reader.Sealed() || writers[0].Sealed() || writers[1].Sealed() {
		t.Error("a filter that was added to is sealed")
	}
	holds := func(f *AtomicBlocked) {
		t.Helper()
		for _, h := range hs {
			if !f.MayContainHash(h) {
				t.Fatalf("%016x is denied", h)
			}
		}
	}
	holds(reader)
	// The file as a process leaves it that ends without a word, and then sealed.
	holds(Must(OpenAtomicBlocked(mapped(t, path, false))))
	if err := writers[0].Seal(); err != nil || !reader.Sealed() {
		t.Fatalf("Seal = %v, sealed for the others %v", err, reader.Sealed())
	}
	again := Must(OpenAtomicBlocked(mapped(t, path, false)))
	if holds(again); again.Count() != 5000 {
		t.Errorf("Count() = %d, want those of the filter that sealed, 5000", again.Count())
	}
}
