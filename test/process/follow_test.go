package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A handle in this process follows others that write, flush, compact, rebuild filters and are killed, one
// after the other. After each Advance it shows what they had acknowledged before that, whole batches only,
// and its snapshots stay as they are.
func TestAdvance_OtherProcess(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	root := t.TempDir()
	f := &following{t: t, dir: filepath.Join(root, "db"), seed: seed, r: rand.New(rand.NewPCG(seed, 18))}
	for w := range f.streams {
		f.streams[w] = killStream(seed, w)
	}
	lives, limit := uint64(3), 2*time.Second
	for run := uint64(0); run < lives || time.Duration(run)*limit < long; run++ {
		f.life(run, limit/2+time.Duration(f.r.Int64N(int64(limit))))
		killedCopies(t, root)
		if t.Failed() {
			break
		}
	}
	f.letGo(0)
	if f.ro != nil {
		harness.WantClose(t, f.ro)
	}
	t.Logf("%d advances over %d writes, %d reads without a file", f.advances, f.streams[0].N+f.streams[1].N+f.streams[2].N, f.removed)
	if f.advances < 20 {
		t.Error("too few")
	}
}

// A following is a read-only handle of a store that other processes write.
type following struct {
	t        *testing.T
	dir      string
	seed     uint64
	r        *rand.Rand
	ro       *shale.DB
	streams  [killWriters]*harness.Stream
	acked    [killWriters]atomic.Int64
	snaps    []shown
	few      bool // the handle has few files open
	advances int
	removed  int // reads for which a file was missing
}

// A shown is a snapshot with what it showed when it was taken.
type shown struct {
	snap *shale.Snapshot
	has  harness.State
}

// life starts a process that writes, follows it for a while, kills it, and looks at what it has left.
func (f *following) life(run uint64, long time.Duration) {
	t := f.t
	cmd := testenv.Self(t, "^TestKill_Child$")
	cmd.Env = append(os.Environ(), killDir+"="+f.dir, fmt.Sprintf("%s=%d", killSeed, f.seed), fmt.Sprintf("%s=%d", killRun, run))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("the test binary can't be run: %v", err)
	}
	reading := make(chan struct{})
	go func() { // until the child is dead
		defer close(reading)
		var ack [8]byte
		for {
			if _, err := io.ReadFull(out, ack[:]); err != nil {
				return
			}
			x := binary.LittleEndian.Uint64(ack[:])
			f.acked[x>>48].Store(int64(x & (1<<48 - 1)))
		}
	}()
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); {
		f.advance()
		time.Sleep(time.Duration(f.r.IntN(20)) * time.Millisecond)
	}
	_ = cmd.Process.Kill() // if it is dead, Wait says why
	<-reading
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		o := harness.DrawOnDisk(f.seed, run)
		t.Fatalf("life %d: the child ended by itself: %v: %s; %s", run, err, stderr.String(), harness.OptionsText(&o))
	}
	f.advance()
	if t.Failed() {
		t.Logf("life %d: the child said: %s", run, stderr.String())
	}
}

