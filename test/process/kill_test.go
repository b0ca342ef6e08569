// Package process has several processes use a store one after the other or at the same time: they
// are killed, shut out by the owner's lock, and read while another one writes. No acknowledged write
// is lost, and a store is open for writing once.
package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

const (
	killDir  = "SHALE_KILL_DIR"  // makes a test binary the child, and says where the store is
	killSeed = "SHALE_KILL_SEED" // of its writes
	killRun  = "SHALE_KILL_RUN"  // which child it is
)

// killWriters is how many goroutines of the child write at the same time.
const killWriters = 3

// killStream returns the writes of one of the child's writers.
func killStream(seed uint64, writer int) *harness.Stream {
	return harness.NewStream(fmt.Sprintf("w%d", writer), seed, 4000)
}

// TestKill_Child is not a test: TestKill runs it in a process of its own.
func TestKill_Child(t *testing.T) { beKilled(t, killChild) }

// beKilled runs child, if this process is to be killed.
func beKilled(t *testing.T, child func(dir string, seed, run uint64) error) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("only for a process that is killed")
	}
	seed, err := strconv.ParseUint(os.Getenv(killSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	run, err := strconv.ParseUint(os.Getenv(killRun), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := child(dir, seed, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// killChild writes until it is killed, and does all else that a store is used for meanwhile. It
// reports each commit on its standard output.
func killChild(dir string, seed, run uint64) error {
	o := harness.DrawOnDisk(seed, run)
	o.LockTimeout = 5 * time.Second
	gate := killGate{r: rand.New(rand.NewPCG(seed, run<<8|0xff))}
	gate.refuseLater()
	o.Shipping.Gate = gate.Over(o.Shipping.Gate)
	db, err := shale.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("the child's Open: %w", err)
	}
	failed := make(chan error, killWriters+1)
	for w := range killWriters {
		n, err := killStream(seed, w).Count(db)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(seed, run<<8|uint64(w)))
		go func() { failed <- killWrite(db, &gate, r, killStream(seed, w), w, n) }()
	}
	go func() {
		failed <- killMaintain(db, &gate, dir, o.FilterBits >= 0, rand.New(rand.NewPCG(seed, run)))
	}()
	return <-failed
}

// A killGate refuses a group of writes now and then.
type killGate struct {
	harness.Gate
	mu sync.Mutex
	r  *rand.Rand
}

// refuseLater has one of the next groups refused.
func (g *killGate) refuseLater() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Refuse(1+g.r.Int64N(2000), harness.DrawRefusal(g.r))
}

// passes reports whether err is a refusal, after which the store has resumed without what was refused.
// Otherwise the error stays.
func (g *killGate) passes(db *shale.DB, err error) (again bool, _ error) {
	if !harness.IsRefusal(err) {
		return false, err
	}
	err = db.Resume()
	g.refuseLater()
	return err == nil, err
}

// killWrite makes the writes of a stream after the n-th. Some are synced, and some as durable as the
// options say.
func killWrite(db *shale.DB, gate *killGate, r *rand.Rand, s *harness.Stream, writer, n int) error {
	for i := n + 1; i < n+1_000_000; i++ { // by far more than the parent has patience for
		w := s.Write(i)
		switch n := r.IntN(100); {
		case n == 0:
			w.Durability = shale.SyncEach
		case n >= 80:
			w.Own = false
		}
		again, err := gate.passes(db, db.Write(context.Background(), w.Batch()))
		if again {
			i--
			continue
		}
		if err != nil {
			return fmt.Errorf("the child's Write: %w", err)
		}
		ack := binary.LittleEndian.AppendUint64(nil, uint64(writer)<<48|uint64(i))
		if _, err := os.Stdout.Write(ack); err != nil {
			return err
		}
	}
	return errors.New("nobody killed the child")
}

// killMaintain does what else happens during the writes.
func killMaintain(db *shale.DB, gate *killGate, dir string, filters bool, r *rand.Rand) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		var err error
		switch r.IntN(10) {
		case 0:
			err = db.Flush(ctx)
		case 1:
			err = db.Compact(ctx, shale.Range{})
		case 2:
			err = db.Checkpoint(filepath.Join(filepath.Dir(dir), fmt.Sprintf("copy%d-%d", os.Getpid(), i)))
		case 3:
			err = db.Sync()
		case 4:
			if filters {
				_, err = db.Inspect().RebuildFilters(ctx)
			}
		case 5:
			_, err = db.Inspect().ExportFilters(ctx, io.Discard)
		default:
			time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		}
		if _, err = gate.passes(db, err); err != nil {
			return fmt.Errorf("the child's maintenance: %w", err)
		}
	}
}

