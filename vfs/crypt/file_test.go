package crypt

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A world is a file and what must be in it.
type world struct {
	t    *testing.T
	r    *rand.Rand
	fs   *FS
	f    vfs.File
	m    vfs.Mapping // nil: none
	data []byte
	// set says what was written. Other bytes are zeros, unless they are within 15 bytes of one that was.
	set  []bool
	mark int // bytes from here up were not written
	// padded are the blocks that got zeros when the file grew into or out of them.
	padded map[int]bool
	mixed  int // a block that was near before the file was cut in it
	mapped int
}

// random returns bytes of which many are zeros, as those of a log are.
func (w *world) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if w.r.IntN(3) > 0 {
			b[i] = byte(w.r.Uint32())
		}
	}
	return b
}

func (w *world) resize(size int) {
	if size < len(w.data) {
		if w.near(size) {
			w.mixed = size / 16
		}
		w.data, w.set = w.data[:size], w.set[:size]
		return
	}
	w.padded[len(w.data)/16], w.padded[size/16] = true, true
	w.data = append(w.data, make([]byte, size-len(w.data))...)
	w.set = append(w.set, make([]bool, size-len(w.set))...)
}

// near reports whether a byte of the block of byte i was written.
func (w *world) near(i int) bool {
	if i/16 == w.mixed {
		return true
	}
	for j := i / 16 * 16; j < min(len(w.set), i/16*16+16); j++ {
		if w.set[j] {
			return true
		}
	}
	return false
}

// write writes n bytes to where nothing was written. It may be refused in front of other bytes, in a
// block with such, which may have got zeros.
func (w *world) write(off, n int) {
	b := w.random(n)
	dst := io.WriterAt(w.f)
	if w.m != nil && off+n <= w.mapped && w.r.IntN(2) == 0 {
		dst = w.m
	}
	_, err := dst.WriteAt(b, int64(off))
	near := false
	for i := off; i < off+n; i++ {
		near = near || w.near(i) || w.padded[i/16]
	}
	if errors.Is(err, ErrRewritten) && off < w.mark && near {
		return
	}
	must(w.t, err)
	w.mark = max(w.mark, off+n)
	if off+n > len(w.data) {
		w.resize(off + n)
	}
	copy(w.data[off:], b)
	for i := range n {
		w.set[off+i] = true
	}
}

// check reads n bytes from off up.
func (w *world) check(f vfs.File, off, n int) {
	w.t.Helper()
	b := make([]byte, n)
	m, err := f.ReadAt(b, int64(off))
	if want := max(0, min(n, len(w.data)-off)); m != want || m < n && err != io.EOF || m == n && err != nil && err != io.EOF {
		w.t.Fatalf("ReadAt(%d, %d) = %d, %v; the file has %d", n, off, m, err, len(w.data))
	}
	for i := range b[:m] {
		at := off + i
		if b[i] != w.data[at] && (w.set[at] || !w.near(at)) {
			w.t.Fatalf("byte %d of %d is %#x, want %#x; written: %v", at, len(w.data), b[i], w.data[at], w.set[at])
		}
	}
}

// TestFile_Model writes to files as logs, tables and others are written, and reads them.
func TestFile_Model(t *testing.T) {
	seed := testenv.Seed(t)
	for life := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, life))
		w := &world{t: t, r: r, fs: over(t, vfs.NewMem(), key(1, 1)), padded: map[int]bool{}, mixed: -1}
		var err error
		w.f, err = w.fs.Create("f")
		must(t, err)
		for range 400 {
			switch r.IntN(12) {
			case 0:
				size := len(w.data) + r.IntN(3)*r.IntN(100)
				if size > 0 {
					must(t, w.f.Preallocate(int64(size)))
					w.resize(size)
				}
			case 1:
				size := len(w.data) + r.IntN(100)
				must(t, w.f.Truncate(int64(size)))
				w.resize(size)
			case 2, 3, 4, 5, 6: // where nothing was written, from some place up
				var free []int
				for i, set := range w.set {
					if !set && (i == 0 || w.set[i-1] || r.IntN(16) == 0) {
						free = append(free, i)
					}
				}
				off := len(w.data) + r.IntN(2)*r.IntN(40)
				n := 1 + r.IntN(40)
				if len(free) > 0 && r.IntN(4) > 0 {
					off = free[r.IntN(len(free))]
					for i := range n {
						if off+i < len(w.set) && w.set[off+i] {
							n = i
							break
						}
					}
				}
				w.write(off, n)
			case 7:
				if n := len(w.data); n > 0 && w.m == nil {
					w.m, err = w.f.(vfs.Mapper).Map(int64(n))
					w.mapped = n
					must(t, err)
				}
			case 8:
				w.close()
				w.f, err = w.fs.OpenReadWrite("f")
				must(t, err)
				w.mark = len(w.data)
			case 9: // the same bytes again
				if off := r.IntN(len(w.data) + 1); off < len(w.data) && w.set[off] {
					n := 1
					for off+n < len(w.data) && w.set[off+n] {
						n++
					}
					old := make([]byte, n)
					_, err := w.f.ReadAt(old, int64(off))
					must(t, err)
					_, err = w.f.WriteAt(old, int64(off))
					must(t, err)
				}
			case 10:
				if r.IntN(30) == 0 {
					must(t, w.f.(vfs.WriteOnce).Renew())
					n := len(w.data) // they may be anything
					must(t, w.f.Truncate(0))
					w.data, w.set, w.mark = nil, nil, 0
					must(t, w.f.Truncate(int64(n)))
					w.resize(n)
				}
			default:
				w.check(w.f, r.IntN(len(w.data)+10), r.IntN(100))
			}
		}
		w.check(w.f, 0, len(w.data)+1)
		w.close()
		w.f, err = w.fs.OpenReadWrite("f")
		must(t, err)
		for _, size := range []int{max(0, len(w.data)-r.IntN(40)), len(w.data) + r.IntN(60)} { // what is cut is zeros then
			must(t, w.f.Truncate(int64(size)))
			w.resize(size)
		}
		w.close()
		f, err := w.fs.Open("f")
		must(t, err)
		w.check(f, 0, len(w.data)+1)
		must(t, f.Close())
	}
}

