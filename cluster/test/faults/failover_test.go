//go:build unix

package faults

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// newPlainGroup starts a group on healthy disks.
func newPlainGroup(t *testing.T, members int, setup func(*memberConfig)) (*group, *nemesis) {
	t.Helper()
	seed := testenv.Seed(t)
	net, err := newProxyNet(seed)
	if err != nil {
		t.Fatal(err)
	}
	f := new(figures)
	g := newGroup(t, seed, net, f, setup)
	t.Cleanup(g.close)
	n := &nemesis{g: g, f: f, stop: make(chan struct{})}
	for i := range members {
		m := g.add(string(rune('a'+i)), nil, false)
		if i == 0 {
			testenv.WaitFor(t, "the first member", m.running)
		}
	}
	if !n.awaitAll(members) {
		t.FailNow()
	}
	return g, n
}

// When the process of a leader is killed, the others go on by themselves. The test prints how long writers
// had to wait; times depend on the machine, so it does not judge them.
func TestFailover(t *testing.T) {
	if testing.Short() && testenv.Long(t) == 0 {
		t.Skip("there is nothing to judge")
	}
	kills := 3
	if testenv.Long(t) > 0 {
		kills = 25
	}
	for _, timeout := range []time.Duration{0, 250 * time.Millisecond} {
		name := "raft's timeouts"
		if timeout > 0 {
			name = timeout.String()
		}
		t.Run(name, func(t *testing.T) {
			g, _ := newPlainGroup(t, 3, func(c *memberConfig) { c.Timeout, c.Forward = timeout, true })
			waits := make([]time.Duration, kills)
			for i := range waits {
				testenv.WaitFor(t, "a leader, and three members that are as far", func() bool { return g.settled() == nil })
				leader := g.leader()
				if leader == nil {
					t.Fatal("no leader although nothing fails")
				}
				time.Sleep(time.Duration(g.intN(300)) * time.Millisecond) // anywhere between two heartbeats
				waits[i] = failover(g, leader)
			}
			slices.Sort(waits)
			t.Logf("%d kills of leaders: writers waited %v at the median, %v at most", kills,
				waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))
		})
	}
}

// failover kills the leader while writers are busy, and returns how long it took from then until a write was
// acknowledged that had begun after that.
func failover(g *group, leader *process) time.Duration {
	var killed, first atomic.Int64 // on the clock of begin
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for n := 0; first.Load() == 0 && time.Since(begin) < comeBack; n++ {
				began, a := time.Since(begin), new(Answer)
				op := Op{Kind: "put", Key: fmt.Sprintf("k%d", i), Value: fmt.Sprint(n), Timeout: 2 * time.Second}
				p := g.all()[r.IntN(3)]
				err := p.call("Do", op, a, op.Timeout)
				if k := killed.Load(); err == nil && a.Outcome == done && k > 0 && int64(began) > k {
					first.CompareAndSwap(0, int64(time.Since(begin)))
				} else if err != nil || a.Outcome != done {
					time.Sleep(2 * time.Millisecond)
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	killed.Store(int64(time.Since(begin)))
	leader.kill()
	wg.Wait()
	if first.Load() == 0 {
		g.fail("no write in %v after the leader's death", comeBack)
	}
	return time.Duration(first.Load() - killed.Load())
}

// joinEnv is how many GB the group has that a new member joins.
const joinEnv = "SHALE_JOIN_GB"

// A new member gets the tables of a large state as they are: little more than their bytes travels.
func TestJoin_Large(t *testing.T) {
	gb := 0.1
	if text := os.Getenv(joinEnv); text != "" {
		var err error
		if gb, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatalf("%s: %v", joinEnv, err)
		}
	} else if testing.Short() {
		t.Skip("moves 100 MB")
	}
	g, n := newPlainGroup(t, 1, func(c *memberConfig) {
		c.Timeout, c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 2*time.Second, 200, time.Second, 20
	})
	a := g.all()[0]
	const size, step = 16 << 10, 2048 // 32 MiB a call
	keys, begin := int(gb*1e9/size), time.Now()
	for i := 0; i < keys; i += step {
		f := Fill{From: i, To: min(i+step, keys), Size: size, Seed: byte(i / step)}
		if err := a.call("Fill", f, new(struct{}), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	filled := time.Since(begin)
	if err := a.call("Snapshot", struct{}{}, new(struct{}), time.Minute); err != nil {
		t.Fatal(err)
	}
	before, begin := g.net.bytes(), time.Now()
	b := g.add("b", nil, false)
	for s, err := (*Status)(nil), error(nil); ; time.Sleep(20 * time.Millisecond) {
		if s, err = b.status(); err == nil && s.Voters == 2 {
			break
		}
		if time.Since(begin) > time.Hour {
			t.Fatal("b has not joined in an hour")
		}
	}
	took, travelled := time.Since(begin), g.net.bytes()-before
	held := bytesOf(t, filepath.Join(b.config.Dir, "state-*"))
	if float64(travelled) > 1.2*float64(held) {
		t.Errorf("%d bytes travelled for a state of %d", travelled, held)
	}
	// What the disk can do: the same files, copied and synced.
	begin = time.Now()
	copied := copyAll(t, filepath.Join(b.config.Dir, "state-*"), filepath.Join(g.root, "copy"))
	t.Logf("%.2f GB written in %v; a new member had %.2f GB and its vote after %v (%.0f MB/s), %.3f of it travelled; "+
		"copying and syncing %.2f GB takes %v (%.0f MB/s)", gb, filled.Round(time.Second), float64(held)/1e9, took.Round(10*time.Millisecond),
		float64(held)/1e6/took.Seconds(), float64(travelled)/float64(held), float64(copied)/1e9,
		time.Since(begin).Round(10*time.Millisecond), float64(copied)/1e6/time.Since(begin).Seconds())
	if err := n.sameKeys(); err != nil {
		t.Error(err)
	}
}

// sameKeys waits until all members are as far, and compares what they hold if that fits into memory.
func (n *nemesis) sameKeys() (err error) {
	for deadline := time.Now().Add(comeBack); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = n.g.settled(); err == nil {
			break
		}
	}
	if err != nil || os.Getenv(joinEnv) != "" {
		return err
	}
	_, err = n.g.compare()
	return err
}

// files returns the files below the directories that match.
func files(t *testing.T, pattern string) (all []string) {
	t.Helper()
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the store has just removed it
			}
			if err == nil && d.Type().IsRegular() {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func bytesOf(t *testing.T, pattern string) (sum int64) {
	t.Helper()
	for _, name := range files(t, pattern) {
		if info, err := os.Stat(name); err == nil { // else the store has just removed it
			sum += info.Size()
		}
	}
	return sum
}

func copyAll(t *testing.T, pattern, dir string) (sum int64) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range files(t, pattern) {
		src, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(dst, struct{ io.Reader }{src}) // through memory, as from a connection
		if err == nil {
			err = dst.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		dst.Close()
		src.Close()
		sum += n
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return sum
}
