package program

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// A linearCommand is a command on one key, and what was answered.
type linearCommand struct {
	key, name, value string
}

type linearAnswer struct {
	value   string // of GET; "" when the key is absent
	yes     bool   // of SETNX and DEL
	unknown bool   // the command has had its effect, or will, or never does
}

// oneKey is the model of one key. "" is absent.
var oneKey = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		parts := make(map[string][]porcupine.Operation)
		for _, op := range ops {
			key := op.Input.(linearCommand).key
			parts[key] = append(parts[key], op)
		}
		var all [][]porcupine.Operation
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(string), input.(linearCommand), output.(linearAnswer)
		switch in.name {
		case "SET":
			return true, in.value
		case "SETNX":
			if now != "" {
				return out.unknown || !out.yes, now
			}
			return out.unknown || out.yes, in.value
		case "DEL":
			return out.unknown || out.yes == (now != ""), ""
		}
		return out.value == now, now
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// What clients of all members see, while the lead goes from member to member, has one order.
func TestGroup_Linearizable(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	group := three(t)
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var unknown, refused int
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for id := range 6 {
		client := dial(t, group[id%3].addr)
		r := rand.New(rand.NewPCG(seed, uint64(id)))
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				in := linearCommand{fmt.Sprint("k", r.IntN(8)), []string{"SET", "SETNX", "DEL", "GET", "GET"}[r.IntN(5)], fmt.Sprintf("%d.%d", id, n)}
				call := clock.Add(1)
				out, err := ask(t, client, in)
				end := clock.Add(1)
				mu.Lock()
				switch {
				case err == nil:
				case strings.HasPrefix(err.Error(), "UNKNOWN "):
					unknown++
					if out.unknown, end = true, 1<<60; in.name == "GET" {
						t.Errorf("a GET is answered with %v", err)
					}
				case strings.HasPrefix(err.Error(), "CLUSTERDOWN "), strings.HasPrefix(err.Error(), "READONLY "):
					refused++
					mu.Unlock()
					continue
				default:
					t.Errorf("%+v: %v", in, err)
				}
				history = append(history, porcupine.Operation{ClientId: id, Input: in, Output: out, Call: call, Return: end})
				mu.Unlock()
			}
		})
	}
	transfers := 10
	if testing.Short() {
		transfers = 4
	}
	for range transfers {
		time.Sleep(150 * time.Millisecond)
		lead, _ := leader(t, group)
		_, notes, status := run(t.Context(), "transfer", "--at", lead.http)
		if status != done {
			t.Logf("transfer: %s", notes)
		}
	}
	close(stop)
	clients.Wait()
	t.Logf("%d commands, %d of them unknown; %d refused; seed %d", len(history), unknown, refused, seed)
	if result := porcupine.CheckOperationsTimeout(oneKey, history, time.Minute); result == porcupine.Illegal {
		t.Error("no order of the commands explains the answers")
	} else if result == porcupine.Unknown {
		t.Log("the check took too long")
	}
}

// ask does a command.
func ask(t *testing.T, client *redis.Client, in linearCommand) (out linearAnswer, err error) {
	ctx := t.Context()
	switch in.name {
	case "SET":
		err = client.Set(ctx, in.key, in.value, 0).Err()
	case "SETNX":
		out.yes, err = client.SetNX(ctx, in.key, in.value, 0).Result()
	case "DEL":
		var n int64
		n, err = client.Del(ctx, in.key).Result()
		out.yes = n == 1
	default:
		if out.value, err = client.Get(ctx, in.key).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
	}
	return out, err
}
