package tablefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestTableFS_Gets counts the GETs of lookups: of absent keys as many as there are false positives, of
// present ones one of a page at most, and of cached ones none.
func TestTableFS_Gets(t *testing.T) {
	const n = 30_000
	p := publishTables(t, n, shale.Options{TableSize: 1 << 20, CompactionWorkers: -1})
	for _, local := range []vfs.FS{nil, vfs.NewMem()} {
		db := p.reader(p.files(local, "cache"), shale.Options{CacheSize: -1})
		gets, _ := p.bucket.During(func() {
			for i := range n {
				if ok, err := db.Has(append(testKey(i), 'x')); ok || err != nil {
					t.Fatalf("an absent key: %v, %v", ok, err)
				}
			}
		})
		if rate := float64(gets) / n; rate > 0.02 {
			t.Errorf("%.4f GETs a lookup of an absent key, want at most 0.02", rate)
		}
		random := rand.New(rand.NewPCG(1, 2))
		once := 0
		for range 3000 {
			key := testKey(random.IntN(n))
			lookup := func() {
				if _, err := db.Get(key); err != nil {
					t.Fatal(err)
				}
			}
			gets, largest := p.bucket.During(lookup)
			if gets > 1 || largest > pageSize {
				t.Errorf("a lookup of a present key made %d GETs of up to %d bytes, want 1 of %d", gets, largest, pageSize)
			}
			if gets, _ := p.bucket.During(lookup); gets > 0 {
				t.Errorf("a lookup of a cached key made %d GETs", gets)
			}
			once += gets
		}
		if once == 0 {
			t.Error("no lookup asked the bucket: the test shows nothing")
		}
		mustNil(t, db.Close())
	}
}

// TestTableFS_ReadAt reads parts of a table of any length from any offset.
func TestTableFS_ReadAt(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	files := p.files(nil, "")
	for f := range FilesOf(p.version) {
		want := remotetest.ReadFile(t, p.mem, fmt.Sprintf("db/%06d.sst", f.Num))
		file, err := files.open("", f.Object())
		mustNil(t, err)
		random := rand.New(rand.NewPCG(3, 4))
		for range 2000 {
			off := random.IntN(len(want) + 10)
			b := make([]byte, 1+random.IntN(1<<random.IntN(18)))
			var sure error = io.EOF
			end := off + len(b)
			if end <= len(want) {
				sure = nil
			}
			end = max(min(end, len(want)), min(off, len(want)))
			part := want[min(off, len(want)):end]
			if random.IntN(4) == 0 {
				file.(vfs.TryReader).WillNeed(int64(off), int64(len(b)))
			}
			if random.IntN(4) == 0 && sure == nil {
				if err := file.(vfs.TryReader).TryReadAt(b, int64(off)); err == nil && !bytes.Equal(b, part) {
					t.Fatalf("TryReadAt(%d, %d) gives other bytes", off, len(b))
				} else if err != nil && err != vfs.ErrWouldWait {
					t.Fatal(err)
				}
				continue
			}
			n, err := file.ReadAt(b, int64(off))
			if err != sure || !bytes.Equal(b[:n], part) {
				t.Fatalf("ReadAt(%d, %d) = %d bytes, %v; want %d, %v", off, len(b), n, err, len(part), sure)
			}
		}
		mustNil(t, file.Close())
	}
}

// TestTableFS_OneFetch lets many goroutines read the same page at the same time: there is one GET.
func TestTableFS_OneFetch(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	files := p.files(nil, "")
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	file, err := files.open("", f.Object())
	mustNil(t, err)
	defer file.Close()
	const readers = 50
	asked, resume := make(chan struct{}, readers+1), make(chan struct{})
	p.bucket.HookReads(func(string) error {
		asked <- struct{}{}
		<-resume
		return nil
	})
	var wg sync.WaitGroup
	gets, _ := p.bucket.During(func() {
		read := func() {
			if _, err := file.ReadAt(make([]byte, 100), pageSize+7); err != nil {
				t.Error(err)
			}
		}
		wg.Go(read)
		<-asked
		var begun atomic.Int32
		for range readers {
			wg.Go(func() {
				begun.Add(1)
				read()
			})
		}
		testenv.WaitFor(t, "readers", func() bool { return begun.Load() == readers })
		// They wait for the first one, which nothing shows. One that made a GET of its own would show it.
		select {
		case <-asked:
		case <-time.After(50 * time.Millisecond):
		}
		close(resume)
		wg.Wait()
	})
	if gets != 1 {
		t.Errorf("%d goroutines made %d GETs", readers+1, gets)
	}
}

