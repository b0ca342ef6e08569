package program

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// checkRoles looks at what each member says of itself.
func checkRoles(t *testing.T, lead *running, others []*running, forward bool) {
	t.Helper()
	host, port, err := net.SplitHostPort(lead.addr)
	mustNil(t, err)
	for _, r := range append([]*running{lead}, others...) {
		client, ctx := dial(t, r.addr), t.Context()
		want, role, hello := []string{"role:slave", "master_host:" + host, "master_port:" + port, "master_link_status:up"}, "slave", "replica"
		if r == lead {
			want, role, hello = []string{"role:master", "connected_slaves:2", "slave0:ip=127.0.0.1,port=", "slave1:ip=127.0.0.1,port="}, "master", "master"
		}
		info := client.Info(ctx, "replication", "cluster", "server").Val()
		for _, line := range append(want, "cluster_enabled:1", "redis_mode:cluster") {
			if !strings.Contains(info, line) {
				t.Errorf("INFO of %s has no %s: %s", r.config.ID, line, info)
			}
		}
		if got, err := client.Do(ctx, "ROLE").Slice(); err != nil || got[0] != role {
			t.Errorf("ROLE of %s = %v, %v", r.config.ID, got, err)
		}
		if got, err := client.Do(ctx, "HELLO", 3).Result(); err != nil || got.(map[any]any)["role"] != hello {
			t.Errorf("HELLO of %s = %v, %v", r.config.ID, got, err)
		}
		if id := client.Do(ctx, "CLUSTER", "MYID").Val(); id != r.config.ID {
			t.Errorf("CLUSTER MYID of %s = %v", r.config.ID, id)
		}
		nodes := client.ClusterNodes(ctx).Val()
		if n := strings.Count(nodes, "\n"); n != 3 || !strings.HasPrefix(nodes, lead.config.ID+" "+lead.addr+"@") {
			t.Errorf("CLUSTER NODES of %s = %s", r.config.ID, nodes)
		}
		err := client.Set(ctx, "k", 1, 0).Err()
		if forward || r == lead {
			mustNil(t, err)
		} else if want := "MOVED 0 " + lead.addr; err == nil || err.Error() != want {
			t.Errorf("a write to %s: %v, want %s", r.config.ID, err, want)
		}
	}
}

// A client of a Redis Cluster that knows one member finds the others, and goes on when the leader is gone, although that is the
// one that it knows.
func TestCluster_Client(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"--forward=false"}} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			group := three(t, more...)
			lead, others := leader(t, group)
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{lead.addr}, MaxRedirects: 20})
			t.Cleanup(func() { client.Close() })
			ctx := t.Context()
			mustNil(t, client.Set(ctx, "before", 1, 0).Err())
			slots := fmt.Sprint(client.Do(ctx, "CLUSTER", "SLOTS").Val())
			if begin := "[[0 16383 [" + strings.Replace(lead.addr, ":", " ", 1) + " " + lead.config.ID + "] ["; !strings.HasPrefix(slots, begin) || strings.Count(slots, "127.0.0.1") != 3 {
				t.Fatalf("CLUSTER SLOTS = %s, and not %s..., while %s leads", slots, begin, lead.addr)
			}
			for _, r := range others {
				shards, err := dial(t, r.addr).ClusterShards(ctx).Result()
				if err != nil || len(shards) != 1 || len(shards[0].Nodes) != 3 {
					t.Fatalf("CLUSTER SHARDS = %+v, %v", shards, err)
				}
				first := shards[0].Nodes[0]
				if addr := net.JoinHostPort(first.IP, fmt.Sprint(first.Port)); first.Role != "master" || first.ID != lead.config.ID || addr != lead.addr {
					t.Errorf("the first node of CLUSTER SHARDS is %+v, while %s leads", first, lead.config.ID)
				}
			}
			checkRoles(t, lead, others, len(more) == 0)
			lead.stop()
			testenv.WaitFor(t, "the client finds the next leader", func() bool {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				client.ReloadState(ctx) // it would do so itself ten seconds after the last time
				return client.Set(ctx, "after", 2, 0).Err() == nil
			})
			for key, want := range map[string]string{"before": "1", "after": "2"} {
				if got, err := client.Get(ctx, key).Result(); err != nil || got != want {
					t.Errorf("GET %s = %q, %v", key, got, err)
				}
			}
		})
	}
}
