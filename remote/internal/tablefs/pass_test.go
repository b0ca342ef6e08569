package tablefs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// openLarge publishes a table of several pieces, and returns it open, with its bytes.
func openLarge(t *testing.T) (p *published, files *Tables, file vfs.RemoteFile, want []byte) {
	t.Helper()
	p = publishTables(t, 160_000, shale.Options{CompactionWorkers: -1, MemtableSize: 64 << 20, TableSize: 64 << 20})
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	want = remotetest.ReadFile(t, p.mem, fmt.Sprintf("db/%06d.sst", f.Num))
	if len(want) < 4*pieceSize {
		t.Fatalf("a table of %d bytes", len(want))
	}
	files = p.files(nil, "")
	open, err := files.open("", f.Object())
	mustNil(t, err)
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, files, open.(vfs.RemoteFile), want
}

// TestPass_Gets reads parts of a table in windows that begin before the one before ends: one GET for 4 MiB and one more, nothing behind
// the end, never more than three pieces at a time, and none when it is closed. The pages that are cached stay.
func TestPass_Gets(t *testing.T) {
	testenv.CheckLeaks(t)
	p, files, file, want := openLarge(t)
	readPages := func() {
		for i := range int64(32) { // in an order that is not taken for a scan
			_, err := file.(vfs.File).ReadAt(make([]byte, 100), i*37%32*pageSize)
			mustNil(t, err)
		}
	}
	readPages()
	random := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ from, to int64 }{
		{0, 4 * pieceSize}, {0, 1000}, {pieceSize - 1, pieceSize + 1}, {3<<20 + 5, 13<<20 + 17}, {5, 2*pieceSize + 5},
	} {
		s := file.Stream(c.to)
		gets, largest := p.bucket.During(func() {
			for at := c.from; at < c.to; {
				b := make([]byte, min(c.to-at, 1+random.Int64N(256<<10)))
				n, err := s.ReadAt(b, at)
				if err != nil || !bytes.Equal(b[:n], want[at:at+int64(len(b))]) {
					t.Fatalf("ReadAt(%d, %d) = %d bytes, %v", at, len(b), n, err)
				}
				if held := files.held.Load(); held > 1+ahead {
					t.Fatalf("%d pieces are held", held)
				}
				at += max(1, int64(n)-random.Int64N(8<<10))
			}
		})
		if most := int((c.to - c.from + pieceSize - 1) / pieceSize); gets > most || int64(largest) > min(pieceSize, c.to-c.from) {
			t.Errorf("from %d to %d: %d GETs of up to %d bytes, want %d", c.from, c.to, gets, largest, most)
		}
		mustNil(t, s.Close())
		if held := files.held.Load(); held != 0 {
			t.Errorf("%d pieces are held after Close", held)
		}
	}
	gets, _ := p.bucket.During(readPages)
	if gets > 0 {
		t.Errorf("after the passes, %d pages are not cached any more", gets)
	}
}

// TestPass_Anywhere jumps, goes back, reads more than a piece at once, and goes beyond the end that was stated: it gets the right bytes.
func TestPass_Anywhere(t *testing.T) {
	_, files, file, want := openLarge(t)
	random := rand.New(rand.NewPCG(9, 10))
	for range 3 {
		s := file.Stream(1 + random.Int64N(int64(len(want))))
		at := int64(0)
		for i := range 60 {
			if i%7 == 0 || at >= int64(len(want)) {
				at = random.Int64N(int64(len(want)))
			}
			b := make([]byte, min(1+random.Int64N(1<<(10+random.IntN(14))), int64(len(want))-at))
			if n, err := s.ReadAt(b, at); err != nil || !bytes.Equal(b[:n], want[at:at+int64(len(b))]) {
				t.Fatalf("ReadAt(%d, %d) = %d bytes, %v", at, len(b), n, err)
			}
			at += int64(len(b))
		}
		mustNil(t, s.Close())
	}
	if held := files.held.Load(); held != 0 {
		t.Errorf("%d pieces are held", held)
	}
}

// TestPass_NoRoom: while other passes have all the memory that there is for pieces ahead, a pass has the piece that it reads, and
// perhaps the one before, and gets on with as many GETs.
func TestPass_NoRoom(t *testing.T) {
	p, files, file, want := openLarge(t)
	files.held.Store(maxHeld)
	s := file.Stream(4 * pieceSize)
	b := make([]byte, 100_000)
	gets, _ := p.bucket.During(func() {
		for at := 0; at+len(b) < 4*pieceSize; at += len(b) - 5000 {
			if n, err := s.ReadAt(b, int64(at)); err != nil || !bytes.Equal(b[:n], want[at:at+len(b)]) {
				t.Fatalf("ReadAt(%d) = %d bytes, %v", at, n, err)
			}
			if more := files.held.Load() - maxHeld; more > 2 {
				t.Fatalf("%d pieces at %d", more, at)
			}
		}
	})
	mustNil(t, s.Close())
	if gets != 4 || files.held.Load() != maxHeld {
		t.Errorf("%d GETs for 4 pieces, %d are held", gets, files.held.Load()-maxHeld)
	}
	files.held.Store(0)
}