// killedChild runs a child, which is the test of that name, kills it at a random moment, and returns the numbers of the
// last writes that it has acknowledged, 0 for a writer with none.
func killedChild(t *testing.T, name, dir string, seed, run uint64, r *rand.Rand) (acked [killWriters]int) {
	t.Helper()
	cmd := testenv.Self(t, "^"+name+"$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprintf("%s=%d", killSeed, seed), fmt.Sprintf("%s=%d", killRun, run))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("the test binary can't be run: %v", err)
	}
	// After some acknowledgements, or at a moment that may lie in Open.
	acks, after := 1+r.IntN(1<<(4+r.IntN(10))), time.Minute
	if testenv.Long(t) > 0 {
		acks *= 2
	}
	if r.IntN(3) == 0 {
		after = time.Duration(r.IntN(60_000)) * time.Microsecond
	}
	kill := func() { _ = cmd.Process.Kill() } // if it is dead, Wait says why
	timer := time.AfterFunc(after, kill)
	defer timer.Stop()
	var ack [8]byte
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if _, err := io.ReadFull(in, ack[:]); err != nil {
			break // the child is dead
		}
		x := binary.LittleEndian.Uint64(ack[:])
		acked[x>>48] = int(x & (1<<48 - 1))
		if n == acks {
			kill()
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		o := harness.DrawOnDisk(seed, run)
		t.Fatalf("run %d: the child ended by itself: %v: %s; %s", run, err, stderr.String(), harness.OptionsText(&o))
	}
	return acked
}

// A process that writes is killed again and again. No write that it has acknowledged is lost, synced
// or not; batches are there as a whole or not at all; and nothing is in the way of the next process.
func TestKill(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	runs := uint64(20)
	if testing.Short() {
		runs = 6
	}
	begin, long := time.Now(), testenv.Long(t)
	root := t.TempDir()
	dir := filepath.Join(root, "db")
	r := rand.New(rand.NewPCG(seed, 0))
	var streams [killWriters]*harness.Stream
	for w := range streams {
		streams[w] = killStream(seed, w)
	}
	run, levels, copies, early, commits := uint64(0), 0, 0, 0, 0
	for ; run < runs || time.Since(begin) < long; run++ {
		acked := killedChild(t, "TestKill_Child", dir, seed, run, r)
		if streams[0].N+streams[1].N+streams[2].N == 0 && acked == [killWriters]int{} && !exists(filepath.Join(dir, "CURRENT")) {
			early++
			continue // it was killed before there was a store
		}
		for w, n := range acked {
			commits += max(0, n-streams[w].N)
		}
		levels = max(levels, killedStore(t, dir, seed, run, acked, streams))
		copies += killedCopies(t, root)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills (%d before there was a store), %d acknowledged commits, none lost, %d levels, %d checkpoints in %v", run, early,
		commits, levels, copies, time.Since(begin).Round(time.Millisecond))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// killedStore checks what a child has left, and returns the number of levels. In two of three runs it
// changes nothing, so that the next child finds it so.
func killedStore(t *testing.T, dir string, seed, run uint64, acked [killWriters]int, streams [killWriters]*harness.Stream) (levels int) {
	t.Helper()
	o := harness.DrawOnDisk(seed+1, run)
	o.ReadOnly = run%3 > 0
	text := harness.OptionsText(&o)
	db, err := shale.Open(dir, &o)
	if err != nil {
		t.Fatalf("run %d: Open (read-only: %v): %v; %s", run, o.ReadOnly, err, text)
	}
	keys := 0
	for w, s := range streams {
		// The one write that was under way may be there.
		if err := s.Check(db, acked[w], max(acked[w], s.N)+1); err != nil {
			t.Errorf("run %d (read-only: %v): %v; %s", run, o.ReadOnly, err, text)
		}
		keys += s.Held.Len()
	}
	if found, err := harness.Read(db); err != nil || found.Len() != keys {
		t.Errorf("run %d: %d keys, %v; the writers have %d; %s", run, found.Len(), err, keys, text)
	}
	levels = harness.Levels(db)
	if err := harness.Close(db); err != nil {
		t.Errorf("run %d: %v; %s", run, err, text)
	}
	return levels
}

// killedCopies opens the checkpoints that a child has made, all but one that it perhaps had not
// finished, and removes them.
func killedCopies(t *testing.T, root string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "copy*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if exists(filepath.Join(dir, "CURRENT")) {
			o := harness.DrawOnDisk(uint64(n), uint64(n))
			db, err := shale.Open(dir, &o)
			if err != nil {
				t.Errorf("Open of a checkpoint: %v", err)
				continue
			}
			n++
			if err := harness.Close(db); err != nil {
				t.Errorf("a checkpoint: %v", err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