func (w *world) close() {
	if w.m != nil {
		must(w.t, w.m.Unmap())
		w.m = nil
	}
	must(w.t, w.f.Close())
}

// A byte that is written again with another value would give both away. Every value here has eight
// other bytes, because one byte of 256 is zero below and counts as never written.
func TestFile_TakesEachByteOnce(t *testing.T) {
	mem := vfs.NewMem()
	fs := over(t, mem, key(1, 1))
	f, err := fs.Create("f")
	must(t, err)
	write := func(text string, off int64, want error) {
		t.Helper()
		if _, err := f.WriteAt([]byte(text), off); !errors.Is(err, want) {
			t.Errorf("%q at %d: %v, want %v", text, off, err, want)
		}
	}
	write("hello, world", 0, nil)
	write("hello", 0, nil)
	write("hELLO, WORLd", 0, ErrRewritten)
	write("world!", 7, nil)
	write("WORLD, WORLD", 7, ErrRewritten)
	must(t, f.Truncate(10))
	write("l", 10, ErrRewritten) // it is not known any more what stood there
	must(t, f.Close())
	f, err = fs.OpenReadWrite("f")
	must(t, err)
	defer f.Close()
	write("Good bye, w", 0, ErrRewritten)
	old := raw(t, mem, "f")
	must(t, f.(vfs.WriteOnce).Renew())
	write("hello", 0, nil)
	if bytes.Equal(old[headerSize:headerSize+5], raw(t, mem, "f")[headerSize:headerSize+5]) {
		t.Error("a file that was renewed is encrypted as before")
	}
	must(t, f.(vfs.WriteOnce).Renew())
	write("Jello", 0, nil)
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); string(b) != "Jello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// The written part of a block that is zeros below is no hole. It happens to few writes, so it is made here:
// the key stream itself is written.
func TestFile_ZerosBelow(t *testing.T) {
	for _, at := range []struct{ off, n int64 }{{0, 1}, {0, 15}, {5, 3}, {15, 1}, {3, 20}, {32, 40}, {4000, 96}} {
		mem := vfs.NewMem()
		fs := over(t, mem, key(1, 1))
		opened, err := fs.Create("f")
		must(t, err)
		f := opened.(*file)
		must(t, f.Preallocate(4096))
		stream := make([]byte, at.n)
		f.xor(stream, at.off)
		_, err = f.WriteAt(stream, at.off)
		must(t, err)
		must(t, f.Close())
		r, err := fs.Open("f")
		must(t, err)
		got := make([]byte, at.n)
		_, err = r.ReadAt(got, at.off)
		// Whole blocks of zeros below can't be told from holes. Only one of 2^128 blocks is such a one.
		first, last := (at.off+15)/16*16-at.off, (at.off+at.n)/16*16-at.off
		if first < last {
			copy(got[first:last], stream[first:last])
		}
		if err != nil || !bytes.Equal(got, stream) {
			t.Errorf("%d bytes at %d: read % x, %v; want % x", at.n, at.off, got, err, stream)
		}
		must(t, r.Close())
	}
}

