package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// cutDisks are the file systems whose power is cut.
var cutDisks = []struct {
	name, fstype, options string
	mib                   int
}{
	{"ext4 ordered", "ext4", ",data=ordered", 64},
	{"ext4 writeback", "ext4", ",data=writeback", 64},
	{"xfs", "xfs", "", 320},
}

// cutPower stops a file system where it stands: what it has not written to its
// device, its own log included, is gone, and every call fails from now on.
func cutPower(dir string) error {
	const (
		shutdown   = 0x8004587d // FS_IOC_SHUTDOWN, once XFS_IOC_GOINGDOWN
		noLogFlush = 2
	)
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	flag := uint32(noLogFlush)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&flag))); e != 0 {
		return os.NewSyscallError("ioctl FS_IOC_SHUTDOWN", e)
	}
	return nil
}

// A cutStream is a stream, and what is known of its writes up to a cut.
type cutStream struct {
	*harness.Stream
	acked, safe, begun int // guarded by cutRun.mu, as others is
	// others[i] is how many writes of the other stream were acknowledged before write i+1 began: if it
	// survives, so do they.
	others []int
}

// A cutRun is a store in use until the power is cut.
type cutRun struct {
	t       *testing.T
	disk    *testMount
	r       *rand.Rand
	opts    shale.Options
	db      *shale.DB
	streams [2]*cutStream

	mu     sync.Mutex // guards what is known
	dead   bool       // the power is gone, or about to go
	cut    chan struct{}
	after  int // acknowledgements, then the power is cut
	pause  int // of the maintenance, in milliseconds at most
	synced int
}

// acknowledged takes note of an acknowledgement, unless the power is gone: then
// nobody hears of it. While the file system is being stopped, ext4 says yes to
// an fdatasync whose transaction it has just dropped.
func (c *cutRun) acknowledged(note func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		note()
	}
}

// write makes the writes of a stream until one fails.
func (c *cutRun) write(s, other *cutStream, r *rand.Rand) error {
	for i := range 2000 {
		w := s.Write(i + 1)
		if r.IntN(12) == 0 {
			w.Durability = shale.SyncEach
		}
		c.mu.Lock()
		s.begun++
		s.others = append(s.others, other.acked)
		c.mu.Unlock()
		if err := c.db.Write(context.Background(), w.Batch()); err != nil {
			return err
		}
		c.acknowledged(func() {
			s.acked++
			if w.Durability == shale.SyncEach {
				c.synced++
				s.safe = s.acked
				other.safe = max(other.safe, s.others[i])
			}
			if c.after--; c.after == 0 {
				close(c.cut)
			}
		})
	}
	return nil
}

// maintain does what happens next to the writes, until it fails.
func (c *cutRun) maintain(r *rand.Rand) error {
	for {
		c.mu.Lock()
		a, b := c.streams[0].acked, c.streams[1].acked
		c.mu.Unlock()
		var err error
		switch r.IntN(4) {
		case 0:
			err = c.db.Flush(context.Background())
		case 1:
			err = c.db.Compact(context.Background(), shale.Range{})
		default:
			err = c.db.Sync()
		}
		if err != nil {
			return err
		}
		c.acknowledged(func() {
			c.streams[0].safe = max(c.streams[0].safe, a)
			c.streams[1].safe = max(c.streams[1].safe, b)
		})
		time.Sleep(time.Duration(r.IntN(1+c.pause)) * time.Millisecond)
	}
}

// live opens the store and works it until the power is gone.
func (c *cutRun) live() {
	c.t.Helper()
	c.cut = make(chan struct{})
	// After some acknowledgements, or at a moment that may lie in Open.
	c.after = 1 + c.r.IntN(1<<(3+c.r.IntN(7)))
	c.pause = c.r.IntN(100)
	timeout := time.Minute
	if c.r.IntN(4) == 0 {
		timeout = time.Duration(c.r.IntN(40_000)) * time.Microsecond
	}
	seed := c.r.Uint64()
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-c.cut:
		case <-timer.C:
		}
		c.mu.Lock()
		c.dead = true
		c.mu.Unlock()
		if err := cutPower(c.disk.dir); err != nil {
			c.t.Error(err)
		}
	})
	testenv.Within(c.t, 2*time.Minute, "a store without power", func() {
		defer wg.Wait()
		db, err := shale.Open(c.disk.path("db"), &c.opts)
		if err != nil {
			c.wantDead("Open", err)
			return
		}
		c.db = db
		for i := range c.streams {
			wg.Go(func() {
				c.wantDead("Write", c.write(c.streams[i], c.streams[1-i], rand.New(rand.NewPCG(seed, uint64(i)))))
			})
		}
		wg.Go(func() { c.wantDead("maintenance", c.maintain(rand.New(rand.NewPCG(seed, 2)))) })
		wg.Wait()
		c.wantDead("Close", db.Close())
	})
}