// advance advances the handle and checks what it shows. The first time it opens it, if there is a store.
func (f *following) advance() {
	t := f.t
	var acked [killWriters]int
	for w := range acked {
		acked[w] = int(f.acked[w].Load())
	}
	if f.ro == nil {
		o := harness.DrawOnDisk(f.seed+1, 0)
		o.ReadOnly = true
		if f.seed%2 == 0 {
			o.Tuning.MaxOpenFiles = 16
		}
		f.few = o.Tuning.MaxOpenFiles > 0
		db, err := shale.Open(f.dir, &o)
		if err != nil {
			if acked != [killWriters]int{} {
				t.Errorf("Open: %v", err)
			}
			return
		}
		f.ro = db
	}
	before, err := f.ro.Snapshot()
	if err != nil {
		t.Error(err)
		return
	}
	last := before.Seq()
	_ = before.Close()
	seq, err := f.ro.Advance(context.Background())
	if err != nil || seq < last {
		t.Errorf("Advance = %d, %v; the handle has shown %d", seq, err, last)
		return
	}
	f.advances++
	// Not the handle: it advances by itself if a file is missing.
	snap, err := f.ro.Snapshot()
	if err != nil {
		t.Error(err)
		return
	}
	for w, s := range f.streams {
		n, err := s.Count(snap)
		if err == nil && n < acked[w] {
			err = fmt.Errorf("%d writes are shown, %d were acknowledged before Advance began", n, acked[w])
		}
		if err == nil && n < s.N { // writes that were shown were refused by the writer's gate since then, and were undone
			s = killStream(f.seed, w)
			f.streams[w] = s
		}
		if err == nil {
			err = s.Check(snap, n, n)
		}
		if f.gone(err) {
			_ = snap.Close() // its first Close returns nil
			return
		}
		if err != nil {
			t.Errorf("writer %d: %v", w, err)
		}
	}
	f.letGo(3)
	for i, s := range slices.Backward(f.snaps) {
		found, err := harness.Read(s.snap)
		if f.gone(err) {
			err = s.snap.Close()
			f.snaps = slices.Delete(f.snaps, i, i+1)
		} else if err == nil {
			err = s.has.Diff(found)
		}
		if err != nil {
			t.Errorf("a snapshot at number %d has changed: %v", s.snap.Seq(), err)
		}
	}
	has, err := harness.Read(snap)
	if err != nil {
		if err = errors.Join(err, snap.Close()); !f.gone(err) {
			t.Error(err)
		}
		return
	}
	f.snaps = append(f.snaps, shown{snap, has})
}

// gone reports, and counts, whether err is that of a read for which a file was missing: the handle has few open, and the
// writer has removed it.
func (f *following) gone(err error) bool {
	gone := f.few && harness.Gone(err)
	if gone {
		f.removed++
	}
	return gone
}

// letGo closes all snapshots but the last n.
func (f *following) letGo(n int) {
	for len(f.snaps) > n {
		if err := f.snaps[0].snap.Close(); err != nil {
			f.t.Error(err)
		}
		f.snaps = f.snaps[1:]
	}
}

// While a handle advances, the owner writes, flushes and uses logs again: at each operation of Advance,
// enough that all files are others then. Advance shows what was acknowledged before it began.
func TestAdvance_OwnerWritesMeanwhile(t *testing.T) {
	eachOperation(t, "Advance", testing.Short() || testenv.Race, (*twoHandles).advance)
}

// advance is open for a handle that was opened before, and that advances.
func (b *twoHandles) advance(k int64) (met bool, err error) {
	mem := vfs.NewMem()
	o, err := b.own(mem)
	if err != nil {
		return false, err
	}
	defer o.db.Close()
	if err := o.write(0, b.before/2); err != nil {
		return false, err
	}
	reader := harness.DrawSeeded(nil, b.seed, b.options+100)
	disk := faultfs.New(mem, nil)
	reader.ReadOnly, reader.FS = true, disk
	ro, err := shale.Open(harness.Dir, &reader)
	if err != nil {
		return false, err
	}
	if err := o.write(b.before/2, b.before); err != nil {
		return false, errors.Join(err, ro.Close())
	}
	var mu sync.Mutex // guards armed, met and failed
	var failed error
	armed := true
	begin := disk.Ops()
	disk.Inject(func(_ vfs.Op, _ string, n int64) error {
		if n-begin != k {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if armed {
			met, failed = true, b.meanwhile(o, k)
		}
		return nil
	})
	s := harness.NewStream("a", b.seed, 120)
	if _, err = ro.Advance(context.Background()); err == nil {
		err = check(s, ro, reader.Tuning.MaxOpenFiles > 0, b.before, b.all)
	}
	mu.Lock() // waits for the owner, in case it was the background that met the operation
	armed = false
	mu.Unlock()
	if err == nil {
		_, err = ro.Advance(context.Background())
	}
	if err == nil && met {
		err = check(s, ro, reader.Tuning.MaxOpenFiles > 0, b.all, b.all)
	}
	err = errors.Join(err, ro.Close())
	if failed != nil {
		err = fmt.Errorf("the owner: %w", failed)
	}
	return met, err
}