// Nothing of what is written can be found below, and two files with the same bytes differ.
func TestFile_NothingShows(t *testing.T) {
	mem := vfs.NewMem()
	fs := over(t, mem, key(1, 1))
	secret := bytes.Repeat([]byte("nobody may read this"), 50_000)
	for _, name := range []string{"a", "b"} {
		f, err := fs.Create(name)
		must(t, err)
		_, err = f.Write(secret)
		must(t, err)
		must(t, f.Close())
	}
	a, b := raw(t, mem, "a"), raw(t, mem, "b")
	if len(a) != headerSize+len(secret) || bytes.Contains(a, secret[:8]) || bytes.Equal(a[headerSize:headerSize+16], b[headerSize:headerSize+16]) {
		t.Error("the secret shows, or two files are alike")
	}
	if info, err := fs.Stat("a"); err != nil || info.Size != int64(len(secret)) {
		t.Errorf("Stat = %+v, %v", info, err)
	}
}

// A file whose header a crash has taken, or damage, reads as zeros, and takes no bytes.
func TestOpen_HeaderLost(t *testing.T) {
	mem := vfs.NewMem()
	fs := over(t, mem, key(1, 1))
	f, err := mem.Create("f")
	must(t, err)
	_, err = f.Write(bytes.Repeat([]byte{9}, headerSize+10))
	must(t, err)
	must(t, f.Close())
	g, err := fs.OpenReadWrite("f")
	must(t, err)
	defer g.Close()
	b := make([]byte, 10)
	if _, err := g.ReadAt(b, 0); err != nil || !bytes.Equal(b, make([]byte, 10)) {
		t.Errorf("reads %x, %v", b, err)
	}
	_, err = g.WriteAt(b, 0)
	for what, err := range map[string]error{"write": err, "growth": g.Truncate(100)} {
		if !errors.Is(err, errLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, g.(vfs.WriteOnce).Renew())
	_, err = g.WriteAt([]byte("new"), 0)
	must(t, err)
}

// What was synced stays, whatever a crash leaves of the bytes that were written next to it.
func TestFile_Crash(t *testing.T) {
	seed := testenv.Seed(t)
	for n := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, n))
		mem := vfs.NewMem()
		fs := over(t, mem, key(1, 1))
		f, err := fs.Create("f")
		must(t, err)
		if r.IntN(2) == 0 {
			must(t, f.Preallocate(8192))
		}
		synced := make([]byte, r.IntN(2000))
		for i := range synced {
			synced[i] = byte(r.Uint32())
		}
		_, err = f.Write(synced)
		must(t, err)
		must(t, errors.Join(f.Sync(), fs.SyncDir(".")))
		for range r.IntN(4) {
			_, err = f.Write(make([]byte, 1+r.IntN(600)))
			must(t, err)
		}
		for _, config := range vfs.CrashConfigs(seed + n) {
			g, err := over(t, mem.Crash(config), key(1, 1)).Open("f")
			must(t, err)
			got := make([]byte, len(synced))
			if _, err := g.ReadAt(got, 0); err != nil || !bytes.Equal(got, synced) {
				t.Fatalf("life %d, %v: the bytes that were synced are others, or %v", n, config, err)
			}
			must(t, g.Close())
		}
		must(t, f.Close())
	}
}

// A tearing is a file system on which one write of a file that is open already is torn, and fails.
type tearing struct {
	vfs.FS
	after int // so many writes are whole before
}

type tornFile struct {
	vfs.File
	disk *tearing
}

func (d *tearing) OpenReadWrite(name string) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name)
	return &tornFile{f, d}, err
}

func (f *tornFile) WriteAt(p []byte, off int64) (int, error) {
	if f.disk.after--; f.disk.after >= 0 {
		return f.File.WriteAt(p, off)
	}
	n, err := f.File.WriteAt(p[:len(p)/2], off)
	return n, errors.Join(err, io.ErrShortWrite)
}

// One copy of a header is whole at any time, also if an earlier Rekey has left the other one torn.
func TestRekey_TornTwice(t *testing.T) {
	for first := range 2 {
		for second := range 2 {
			mem := vfs.NewMem()
			must(t, mem.MkdirAll("db"))
			f, err := over(t, mem, key(1, 1)).Create("db/f")
			must(t, err)
			_, err = f.Write([]byte("kept"))
			must(t, errors.Join(err, f.Close()))
			keys := []Key{key(1, 1), key(2, 2), key(3, 3)}
			for i, whole := range []int{first, second} {
				if err := over(t, &tearing{mem, whole}, keys[:i+2]...).Rekey("db"); !errors.Is(err, io.ErrShortWrite) {
					t.Fatalf("a torn Rekey: %v", err)
				}
			}
			f, err = over(t, mem, keys...).Open("db/f")
			must(t, err)
			b := make([]byte, 4)
			if _, err := f.ReadAt(b, 0); err != nil || string(b) != "kept" {
				t.Errorf("writes %d and %d were torn: it reads %q, %v", first, second, b, err)
			}
			must(t, f.Close())
		}
	}
}
