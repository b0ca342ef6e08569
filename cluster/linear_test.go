package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// This file has clients use a group while its leader moves, its members come and go and the state
// machines lag, and checks that all answers fit one order.

// An opInput is an operation on one key.
type opInput struct {
	key   string
	kind  string // "put", "delete", "delete present", "put if absent" or "get"
	value string
}

// An opOutput is its answer.
type opOutput struct {
	value    string // of a get; "" when the key is absent
	inserted bool
	present  bool // of a "delete present": the key was there
	unknown  bool // the operation has happened, or will, or never does
}

// register is the model of one key. "" is absent.
var register = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, op := range ops {
			k := op.Input.(opInput).key
			parts[k] = append(parts[k], op)
		}
		var all [][]porcupine.Operation
		for _, p := range parts {
			all = append(all, p)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(string), input.(opInput), output.(opOutput)
		switch in.kind {
		case "put":
			return true, in.value
		case "delete":
			return true, ""
		case "delete present":
			return out.unknown || out.present == (now != ""), ""
		case "put if absent":
			if now != "" {
				return out.unknown || !out.inserted, now
			}
			return out.unknown || out.inserted, in.value
		}
		return out.value == now, now
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A linearHistory is what clients have done.
type linearHistory struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation

	refused, unknown, failedReads atomic.Int64
}

// do runs one operation on a member and notes it, unless it certainly had no effect and no answer.
func (h *linearHistory) do(client int, m *Node, in opInput) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	call := h.clock.Add(1)
	var out opOutput
	var err error
	switch in.kind {
	case "put":
		err = m.Put(ctx, []byte(in.key), []byte(in.value))
	case "delete":
		err = m.Delete(ctx, []byte(in.key))
	case "delete present":
		var present []bool
		present, err = m.DeletePresent(ctx, []byte(in.key))
		out.present = err == nil && present[0]
	case "put if absent":
		out.inserted, err = m.PutIfAbsent(ctx, []byte(in.key), []byte(in.value))
	default:
		err = m.Read(ctx, func(r shale.Reader) error {
			v, err := r.Get([]byte(in.key))
			if errors.Is(err, shale.ErrNotFound) {
				return nil
			}
			out.value = string(v)
			return err
		})
		if err != nil {
			h.failedReads.Add(1)
			return
		}
	}
	end := h.clock.Add(1)
	if errors.Is(err, ErrUnknown) {
		h.unknown.Add(1)
		out.unknown = true
		end = 1 << 60 // it may come at any time
	} else if err != nil {
		h.refused.Add(1)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
}

// check looks for an order of all operations.
func (h *linearHistory) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(register, h.ops, time.Minute) {
	case porcupine.Illegal:
		t.Error("no order of the operations explains the answers")
	case porcupine.Unknown:
		t.Log("no order of the operations was found in a minute, and none ruled out")
	}
}

// slowFSM delays what a state machine does, now and then and for some time.
type slowFSM struct {
	raft.BatchingFSM
	r  *rand.Rand
	mu sync.Mutex
}

func (s *slowFSM) delay() {
	s.mu.Lock()
	n := s.r.IntN(40)
	s.mu.Unlock()
	if n < 8 {
		time.Sleep(time.Duration(n*n) * time.Millisecond / 2)
	}
}

func (s *slowFSM) ApplyBatch(logs []*raft.Log) []any {
	s.delay()
	return s.BatchingFSM.ApplyBatch(logs)
}

func (s *slowFSM) Apply(l *raft.Log) any {
	s.delay()
	return s.BatchingFSM.Apply(l)
}

// A linearTest is what goes on next to the clients.
type linearTest struct {
	members   int
	joining   int           // members that come and go
	transfers time.Duration // between transfers of the leadership
	kills     time.Duration // between closings of the leader
	length    time.Duration
}