// TestPass_Faults: a GET that fails in the middle fails the reads that need it, and no others. Close does not wait for a bucket that
// hangs, Cancel ends the reads that wait for it, and nothing is left.
func TestPass_Faults(t *testing.T) {
	testenv.CheckLeaks(t)
	p, files, file, want := openLarge(t)
	lost := errors.New("lost")
	var calls atomic.Int32
	p.bucket.HookReads(func(string) error {
		if calls.Add(1) == 2 {
			return lost
		}
		return nil
	})
	s := file.Stream(int64(len(want)))
	b := make([]byte, 256<<10)
	at, failed := int64(0), error(nil)
	for ; failed == nil && at < 3*pieceSize; at += int64(len(b)) {
		_, failed = s.ReadAt(b, at)
	}
	if !errors.Is(failed, lost) {
		t.Errorf("%v up to offset %d", failed, at)
	}
	mustNil(t, s.Close())

	hang, asked := make(chan struct{}), make(chan struct{}, 10)
	p.bucket.HookReads(func(string) error {
		asked <- struct{}{}
		<-hang
		return nil
	})
	s = file.Stream(int64(len(want)))
	var reading sync.WaitGroup
	reading.Go(func() {
		if _, err := s.ReadAt(b, 0); err == nil {
			t.Error("a read succeeded although reads were cancelled")
		}
		_ = s.Close() // it has no error
	})
	for range 1 + ahead {
		<-asked
	}
	other := file.Stream(int64(len(want)))
	other.(*pass).fetch(0)
	<-asked
	mustNil(t, other.Close()) // at once
	files.Cancel()
	close(hang)
	reading.Wait()
	if held := files.held.Load(); held != 0 {
		t.Errorf("%d pieces are held", held)
	}
}

// TestPass_Tail: a table that has all of its bytes in its tail has no stream, and what is near is the tail.
func TestPass_Tail(t *testing.T) {
	p := publishTables(t, 100, shale.Options{FilterBits: -1, CompactionWorkers: -1})
	files := p.files(nil, "")
	for f := range FilesOf(p.version) {
		open, err := files.open("", f.Object())
		mustNil(t, err)
		if s := open.(vfs.RemoteFile).Stream(f.Size); s != nil {
			t.Error("a stream of a table all of whose bytes are here")
		}
		mustNil(t, open.(vfs.RemoteFile).ReadNear(make([]byte, 10), 0))
		mustNil(t, open.Close())
	}
	_, _, file, want := openLarge(t)
	at := file.(*objectFile).at.Load()
	b := make([]byte, 64)
	for _, off := range []int64{at, at + 100, int64(len(want)) - 64} {
		if err := file.ReadNear(b, off); err != nil || !bytes.Equal(b, want[off:off+64]) {
			t.Errorf("ReadNear(%d) = %v", off, err)
		}
	}
	for _, off := range []int64{-1, 0, at - 1, int64(len(want)) - 63} {
		if err := file.ReadNear(b, off); err == nil || off < at && err != vfs.ErrUnsupported {
			t.Errorf("ReadNear(%d) = %v", off, err)
		}
	}
}

// TestStream_WaitsOnce: a scan whose stream waits in vain for the bucket gets that error, and does not wait for as long once more.
func TestStream_WaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, file, _ := openLarge(t)
		lost := errors.New("lost")
		var calls atomic.Int32
		p.bucket.HookReads(func(string) error {
			if calls.Add(1) < neighbours {
				return nil
			}
			time.Sleep(time.Minute)
			return lost
		})
		begin, b := time.Now(), make([]byte, pageSize)
		var err error
		for at := int64(0); err == nil && at < pieceSize; at += pageSize {
			_, err = file.(vfs.File).ReadAt(b, at)
		}
		if took := time.Since(begin); !errors.Is(err, lost) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestScan_WaitsOnce: a scan that reads ahead and waits in vain for the bucket does not wait for the block alone once more. The next
// scan asks again.
func TestScan_WaitsOnce(t *testing.T) {
	for answers := range int32(8) {
		for _, reverse := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := publishTables(t, 60_000, shale.Options{CompactionWorkers: -1, MemtableSize: 64 << 20, TableSize: 64 << 20})
				db := p.reader(p.files(nil, ""), shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}})
				lost := errors.New("lost")
				var calls atomic.Int32
				p.bucket.HookReads(func(string) error {
					if calls.Add(1) <= answers {
						return nil
					}
					time.Sleep(time.Minute)
					return lost
				})
				scan := func() (err error) {
					for _, err = range db.Scan(shale.Range{Reverse: reverse}) {
					}
					return err
				}
				begin := time.Now()
				if err := scan(); err != nil {
					if took := time.Since(begin); !errors.Is(err, lost) || took != time.Minute {
						t.Errorf("away after %d GETs, reverse %v: %v after %v", answers, reverse, err, took)
					}
					p.bucket.HookReads(nil)
					mustNil(t, scan())
				}
				mustNil(t, db.Close())
			})
		}
	}
}
