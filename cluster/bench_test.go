package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// diskGroup is a group of three on this machine's disk, with raft's own timeouts.
func diskGroup(b testing.TB) *testGroup {
	return newGroup(b, 3, func(o *Options) { o.FS, o.Raft = vfs.Default, nil })
}

// inParallel has n goroutines call fn b.N times in all.
func inParallel(b *testing.B, n int, fn func(i int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := fn(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkNode_Read reads present keys linearizably by 64 readers, on the leader and on a follower.
func BenchmarkNode_Read(b *testing.B) {
	g := diskGroup(b)
	const keys = 1000
	for i := range keys {
		g.write(fmt.Sprintf("key%06d", i), fmt.Sprintf("%0256d", i))
	}
	for name, m := range map[string]*testMember{"leader": g.leader(), "follower": g.follower()} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			inParallel(b, 64, func(i int64) error {
				return m.Read(ctx, func(r shale.Reader) error {
					return r.ViewValue(fmt.Appendf(nil, "key%06d", i%keys), func([]byte) error { return nil })
				})
			})
		})
	}
}

// BenchmarkNode_Write writes 256 bytes by 1, 64 and 1,000 writers.
func BenchmarkNode_Write(b *testing.B) {
	g := diskGroup(b)
	l := g.leader()
	for _, writers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			value := make([]byte, 256)
			inParallel(b, writers, func(i int64) error {
				return l.Put(context.Background(), fmt.Appendf(nil, "key%09d", i), value)
			})
		})
	}
}

// BenchmarkNode_Update counts in one key, moves something between two of 100,000 keys, and puts one key, on the leader.
func BenchmarkNode_Update(b *testing.B) {
	g := diskGroup(b)
	l := g.leader()
	ctx := context.Background()
	account := func() []byte { return fmt.Appendf(nil, "account%05d", rand.IntN(100_000)) }
	var runs atomic.Int64
	for name, fn := range map[string]func() error{
		"put": func() error { return l.Put(ctx, account(), make([]byte, 8)) },
		"counter": func() error {
			return l.Update(ctx, func(tx *Txn) error { runs.Add(1); return increment(tx) })
		},
		"transfer": func() error {
			from, to := account(), account()
			return l.Update(ctx, func(tx *Txn) error {
				runs.Add(1)
				return tx.GetMany([][]byte{from, to}, func(i int, value []byte, _ bool) error {
					balance := binary.LittleEndian.Uint64(append(bytes.Clone(value), make([]byte, 8)...))
					return tx.Put([][]byte{from, to}[i], binary.LittleEndian.AppendUint64(nil, balance+uint64(2*i)-1))
				})
			})
		},
	} {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", name, clients), func(b *testing.B) {
				runs.Store(0)
				inParallel(b, clients, func(int64) error { return fn() })
				if n := runs.Load(); n > 0 {
					b.ReportMetric(float64(n)/float64(b.N), "runs/op")
				}
			})
		}
	}
}

// TestNode_FailoverTime measures how long a group takes no writes when its leader dies.
func TestNode_FailoverTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		raft  func(*raft.Config)
		limit time.Duration
	}{
		{"raft's defaults", nil, 3500 * time.Millisecond},
		{"250 ms", func(c *raft.Config) {
			timeouts(c, 250*time.Millisecond)
		}, 1200 * time.Millisecond},
	} {
		if c.raft == nil && testing.Short() {
			continue
		}
		g := newGroup(t, 3, func(o *Options) { o.Raft = c.raft })
		var times []time.Duration
		n := 5
		if testing.Short() {
			n = 1
		}
		median := func() time.Duration { return times[len(times)/2] }
		for i := 0; i < n || i < n+10 && median() > c.limit; i++ { // more, if this machine is busy
			g.write("k", "v")
			l := g.leader()
			begin := time.Now()
			l.kill()
			g.write("k", "w")
			times = append(times, time.Since(begin))
			slices.Sort(times)
			mustNil(t, l.Close())
			g.open(l)
			g.agree()
		}
		t.Logf("%s: median %v, longest %v of %d", c.name, median(), times[len(times)-1], len(times))
		if median() > c.limit {
			t.Errorf("%s: the median is above %v", c.name, c.limit)
		}
		g.close()
		g.members = nil
	}
}

// kill ends the member's connections at once, as the death of its process does.
func (m *testMember) kill() {
	m.stopOnce.Do(func() { close(m.stopping) })
	m.network.close()
}