func (lt linearTest) run(t *testing.T) {
	seed := testenv.Seed(t)
	if testing.Short() {
		lt.length /= 2
	}
	if long := testenv.Long(t); long > 0 {
		lt.length = long
	}
	var nodes sync.RWMutex // held for writing while a member is closed and opened again
	var drawn atomic.Uint64
	g := newGroup(t, lt.members, func(o *Options) {
		o.Forward = drawn.Load()%2 == 0
		o.wrapFSM = func(f raft.BatchingFSM) raft.BatchingFSM {
			return &slowFSM{BatchingFSM: f, r: rand.New(rand.NewPCG(seed, drawn.Add(1)))}
		}
	})
	const clients, keys = 8, 40
	h := new(linearHistory)
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var wg sync.WaitGroup
	for c := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(c)+100))
		wg.Go(func() {
			for i := 0; !stopped(); i++ {
				in := opInput{key: fmt.Sprintf("k%d.%d", r.IntN(keys), i/200), value: fmt.Sprintf("c%d.%d", c, i)}
				in.kind = []string{"put", "put", "delete", "delete present", "put if absent", "get", "get", "get", "get"}[r.IntN(9)]
				nodes.RLock()
				m := g.members[r.IntN(lt.members)].Node
				nodes.RUnlock()
				if in.kind != "get" && !m.opts.Forward {
					nodes.RLock()
					for _, l := range g.members[:lt.members] {
						if l.IsLeader() {
							m = l.Node
						}
					}
					nodes.RUnlock()
				}
				h.do(c, m, in)
			}
		})
	}
	var transfers, kills, joins atomic.Int64
	every := func(d time.Duration, fn func(r *rand.Rand)) {
		if d == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, uint64(d)))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(d):
					fn(r)
				}
			}
		})
	}
	leader := func() *testMember {
		nodes.RLock()
		defer nodes.RUnlock()
		for _, m := range g.members[:lt.members] {
			if m.IsLeader() {
				return m
			}
		}
		return nil
	}
	every(lt.transfers, func(*rand.Rand) {
		if l := leader(); l != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if l.TransferLeadership(ctx, "") == nil {
				transfers.Add(1)
			}
		}
	})
	every(lt.kills, func(*rand.Rand) {
		l := leader()
		if l == nil {
			return
		}
		nodes.Lock()
		defer nodes.Unlock()
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		g.open(l)
		kills.Add(1)
	})
	if lt.joining > 0 {
		every(50*time.Millisecond, func(r *rand.Rand) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			o := Options{ID: fmt.Sprintf("j%d", joins.Add(1)), FS: vfs.NewMem(), Raft: fastRaft}
			o.Learner = r.IntN(2) == 0
			for _, m := range g.members[:lt.members] {
				o.Join = append(o.Join, m.opts.Listen)
			}
			n, err := Open("d", &o)
			if err != nil {
				t.Errorf("Open of one that joins: %v", err)
				return
			}
			in := false
			for ctx.Err() == nil && !in {
				time.Sleep(5 * time.Millisecond)
				members, err := n.Members()
				in = err == nil && slices.ContainsFunc(members, func(m Member) bool { return m.ID == o.ID && m.Voter != o.Learner })
			}
			for i := 0; in && i < 50 && !stopped(); i++ {
				h.do(clients, n, opInput{key: fmt.Sprintf("k%d.%d", r.IntN(keys), r.IntN(3)), kind: "get"})
			}
			for out := false; !out && ctx.Err() == nil; {
				if l := leader(); l != nil {
					out = l.Remove(ctx, o.ID) == nil
				}
				time.Sleep(5 * time.Millisecond)
			}
			if err := n.Close(); err != nil {
				t.Errorf("Close of one that left: %v", err)
			}
		})
	}
	// Elections may take longer than all this on a busy machine.
	happened := func() bool { return (lt.transfers == 0 || transfers.Load() > 0) && (lt.kills == 0 || kills.Load() > 0) }
	time.Sleep(lt.length)
	for deadline := time.Now().Add(30 * time.Second); !happened() && !t.Failed() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	h.check(t)
	g.agree()
	t.Logf("%d operations, %d unknown, %d refused, %d failed reads; %d transfers, %d kills, %d joins",
		len(h.ops), h.unknown.Load(), h.refused.Load(), h.failedReads.Load(), transfers.Load(), kills.Load(), joins.Load())
	if len(h.ops) == 0 || !happened() {
		t.Error("nothing happened")
	}
}

func TestNode_LinearizableTransfers(t *testing.T) {
	t.Parallel()
	linearTest{members: 3, transfers: 100 * time.Millisecond, length: 2 * time.Second}.run(t)
}

func TestNode_LinearizableKills(t *testing.T) {
	t.Parallel()
	linearTest{members: 5, kills: 500 * time.Millisecond, length: 3 * time.Second}.run(t)
}

func TestNode_LinearizableJoins(t *testing.T) {
	t.Parallel()
	linearTest{members: 3, joining: 1, transfers: 300 * time.Millisecond, length: 3 * time.Second}.run(t)
}
