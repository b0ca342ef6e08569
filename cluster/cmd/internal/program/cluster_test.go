package program

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

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
			slots, err := client.ClusterSlots(ctx).Result()
			if err != nil || len(slots) != 1 || slots[0].Start != 0 || slots[0].End != 16383 || len(slots[0].Nodes) != 3 || slots[0].Nodes[0].Addr != lead.addr {
				t.Fatalf("CLUSTER SLOTS = %+v, %v, while %s leads", slots, err, lead.addr)
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
