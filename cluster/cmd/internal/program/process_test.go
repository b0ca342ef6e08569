package program

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// A child is a member in a process of its own.
type child struct {
	id, addr, http string
	args           []string
	cmd            *exec.Cmd
	kill           func()
}

var readyLine = regexp.MustCompile(`serves clients on (\S+), (?:members on \S+, )?pages on http://(\S+)/`)

// startChild starts a process, which is killed when the test ends, if it still runs.
func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	cmd := testenv.Self(t, "^$")
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(append([]string{"serve"}, args...), "\x1f"))
	out, err := cmd.StderrPipe()
	mustNil(t, err)
	mustNil(t, cmd.Start())
	c := &child{args: args, cmd: cmd}
	c.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	t.Cleanup(c.kill)
	lines := bufio.NewScanner(out)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			c.addr, c.http = m[1], m[2]
			go func() {
				for lines.Scan() { // so that it does not wait for the pipe
				}
			}()
			return c
		}
	}
	t.Fatalf("a member ends before it serves: %s", strings.Join(said, "\n"))
	return nil
}

// nextPort is below the ports that systems give to outgoing connections and to listeners that ask for any, so that nobody
// gets one of them between freeAddr and the process that is to listen there.
var nextPort atomic.Int32

func init() { nextPort.Store(rand.Int32N(15_000)) }

// freeAddr returns an address on loopback where nobody listens at the moment, each time another one.
func freeAddr(t *testing.T) string {
	t.Helper()
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 15_000+nextPort.Add(1)%15_000)
		l, err := net.Listen("tcp", addr)
		if err == nil {
			mustNil(t, l.Close())
			return addr
		}
	}
}

// children starts a group of three processes.
func children(t *testing.T, more ...string) []*child {
	t.Helper()
	dir := testenv.QuickDir(t)
	var group []*child
	listens := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	for i, id := range []string{"a", "b", "c"} {
		args := []string{filepath.Join(dir, id), "--id", id, "--addr", freeAddr(t), "--listen", listens[i], "--http", "127.0.0.1:0"}
		args = slices.Concat(quick, args, steady, more)
		if i == 0 {
			seed(t, args[len(quick)], id)
		}
		c := startChild(t, append(args, "--join", listens[0])...)
		c.id, c.args = id, args
		group = append(group, c)
	}
	testenv.WaitFor(t, "three voters", func() bool { return strings.Count(must(t, "members", "--at", group[0].http), "yes") == 3 })
	return group
}

// leading returns the index of the member that leads.
func leading(t *testing.T, group []*child) int {
	t.Helper()
	found := -1
	testenv.WaitFor(t, "a leader", func() bool {
		for i, c := range group {
			out, _, status := run(t.Context(), "members", "--at", c.http)
			if status != done {
				continue
			}
			for line := range strings.Lines(out) {
				if words := strings.Fields(line); len(words) > 3 && words[3] == "leads" && words[0] == c.id {
					found = i
					return true
				}
			}
		}
		return false
	})
	return found
}

// Whatever the group has acknowledged is there after kill -9 of a member, the leader or another, and the clients of the
// others go on. Clients write alone and in pipelines. At the end, each member's backup has all of it too.
func TestProcesses_KillMinus9(t *testing.T) {
	t.Parallel()
	bucket := filepath.Join(testenv.QuickDir(t), "bucket")
	group := children(t, "--backup", bucket)
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	ctx := t.Context()
	var stop atomic.Bool
	var clients sync.WaitGroup
	acknowledged := make([]atomic.Int64, 4)
	for i := range acknowledged {
		// One connection a client, to one member, with whose end it moves on to the next.
		clients.Go(func() {
			at := i % 3
			client := redis.NewClient(&redis.Options{Addr: group[at].addr, MaxRetries: -1, ReadTimeout: 30 * time.Second, PoolSize: 1})
			defer func() { _ = client.Close() }()
			for n := int64(0); !stop.Load(); {
				count := int64(1 + 9*(i%2))
				_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
					for j := range count {
						p.Set(ctx, fmt.Sprintf("%d:%d", i, n+j), n+j, 0)
					}
					return nil
				})
				if err == nil {
					n += count
					acknowledged[i].Store(n)
					continue
				}
				_ = client.Close()
				at = (at + 1) % 3
				client = redis.NewClient(&redis.Options{Addr: group[at].addr, MaxRetries: -1, ReadTimeout: 30 * time.Second, PoolSize: 1})
			}
		})
	}
	progress := func() {
		t.Helper()
		var from [4]int64
		for i := range acknowledged {
			from[i] = acknowledged[i].Load()
		}
		testenv.WaitFor(t, "every client gets on", func() bool {
			for i := range acknowledged {
				if acknowledged[i].Load() < from[i]+100 {
					return false
				}
			}
			return true
		})
	}
	for round := range rounds {
		progress()
		victim := leading(t, group)
		if round%3 == 2 {
			victim = (victim + 1) % 3
		}
		group[victim].kill()
		progress()
		c := startChild(t, group[victim].args...)
		// The clients know the address, which stays.
		group[victim].kill, group[victim].cmd, group[victim].http = c.kill, c.cmd, c.http
	}
	progress()
	stop.Store(true)
	clients.Wait()
	for _, c := range group {
		client := dial(t, c.addr)
		for i := range acknowledged {
			n := acknowledged[i].Load()
			for from := int64(0); from < n; from += 500 {
				var keys []string
				for j := from; j < min(n, from+500); j++ {
					keys = append(keys, fmt.Sprintf("%d:%d", i, j))
				}
				values, err := client.MGet(ctx, keys...).Result()
				mustNil(t, err)
				for j, v := range values {
					if v != fmt.Sprint(from+int64(j)) {
						t.Fatalf("member %s: key %s of %d acknowledged has value %v", c.id, keys[j], n, v)
					}
				}
			}
		}
	}
	for i := range acknowledged {
		t.Logf("client %d had %d writes acknowledged", i, acknowledged[i].Load())
	}

	// SIGTERM ends each in an orderly way.
	for _, c := range group {
		mustNil(t, c.cmd.Process.Signal(syscall.SIGTERM))
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("member %s after SIGTERM: %v", c.id, err)
		}
	}
	checkBackups(t, bucket, group, acknowledged)
}

