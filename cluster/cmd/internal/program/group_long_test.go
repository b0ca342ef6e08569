package program

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

// Members that add to one filter at the same time lose nothing of each other: that they have changed the same pieces is
// found by the value under the name.
func TestGroup_OneFilter(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	mustNil(t, dial(t, group[0].addr).BFReserve(ctx, "f", 0.0001, 1000).Err())
	const items = 60
	added := make([]int64, len(group))
	var clients sync.WaitGroup
	for i, r := range group {
		client := dial(t, r.addr)
		clients.Go(func() {
			for n := range items {
				isNew, err := client.BFAdd(ctx, "f", fmt.Sprint(i, n)).Result()
				if err != nil {
					t.Errorf("BF.ADD: %v", err)
				}
				if isNew {
					added[i]++
				}
			}
		})
	}
	clients.Wait()
	client, all := dial(t, group[1].addr), int64(0)
	for i := range group {
		all += added[i]
		for n := range items {
			if has, err := client.BFExists(ctx, "f", fmt.Sprint(i, n)).Result(); err != nil || !has {
				t.Errorf("item %d of member %d: %v, %v", n, i, has, err)
			}
		}
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n != all {
		t.Errorf("BF.CARD is %d, %v, and %d items were new", n, err, all)
	}
}

// A command in a group adds as many items as fit into a write, which are more than a transaction may have looked at. With
// more it says what to do, and adds none.
func TestGroup_LargeMAdd(t *testing.T) {
	t.Parallel()
	group := three(t, "--heartbeat", "3s") // a busy machine takes longer for a command than a leader may be silent
	ctx := t.Context()
	client := dial(t, group[0].addr)
	mustNil(t, client.Do(ctx, "BF.RESERVE", "f", 0.01, 10_000_000, "COMPATIBLE").Err()) // each item changes seven pieces
	mustNil(t, client.BFReserve(ctx, "g", 0.01, 10_000_000).Err())
	items := make([]any, 200_000)
	for i := range items {
		items[i] = i
	}
	if err := client.BFMAdd(ctx, "f", items...).Err(); err == nil || !strings.HasSuffix(err.Error(), "send fewer keys or items with one command") {
		t.Errorf("BF.MADD of %d items: %v", len(items), err)
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n != 0 {
		t.Errorf("BF.CARD is %d, %v", n, err)
	}
	if added, err := client.BFMAdd(ctx, "g", items[:100_000]...).Result(); err != nil || len(added) != 100_000 { // each changes one
		t.Errorf("BF.MADD of %d items: %d, %v", len(items), len(added), err)
	}
	items = items[:20_000]
	if added, err := client.BFMAdd(ctx, "f", items...).Result(); err != nil || len(added) != len(items) {
		t.Errorf("BF.MADD of %d items: %d, %v", len(items), len(added), err)
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n < 19_900 {
		t.Errorf("BF.CARD is %d, %v", n, err)
	}
}

// A group answers random programs on strings, long ones among them, as a server alone does, whichever member is asked.
func TestGroup_StringsAsAlone(t *testing.T) {
	t.Parallel()
	group := three(t)
	alone := start(t, testenv.QuickDir(t), "--addr", "127.0.0.1:0", "--http", "none")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 30 {
		program := resptest.StringProgram(r, 40)
		want, got := resptest.Pipeline(t, alone.addr, program), []string(nil)
		for i := 0; i < len(program); i += 20 { // the second half asks another member
			got = append(got, resptest.Pipeline(t, group[(round+i)%3].addr, program[i:min(i+20, len(program))])...)
		}
		for i, command := range program {
			if got[i] != want[i] {
				t.Fatalf("seed %d, round %d: %.100q: %.100q, alone %.100q after\n%.100q", seed, round, command, got[i], want[i], program[:i])
			}
		}
	}
}
