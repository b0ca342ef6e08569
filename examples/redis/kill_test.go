package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// A child is a server in a process of its own.
type child struct {
	*running
	cmd *exec.Cmd
}

// startChild starts a server process. It is killed when the test ends, if it still runs.
func startChild(t *testing.T, flags ...string) *child {
	t.Helper()
	cmd := testenv.Self(t, "^$")
	flags = append([]string{"-addr", "127.0.0.1:0"}, flags...)
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(flags, " "))
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, running: new(running)}
	c.stop = sync.OnceValue(func() error {
		_ = cmd.Process.Kill() // it may have ended
		return cmd.Wait()
	})
	t.Cleanup(func() { _ = c.stop() }) // it was killed
	lines := bufio.NewScanner(out)
	address := regexp.MustCompile(`listening on (\S+),`)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			c.addr = m[1]
			go func() {
				for lines.Scan() { // so that it does not wait for the pipe
				}
			}()
			return c
		}
	}
	t.Fatal("the server ends before it listens")
	return nil
}

// adders adds items to filters and strings from several clients, in pipelines and one by one,
// until the server is gone. acknowledged[i] is how many items of client i were answered.
func adders(t *testing.T, c *child, acknowledged []int, from []int, enough chan<- struct{}) *sync.WaitGroup {
	t.Helper()
	ctx := context.Background()
	var clients sync.WaitGroup
	var told atomic.Int64
	for i := range acknowledged {
		client := c.dial(t)
		clients.Go(func() {
			for n, step := from[i], 0; ; step++ {
				count := 1 + 9*(step%2)
				cmds, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
					for j := range count {
						p.BFAdd(ctx, fmt.Sprintf("f%d", i%2), killItem(i, n+j))
						p.Set(ctx, killItem(i, n+j), n+j, 0)
					}
					return nil
				})
				// If it can't connect, go-redis returns commands without an error, so the
				// replies count.
				for j := 0; j+1 < len(cmds) && cmds[j].Err() == nil && cmds[j+1].(*redis.StatusCmd).Val() == "OK"; j += 2 {
					n++
				}
				acknowledged[i] = n
				if err != nil {
					return
				}
				if n-from[i] >= 500 && told.Add(1) == 1 {
					close(enough)
				}
			}
		})
	}
	return &clients
}

// killItem returns an item so long that filters are saved now and then.
func killItem(client, n int) string {
	return fmt.Sprintf("%d:%d:%s", client, n, strings.Repeat("x", 300))
}

// Whatever a server has acknowledged is there after kill -9, whenever that comes.
func TestServer_KillMinus9(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	ctx := t.Context()
	acknowledged := make([]int, 4)
	for round := range rounds {
		c := startChild(t, "-dir", dir, "-sync", "no")
		client := c.dial(t)
		for i, n := range acknowledged {
			checkThere(t, client, i, n)
		}
		if t.Failed() {
			return
		}
		enough := make(chan struct{})
		clients := adders(t, c, acknowledged, append([]int(nil), acknowledged...), enough)
		<-enough
		time.Sleep(time.Duration(round*7) * time.Millisecond)
		if err := c.stop(); err == nil {
			t.Error("the server ended by itself")
		}
		clients.Wait()
	}
	last := startChild(t, "-dir", dir)
	client := last.dial(t)
	for i, n := range acknowledged {
		checkThere(t, client, i, n)
	}
	n, err := client.BFCard(ctx, "f0").Result()
	t.Logf("%d rounds, acknowledged %v; f0 has %d items, %v", rounds, acknowledged, n, err)

	// An interrupt ends it in an orderly way.
	if err := last.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := last.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// checkThere fails the test if an item before n of a client is missing.
func checkThere(t *testing.T, client *redis.Client, i, n int) {
	t.Helper()
	ctx := t.Context()
	for from := 0; from < n; from += 500 {
		var items []any
		var names []string
		for j := from; j < min(n, from+500); j++ {
			items, names = append(items, killItem(i, j)), append(names, killItem(i, j))
		}
		found, err := client.BFMExists(ctx, fmt.Sprintf("f%d", i%2), items...).Result()
		values, err2 := client.MGet(ctx, names...).Result()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for j := range found {
			if !found[j] || values[j] != fmt.Sprint(from+j) {
				t.Errorf("item %d of client %d, of %d acknowledged: in the filter %v, value %v", from+j, i, n, found[j], values[j])
				return
			}
		}
	}
}
