package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// All three members lose their power at the same moment, while clients write and snapshots are made.
// Nothing that was acknowledged is lost, and the members agree afterwards, whatever
// their disks have kept.
func TestNode_PowerCuts(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	configs := vfs.CrashConfigs(seed)
	lives := len(configs)
	if testing.Short() || testenv.Race {
		lives = 3
	}
	g := newGroup(t, 3, func(o *Options) {
		o.Store = &shale.Options{MemtableSize: 64 << 10}
		o.Raft = func(c *raft.Config) {
			fastRaft(c)
			c.SnapshotInterval = 50 * time.Millisecond
			c.SnapshotThreshold = 100
			c.TrailingLogs = 20
		}
	})
	acknowledged := map[string]string{}
	begin := time.Now()
	for life := 0; life < lives || time.Since(begin) < testenv.Long(t); life++ {
		if life > 0 && life%len(configs) == 0 {
			configs = vfs.CrashConfigs(seed + uint64(life))
		}
		config := configs[life%len(configs)]
		var power sync.RWMutex // locked: the disks stand still
		for _, m := range g.members {
			m.opts.FS.(*vfs.Mem).OnOp(func(vfs.Op, string) {
				power.RLock()
				defer power.RUnlock()
			})
		}
		var mu sync.Mutex
		now := map[string]string{}
		var stop atomic.Bool
		var wg sync.WaitGroup
		for c := range 4 {
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					for _, m := range g.members {
						if !m.IsLeader() {
							continue
						}
						k, v := fmt.Sprintf("%d.%d.%d", life%7, c, i%50), fmt.Sprintf("%d.%d", life, i)
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						err := m.Put(ctx, []byte(k), fmt.Appendf(nil, "%s %0200d", v, 0))
						cancel()
						mu.Lock()
						if !stop.Load() {
							switch {
							case err == nil:
								now[k] = v
							case errors.Is(err, ErrUnknown):
								now[k] = "?" // this value or the one before
							}
						} else if err == nil || errors.Is(err, ErrUnknown) {
							now[k] = "?"
						}
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		mu.Lock()
		power.Lock()
		stop.Store(true)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond) // operations that had begun end
		var disks []*vfs.Mem
		for i, m := range g.members {
			c := config
			c.Seed += uint64(i) << 32
			disks = append(disks, m.opts.FS.(*vfs.Mem).Crash(c))
		}
		power.Unlock()
		wg.Wait()
		for _, m := range g.members {
			if err := m.Close(); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
		}
		for i, m := range g.members {
			m.opts.FS = disks[i]
			g.open(m)
		}
		for k, v := range now {
			acknowledged[k] = v
		}
		g.agree()
		l := g.leader()
		for k, want := range acknowledged {
			v, err := l.Local().Get([]byte(k))
			if want == "?" {
				delete(acknowledged, k)
				continue
			}
			if err != nil || len(v) < len(want) || string(v[:len(want)]) != want {
				t.Fatalf("life %d, %v: %s = %.20q, %v, want %s", life, config, k, v, err, want)
			}
		}
	}
	t.Logf("%d lives, %d keys", lives, len(acknowledged))
}