// wantDead checks an error, if it is one, that a disk without power excuses.
func (c *cutRun) wantDead(what string, err error) {
	if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EROFS) {
		c.t.Errorf("%s without power: %v, want EIO", what, err)
	}
}

// check opens what the cut has left and compares. It returns how many writes are lost.
func (c *cutRun) check(before []*cutStream) (lost int) {
	c.t.Helper()
	db, err := shale.Open(c.disk.path("db"), &c.opts)
	if err != nil {
		c.t.Fatalf("Open after a power cut: %v", err)
	}
	defer harness.WantClose(c.t, db)
	for _, s := range c.streams {
		if err := s.Check(db, s.safe, s.begun); err != nil {
			c.t.Errorf("after a power cut: %d acknowledged: %v", s.acked, err)
			return 0
		}
		lost += max(0, s.acked-s.N)
	}
	for i, s := range c.streams {
		if other := c.streams[1-i]; s.N > 0 && s.others[s.N-1] > other.N {
			c.t.Errorf("after a power cut: write %d of stream %s is there, and of the %d of %s before it only %d",
				s.N, s.Name, s.others[s.N-1], other.Name, other.N)
		}
	}
	for _, s := range before { // what was found is safe, and no more may come
		if err := s.Check(db, s.N, s.N); err != nil {
			c.t.Errorf("after the next power cut: %v", err)
		}
	}
	return lost
}

// The power is cut while a store is in use. No synced write is lost, what
// survives is all that was written up to some point, by whole batches, and the
// store goes on.
func TestPowerCut(t *testing.T) {
	seed := testenv.Seed(t)
	for i, d := range cutDisks {
		t.Run(d.name, func(t *testing.T) {
			testenv.CheckLeaks(t)
			long := testenv.Long(t) / time.Duration(len(cutDisks))
			if testing.Short() && i > 0 {
				t.Skip("-short: one file system")
			}
			disk := mountImage(t, d.fstype, d.options, d.mib)
			cutPowerOf(t, disk, rand.New(rand.NewPCG(seed, uint64(i))), long)
		})
	}
}

// cutPowerOf cuts the power of one disk again and again.
func cutPowerOf(t *testing.T, disk *testMount, r *rand.Rand, long time.Duration) {
	begin := time.Now()
	var before []*cutStream // of the same store
	cuts, acked, synced, lost := 0, 0, 0, 0
	for ; cuts == 0 || time.Since(begin) < long; cuts++ {
		if cuts%8 == 7 {
			before = nil
			if err := os.RemoveAll(disk.path("db")); err != nil {
				t.Fatal(err)
			}
		}
		c := &cutRun{t: t, disk: disk, r: r, opts: harness.Draw(r, vfs.Default)}
		c.opts.MemtableSize <<= r.IntN(3)
		for i := range c.streams {
			c.streams[i] = &cutStream{Stream: harness.NewStream(fmt.Sprintf("cut%d%c", cuts, 'a'+i), r.Uint64(), 120)}
		}
		c.live()
		disk.unmount()
		disk.mount()
		lost += c.check(before)
		if t.Failed() {
			t.Fatalf("cut %d; %s", cuts, harness.OptionsText(&c.opts))
		}
		before = append(before, c.streams[:]...)
		acked += c.streams[0].acked + c.streams[1].acked
		synced += c.synced
	}
	t.Logf("%d cuts, 0 bad; %d commits acknowledged, %d of them synced; %d unsynced ones lost, from the end; in %v",
		cuts, acked, synced, lost, time.Since(begin).Round(time.Millisecond))
}