// checkBackups checks that each member has a backup with all writes that were acknowledged.
func checkBackups(t *testing.T, bucket string, group []*child, acknowledged []atomic.Int64) {
	t.Helper()
	below, err := storesBelow(t.Context(), s3.Place{Dir: bucket})
	mustNil(t, err)
	whole := make(map[string]bool) // by the member's id
	for _, dir := range below {
		b, err := remote.NewDir(nil, dir.Dir)
		mustNil(t, err)
		store := filepath.Join(testenv.QuickDir(t), "store")
		if _, err := remote.Restore(t.Context(), b, store, remote.At{}, nil); err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		db, err := shale.Open(store, nil)
		mustNil(t, err)
		missing := 0
		for i := range acknowledged {
			for n := range acknowledged[i].Load() {
				if has, err := db.Has(fmt.Appendf(nil, "k%d:%d", i, n)); err != nil {
					t.Fatal(err)
				} else if !has {
					missing++
				}
			}
		}
		mustNil(t, db.Close())
		t.Logf("backup %s lacks %d writes", dir, missing)
		id, _, _ := strings.Cut(filepath.Base(filepath.Dir(dir.Dir)), "-")
		whole[id] = whole[id] || missing == 0
	}
	for _, c := range group {
		if !whole[c.id] {
			t.Errorf("no backup of member %s has all writes", c.id)
		}
	}
}

// redis-cli shows what docs/SHALED.md shows.
func TestDocs_Session(t *testing.T) {
	t.Parallel()
	cli := resptest.Tool(t, "redis-cli")
	page, err := os.ReadFile("../../../../docs/SHALED.md")
	mustNil(t, err)
	resptest.ShowsSession(t, cli, three(t)[1].addr, string(page), "127.0.0.1:6381> ")
	resptest.ShowsSession(t, cli, alone(t, t.TempDir()).addr, string(page), "127.0.0.1:6380> ")
}

// No document has a session that TestDocs_Session does not run.
func TestDocs_EachSessionIsRun(t *testing.T) {
	prompt := regexp.MustCompile(`(?m)^.*[\w.]+:\d+> .*$`)
	seen := 0
	mustNil(t, filepath.WalkDir("../../../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, line := range prompt.FindAllString(string(text), -1) {
			seen++
			if path != "../../../../docs/SHALED.md" || !strings.HasPrefix(line, "    127.0.0.1:6380> ") && !strings.HasPrefix(line, "    127.0.0.1:6381> ") {
				t.Errorf("%s: no test runs %s", path, line)
			}
		}
		return err
	}))
	if seen < 15 {
		t.Errorf("%d commands of sessions in all documents", seen)
	}
}

// redis-benchmark runs against a member that does not lead, alone and in pipelines, and gets no error.
func TestTools_RedisBenchmark(t *testing.T) {
	t.Parallel()
	tool := resptest.Tool(t, "redis-benchmark")
	_, others := leader(t, three(t))
	resptest.Benchmark(t, tool, others[0].addr, "500", "-t ping,set,get,mset", "mget key:__rand_int__ key:__rand_int__", "del key:__rand_int__")
}