// TestTableFS_Directions counts the GETs of a scan of one large table, forward and in reverse: few windows of the
// iterator, and then long pieces.
func TestTableFS_Directions(t *testing.T) {
	const n = 150_000
	p := publishTables(t, n, shale.Options{CompactionWorkers: -1, MemtableSize: 64 << 20, TableSize: 64 << 20})
	size := 0
	for f := range FilesOf(p.version) {
		size += int(f.Size)
	}
	if p.version.NumTables() != 1 || size < 3*pieceSize {
		t.Fatalf("%d tables with %d bytes", p.version.NumTables(), size)
	}
	for _, reverse := range []bool{false, true} {
		files := p.files(nil, "")
		db := p.reader(files, shale.Options{CacheSize: -1})
		gets, _ := p.bucket.During(func() {
			entry := 0
			for e, err := range db.Scan(shale.Range{Reverse: reverse}) {
				mustNil(t, err)
				want := testKey(entry)
				if reverse {
					want = testKey(n - 1 - entry)
				}
				if !bytes.Equal(e.Key, want) {
					t.Fatalf("reverse %v: entry %d is %q", reverse, entry, e.Key)
				}
				entry++
			}
			if entry != n {
				t.Errorf("reverse %v: %d entries", reverse, entry)
			}
		})
		if most := 2*neighbours + (size+pieceSize-1)/pieceSize; gets > most {
			t.Errorf("reverse %v: a scan of %d bytes made %d GETs, want at most %d", reverse, size, gets, most)
		}
		if len(files.live) != 0 {
			t.Errorf("reverse %v: %d streams are left", reverse, len(files.live))
		}
		mustNil(t, db.Close())
	}
}

// TestTableFS_Faults loses and cuts requests now and then: readers get an error or the right bytes, and the
// next read may succeed.
func TestTableFS_Faults(t *testing.T) {
	testenv.CheckLeaks(t)
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	files := p.files(nil, "")
	errLost := errors.New("lost")
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(5, 6))
	p.bucket.HookReads(func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(3) == 0 {
			return errLost
		}
		return nil
	})
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	want := remotetest.ReadFile(t, p.mem, fmt.Sprintf("db/%06d.sst", f.Num))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			file, err := files.open("", f.Object())
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			random := rand.New(rand.NewPCG(7, uint64(g)))
			off := 0
			for i := range 3000 {
				if off = off + 4000; off > len(want)-4000 || i%500 == 0 {
					off = random.IntN(len(want) - 4000)
				}
				b := make([]byte, 4000)
				n, err := file.ReadAt(b, int64(off))
				if err != nil && !errors.Is(err, errLost) || !bytes.Equal(b[:n], want[off:off+n]) {
					t.Errorf("ReadAt(%d): %d bytes, %v", off, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	mustNil(t, files.Close())
}

// TestTableFS_StreamOpensBesideReaders has goroutines that read the same table at the same time. One of them opens a
// stream, and the others may use it before that one has asked for the first piece.
func TestTableFS_StreamOpensBesideReaders(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	want := remotetest.ReadFile(t, p.mem, fmt.Sprintf("db/%06d.sst", f.Num))
	for range 20 {
		files := p.files(nil, "")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				file, err := files.open("", f.Object())
				if err != nil {
					t.Error(err)
					return
				}
				defer file.Close()
				for off := 0; off < len(want); off += pageSize {
					b := make([]byte, min(pageSize, len(want)-off))
					if n, err := file.ReadAt(b, int64(off)); err != nil || !bytes.Equal(b, want[off:off+n]) {
						t.Errorf("ReadAt(%d): %d bytes, %v", off, n, err)
						return
					}
				}
			})
		}
		wg.Wait()
		mustNil(t, files.Close())
	}
}

// TestTableFS_ObjectGone reads tables whose object is missing or too short: the error names the object, and the
// other tables are read.
func TestTableFS_ObjectGone(t *testing.T) {
	for _, what := range []string{"missing", "short"} {
		t.Run(what, func(t *testing.T) {
			p := publishTables(t, 30_000, shale.Options{TableSize: 1 << 20, CompactionWorkers: -1})
			db := p.reader(p.files(nil, ""), shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}})
			tables := p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables
			bad := FileOf(tables[1])
			mustNil(t, p.bucket.Delete(t.Context(), bad.Name()))
			if what == "short" {
				mustNil(t, bucket.PutObject(t.Context(), p.bucket, bad.Name(), []byte("short"), false))
			}
			_, err := db.Get(tables[1].Smallest)
			var c *shale.CorruptionError
			if !errors.As(err, &c) || c.File != bad.Name() || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get: %v, want a CorruptionError of %s", err, bad.Name())
			}
			if _, err := db.Get(tables[0].Smallest); err != nil {
				t.Errorf("Get of another table: %v", err)
			}
		})
	}
}
