package program

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// A client of a Redis Cluster that writes and reads without a pause finds the next leader when one is killed, and when one hangs.
// -v prints the longest time that a writer was without a success: docs/SHALED.md has them.
func TestFailover_GoRedis(t *testing.T) {
	group := children(t, "--heartbeat", "500ms")
	var addrs []string
	for _, c := range group {
		addrs = append(addrs, c.addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: 300 * time.Millisecond})
	// Else the client goes on asking the dead leader: https://github.com/redis/go-redis/issues/3979. From 9.18 on there is
	// ClusterStateReloadInterval for it, with which commands that fail make it look all the time.
	done, look := make(chan struct{}), sync.WaitGroup{}
	look.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(300 * time.Millisecond):
				client.ReloadState(t.Context())
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		look.Wait()
		client.Close()
	})
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		lead := group[leading(t, group)]
		ctx, cancel := context.WithCancel(t.Context())
		var all [4]writer
		var writing sync.WaitGroup
		for i := range all {
			writing.Go(func() { all[i].write(ctx, client, fmt.Sprint("w", i)) })
		}
		goOn(t, all[:])
		mustNil(t, lead.cmd.Process.Signal(signal))
		for _, c := range group {
			if c != lead {
				writing.Go(func() { askSlots(ctx, t, dial(t, c.addr)) })
			}
		}
		goOn(t, all[:])
		cancel()
		writing.Wait()
		for i := range all {
			t.Logf("%v: writer %d was without a success for %v", signal, i, all[i].longest)
			if all[i].longest > 5*time.Second { // a busy machine needs longer
				t.Errorf("%v: that was too long", signal)
			}
		}
		if signal == syscall.SIGKILL {
			lead.kill()
			again := startChild(t, append(lead.args, "--join", strings.Join(joins(group), ","))...)
			lead.addr, lead.http, lead.cmd, lead.kill = again.addr, again.http, again.cmd, again.kill
		}
	}
}

// A writer writes and reads one key.
type writer struct {
	successes atomic.Int64
	longest   time.Duration // between two of them
}

func (w *writer) write(ctx context.Context, client redis.UniversalClient, key string) {
	last := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		if client.Set(ctx, key, n, 0).Err() == nil && client.Get(ctx, key).Err() == nil {
			w.longest, last = max(w.longest, time.Since(last)), time.Now()
			w.successes.Add(1)
		}
	}
}

// askSlots asks who leads, again and again. The answer must come before clients give up, whoever hangs.
func askSlots(ctx context.Context, t *testing.T, client *redis.Client) {
	for ctx.Err() == nil {
		began := time.Now()
		err := client.Do(ctx, "CLUSTER", "SLOTS").Err()
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("CLUSTER SLOTS took %v: %v", took, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// goOn waits until each writer has a few more successes.
func goOn(t *testing.T, all []writer) {
	t.Helper()
	for i := range all {
		enough := all[i].successes.Load() + 20
		testenv.WaitFor(t, "a writer goes on", func() bool { return all[i].successes.Load() > enough })
	}
}

// joins returns where the members listen for others.
func joins(group []*child) (all []string) {
	for _, c := range group {
		for i, arg := range c.args {
			if arg == "--listen" {
				all = append(all, c.args[i+1])
			}
		}
	}
	return all
}
