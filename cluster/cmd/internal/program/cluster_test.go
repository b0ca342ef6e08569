package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// checkRoles looks at what a member says of itself and of the others, in all the forms in which clients ask. A busy machine may
// leave out a member that is slow to answer.
func checkRoles(ctx context.Context, client *redis.Client, r, lead *running, forward bool) (wrong error) {
	host, port, _ := net.SplitHostPort(lead.addr) // as it was given
	check := func(what string, ok bool, got any, err error) {
		if !ok || err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s of %s, while %s leads, is %v, %v", what, r.config.ID, lead.config.ID, got, err))
		}
	}
	want, role, hello := []string{"role:slave", "master_host:" + host, "master_port:" + port, "master_link_status:up"}, "slave", "replica"
	if r == lead {
		want, role, hello = []string{"role:master", "connected_slaves:2", "slave0:ip=127.0.0.1,port=", "slave1:ip=127.0.0.1,port="}, "master", "master"
	}
	info, err := client.Info(ctx, "replication", "cluster", "server").Result()
	for _, line := range append(want, "cluster_enabled:1", "redis_mode:cluster") {
		check("INFO", strings.Contains(info, line), info, err)
	}
	got, err := client.Do(ctx, "ROLE").Slice()
	check("ROLE", err == nil && got[0] == role, got, err)
	greeting, err := client.Do(ctx, "HELLO", 3).Result()
	check("HELLO", err == nil && greeting.(map[any]any)["role"] == hello, greeting, err)
	id, err := client.Do(ctx, "CLUSTER", "MYID").Result()
	check("CLUSTER MYID", id == r.config.ID, id, err)
	nodes, err := client.ClusterNodes(ctx).Result()
	check("CLUSTER NODES", strings.Count(nodes, "\n") == 3 && strings.HasPrefix(nodes, lead.config.ID+" "+lead.addr+"@"), nodes, err)
	slots, err := client.Do(ctx, "CLUSTER", "SLOTS").Result()
	begin := "[[0 16383 [" + host + " " + port + " " + lead.config.ID + "] ["
	check("CLUSTER SLOTS", strings.HasPrefix(fmt.Sprint(slots), begin) && strings.Count(fmt.Sprint(slots), "127.0.0.1") == 3, slots, err)
	shards, err := client.ClusterShards(ctx).Result()
	check("CLUSTER SHARDS", err == nil && len(shards) == 1 && len(shards[0].Nodes) == 3 && shards[0].Nodes[0].Role == "master" &&
		shards[0].Nodes[0].ID == lead.config.ID && net.JoinHostPort(shards[0].Nodes[0].IP, fmt.Sprint(shards[0].Nodes[0].Port)) == lead.addr, shards, err)
	err = client.Set(ctx, "k", 1, 0).Err()
	if forward || r == lead {
		check("a write", err == nil, err, nil)
	} else {
		check("a write", err != nil && err.Error() == "MOVED 0 "+lead.addr, err, nil)
	}
	return wrong
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
			for _, r := range append([]*running{lead}, others...) {
				asked, wrong := dial(t, r.addr), error(nil)
				t.Cleanup(func() {
					if t.Failed() && wrong != nil {
						t.Log(wrong)
					}
				})
				testenv.WaitFor(t, "a member tells its role", func() bool {
					wrong = checkRoles(ctx, asked, r, lead, len(more) == 0)
					return wrong == nil
				})
			}
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
