package program

import (
	"fmt"
	"strings"
	"sync"
	"testing"
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
	group := three(t)
	ctx := t.Context()
	client := dial(t, group[0].addr)
	mustNil(t, client.BFReserve(ctx, "f", 0.01, 10_000_000).Err())
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
	items = items[:20_000]
	if added, err := client.BFMAdd(ctx, "f", items...).Result(); err != nil || len(added) != len(items) {
		t.Errorf("BF.MADD of %d items: %d, %v", len(items), len(added), err)
	}
	if n, err := client.BFCard(ctx, "f").Result(); err != nil || n < 19_900 {
		t.Errorf("BF.CARD is %d, %v", n, err)
	}
}
