package shale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

const (
	killDir  = "SHALE_KILL_DIR"  // tells a test binary to be the child, and where the store is
	killSeed = "SHALE_KILL_SEED" // of its writes
	killRun  = "SHALE_KILL_RUN"  // which child it is
)

// killWriters is how many goroutines of the child write at the same time, each
// to keys of its own.
const killWriters = 3

// killOptions are those of child and parent, drawn for each run.
func killOptions(seed uint64, run int) *Options {
	o := drawSeeded(nil, seed, uint64(run))
	o.MemtableSize *= 4 << (run % 4 / 2 * 2) // more writes a kill
	o.TableSize *= 4
	o.CompactionWorkers = max(o.CompactionWorkers, 1) // nothing else keeps the runs few
	return &o
}

// killCommit returns the i-th commit of a writer: it counts, and changes some
// keys.
func killCommit(seed uint64, writer, i int) *Batch {
	r := rand.New(rand.NewPCG(seed, uint64(writer)<<48|uint64(i)))
	b := new(Batch)
	switch n := r.IntN(100); { // the others are as durable as the options say
	case n == 0:
		b.SetDurability(SyncEach)
	case n < 80:
		b.SetDurability(SyncManual)
	}
	_ = b.Put(fmt.Appendf(nil, "w%d-count", writer), strconv.AppendInt(nil, int64(i), 10)) // far below every limit
	for range 1 + r.IntN(4) {
		key := fmt.Appendf(nil, "w%d-k%05d", writer, r.IntN(4000))
		if r.IntN(5) == 0 {
			_ = b.Delete(key) // likewise
			continue
		}
		size := r.IntN(100)
		if r.IntN(200) == 0 {
			size = 5000
		}
		value := bytes.Repeat(strconv.AppendInt(nil, int64(i), 10), 1+size/4)
		_ = b.Put(key, value) // likewise
	}
	return b
}

// killState is what a writer's commits lead to.
type killState struct {
	writer, n int
	entries   map[string]string
}

// advance applies the commits up to number n.
func (s *killState) advance(seed uint64, n int) {
	for s.n < n {
		s.n++
		for op := range killCommit(seed, s.writer, s.n).Ops() {
			if op.Kind == OpDelete {
				delete(s.entries, string(op.Key))
			} else {
				s.entries[string(op.Key)] = string(op.Value)
			}
		}
	}
}

// check compares all that db holds of the writer with its state after as many
// commits as the store says it has: at least those acknowledged.
func (s *killState) check(db *DB, seed uint64, acked int) error {
	got := make(map[string]string)
	for e, err := range db.Scan(Prefix(fmt.Sprintf("w%d-", s.writer))) {
		if err != nil {
			return fmt.Errorf("Scan: %w", err)
		}
		got[string(e.Key)] = string(e.Value)
	}
	n := 0
	if count, ok := got[fmt.Sprintf("w%d-count", s.writer)]; ok {
		var err error
		if n, err = strconv.Atoi(count); err != nil {
			return err
		}
	}
	if n < acked || n < s.n || n > max(acked, s.n)+1 {
		return fmt.Errorf("writer %d: %d commits are there; %d were acknowledged, and %d were there before", s.writer, n, acked, s.n)
	}
	s.advance(seed, n)
	for k, v := range s.entries {
		if g, ok := got[k]; !ok || g != v {
			return fmt.Errorf("after %d commits key %q is %.40q (there: %v), want %.40q", n, k, g, ok, v)
		}
	}
	for k, v := range got {
		if _, ok := s.entries[k]; !ok {
			return fmt.Errorf("after %d commits key %q is there, with %.40q", n, k, v)
		}
	}
	return nil
}

// TestKill_Child is not a test: TestKill runs it in a process of its own.
func TestKill_Child(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("only for TestKill")
	}
	seed, err := strconv.ParseUint(os.Getenv(killSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	run, err := strconv.Atoi(os.Getenv(killRun))
	if err != nil {
		t.Fatal(err)
	}
	if err := killChild(dir, seed, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// killChild writes until it is killed, and does all else that a store is used
// for meanwhile. It tells of each commit on its standard output.
func killChild(dir string, seed uint64, run int) error {
	o := killOptions(seed, run)
	o.LockTimeout = 5 * time.Second
	db, err := Open(dir, o)
	if err != nil {
		return fmt.Errorf("the child's Open: %w", err)
	}
	failed := make(chan error, killWriters+1)
	for w := range killWriters {
		count, err := db.Get(fmt.Appendf(nil, "w%d-count", w))
		if err != nil && err != ErrNotFound {
			return err
		}
		n, _ := strconv.Atoi(string(count)) // 0 in a new store
		go func() { failed <- killWrite(db, seed, w, n) }()
	}
	go func() { failed <- killMaintain(db, dir, rand.New(rand.NewPCG(seed, uint64(run)))) }()
	return <-failed
}

// killWrite makes the commits of one writer after the n-th.
func killWrite(db *DB, seed uint64, writer, n int) error {
	for i := n + 1; i < n+1_000_000; i++ { // by far more than the parent has patience for
		if err := db.Write(context.Background(), killCommit(seed, writer, i)); err != nil {
			return fmt.Errorf("the child's Write: %w", err)
		}
		ack := binary.LittleEndian.AppendUint64(nil, uint64(writer)<<48|uint64(i))
		if _, err := os.Stdout.Write(ack); err != nil {
			return err
		}
	}
	return fmt.Errorf("nobody killed the child")
}

// killMaintain does what happens beside the writes.
func killMaintain(db *DB, dir string, r *rand.Rand) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		var err error
		switch r.IntN(10) {
		case 4:
			if o := &db.opts; o.FilterBits >= 0 {
				_, err = db.RebuildFilters(ctx)
			}
		case 5:
			_, err = db.ExportFilters(ctx, io.Discard)
		case 0:
			err = db.Flush(ctx)
		case 1:
			err = db.Compact(ctx, Range{})
		case 2:
			err = db.Checkpoint(filepath.Join(filepath.Dir(dir), fmt.Sprintf("copy%d-%d", os.Getpid(), i)))
		case 3:
			err = db.Sync()
		default:
			time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("the child's maintenance: %w", err)
		}
	}
}

// killedChild runs a child, kills it at a random moment, and returns what it
// has acknowledged.
func killedChild(t *testing.T, dir string, seed uint64, run int, r *rand.Rand) (acked [killWriters]int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Skipf("the path of the test binary is unknown: %v", err)
	}
	cmd := exec.Command(self, "-test.run=^TestKill_Child$")
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
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // if it is dead, Wait tells why
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
			_ = cmd.Process.Kill() // likewise
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("run %d: the child ended by itself: %v: %s; %s", run, err, stderr.String(), optionsText(killOptions(seed, run)))
	}
	return acked
}

// A process that writes is killed again and again. No write that it was told
// of is lost, synced or not; batches are there as a whole or not at all; and
// nothing is in the way of the next process.
func TestKill(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	runs := 20
	if testing.Short() {
		runs = 6
	}
	begin := time.Now()
	long := testenv.Long(t)
	root := t.TempDir()
	dir := filepath.Join(root, "db")
	r := rand.New(rand.NewPCG(seed, 0))
	var states [killWriters]killState
	for w := range states {
		states[w] = killState{writer: w, entries: make(map[string]string)}
	}
	run, levels, copies, early, commits := 0, 0, 0, 0, 0
	for ; run < runs || time.Since(begin) < long; run++ {
		acked := killedChild(t, dir, seed, run, r)
		if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil && states[0].n+states[1].n+states[2].n == 0 && acked == [killWriters]int{} {
			early++
			continue // it was killed before there was a store
		}
		for w, n := range acked {
			commits += max(0, n-states[w].n)
		}
		levels = max(levels, killedStore(t, dir, seed, run, acked[:], states[:]))
		copies += killedCopies(t, root)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills (%d before there was a store), %d acknowledged commits, none lost, %d levels, %d checkpoints in %v", run, early,
		commits, levels, copies, time.Since(begin).Round(time.Millisecond))
}

// killedStore checks what a child has left, and returns the number of levels.
// In every other run it changes nothing, so that the next child finds it so.
func killedStore(t *testing.T, dir string, seed uint64, run int, acked []int, states []killState) (levels int) {
	t.Helper()
	o := killOptions(seed+1, run)
	o.ReadOnly = run%3 > 0
	db, err := Open(dir, o)
	if err != nil {
		t.Fatalf("run %d: Open (read-only: %v): %v; %s", run, o.ReadOnly, err, optionsText(o))
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("run %d: Close: %v", run, err)
		}
	}()
	for w := range states {
		if err := states[w].check(db, seed, acked[w]); err != nil {
			t.Errorf("run %d (read-only: %v): %v; %s", run, o.ReadOnly, err, optionsText(o))
		}
	}
	if err := db.Verify(context.Background()); err != nil {
		t.Errorf("run %d: Verify: %v; %s", run, err, optionsText(o))
	}
	for _, l := range db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	return levels
}

// killedCopies opens the checkpoints that a child has made, all but one that
// it perhaps had not finished, and removes them.
func killedCopies(t *testing.T, root string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "copy*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err == nil {
			db, err := Open(dir, killOptions(uint64(n), n))
			if err != nil {
				t.Errorf("Open of a checkpoint: %v", err)
				continue
			}
			n++
			if err := db.Verify(context.Background()); err != nil {
				t.Errorf("Verify of a checkpoint: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Errorf("Close of a checkpoint: %v", err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
