package program

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// A change is what a client asks for: "INCR", "GET", or "SET", which is let through if the watched value is still old.
type change struct{ key, name, old, value string }

// An effect says what the client knows of an operation. An operation of unknown effect may have happened, may happen later, or never.
type effect struct {
	value   string
	unknown bool
}

// changing is the model of one key, whose value is a number or that of the last SET.
var changing = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(string), input.(change), output.(effect)
		switch in.name {
		case "INCR":
			n, _ := strconv.Atoi(now)
			next := strconv.Itoa(n + 1)
			return out.unknown || out.value == next, next
		case "SET":
			if now != in.old {
				return out.unknown, now
			}
			return true, in.value
		}
		return out.value == now, now
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A session is what the clients of a test share.
type session struct {
	t       *testing.T
	group   []*child
	clock   atomic.Int64
	begun   atomic.Int64 // changes, and a few more for each whose effect is unknown: these make a history hard to check
	mu      sync.Mutex
	history map[string][]porcupine.Operation
	counts  map[string]int
}

// count counts what the test has seen.
func (s *session) count(what string) {
	s.mu.Lock()
	s.counts[what]++
	s.mu.Unlock()
}

// keyLife is how many changes go to the same few keys.
const keyLife = 200

// know returns whether an error of a write leaves open if it has happened, and whether it says that it has not: the call was never
// sent, or was refused.
func (s *session) know(err error) (unknown, refused bool) {
	var op *net.OpError
	switch {
	case err == nil:
		return false, false
	case errors.As(err, &op) && op.Op == "dial", strings.HasPrefix(err.Error(), "CLUSTERDOWN "), strings.HasPrefix(err.Error(), "READONLY "):
		s.count("refused")
		return false, true
	case strings.HasPrefix(err.Error(), "ERR ") && !strings.Contains(err.Error(), "this member has stopped"):
		s.t.Errorf("an error that no fault explains: %v", err)
	}
	s.count("unknown")
	s.begun.Add(keyLife / 10)
	return true, false
}

// add notes what a client has done.
func (s *session) add(client int, in change, out effect, call int64) {
	end := s.clock.Add(1)
	if out.unknown {
		end = 1 << 60
	}
	s.mu.Lock()
	s.history[in.key] = append(s.history[in.key], porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
	s.counts[in.name]++
	s.mu.Unlock()
}

// change does one of the changes on one of the keys of now.
func (s *session) change(ctx context.Context, r *rand.Rand, client int, c *redis.Client) {
	in := change{key: fmt.Sprintf("%d.%d", s.begun.Add(1)/keyLife, r.IntN(4)), name: []string{"INCR", "SET", "GET"}[r.IntN(3)]}
	if in.key = "watched." + in.key; in.name == "INCR" || in.name == "GET" && r.IntN(2) == 0 {
		in.key = strings.Replace(in.key, "watched", "counted", 1)
	}
	call := s.clock.Add(1)
	var out effect
	var err error
	switch in.name {
	case "INCR":
		out.value, err = text(c.Incr(ctx, in.key).Result())
	case "GET":
		if out.value, err = c.Get(ctx, in.key).Result(); err != nil && !errors.Is(err, redis.Nil) {
			return
		}
		err = nil
	default:
		in.value = fmt.Sprint(client, ".", call)
		sent := false
		err = c.Watch(ctx, func(tx *redis.Tx) error {
			var err error
			if in.old, err = tx.Get(ctx, in.key).Result(); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			sent = true
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, in.key, in.value, 0).Err() })
			return err
		}, in.key)
		if errors.Is(err, redis.TxFailedErr) {
			s.count("not let through")
			return
		}
		if err != nil && !sent {
			return
		}
	}
	var refused bool
	if out.unknown, refused = s.know(err); !refused {
		s.add(client, in, out, call)
	}
}

func text(n int64, err error) (string, error) { return strconv.FormatInt(n, 10), err }

// readLag is how long reads may see a value after its end: see cluster.
const readLag = 100 * time.Millisecond

// expire writes a value with an end, counts it up as long as it is there, which keeps the end, and looks at it on all members.
func (s *session) expire(ctx context.Context, r *rand.Rand, key string, all []*redis.Client) {
	ttl := time.Duration(50+r.IntN(1500)) * time.Millisecond
	began := time.Now()
	if err := all[r.IntN(len(all))].Set(ctx, key, 1, ttl).Err(); err != nil {
		return
	}
	soonest, latest := began.Add(ttl), time.Now().Add(ttl)
	for ctx.Err() == nil {
		call := time.Now()
		var n int64
		var err error
		if r.IntN(2) == 0 {
			n, err = all[r.IntN(len(all))].Incr(ctx, key).Result()
			n--
			if err == nil && n > 0 && call.After(latest.Add(time.Millisecond)) {
				s.t.Errorf("%s was counted to %d %v after its end", key, n+1, call.Sub(latest))
			}
		} else if n, err = all[r.IntN(len(all))].Get(ctx, key).Int64(); err == nil && call.After(latest.Add(readLag+time.Millisecond)) {
			s.t.Errorf("%s was read %v after its end", key, call.Sub(latest))
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return // it may have begun again, and would not end
		}
		if s.count("looks at values that end"); n <= 0 {
			if gone := time.Now(); gone.Before(soonest.Add(-time.Millisecond)) {
				s.t.Errorf("%s was gone %v before its end", key, soonest.Sub(gone))
			}
			return
		}
	}
}

// fail kills a member and starts it again, or lets it hang for a while.
func (s *session) fail(r *rand.Rand) {
	c := s.group[r.IntN(3)]
	if r.IntN(3) > 0 {
		c = s.group[leading(s.t, s.group)]
	}
	pause := time.Duration(200+r.IntN(1500)) * time.Millisecond
	if r.IntN(2) == 0 {
		s.count("stops")
		mustNil(s.t, c.cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(pause)
		mustNil(s.t, c.cmd.Process.Signal(syscall.SIGCONT))
		return
	}
	s.count("kills")
	c.kill()
	time.Sleep(pause)
	again := startChild(s.t, c.args...)
	c.addr, c.http, c.cmd, c.kill = again.addr, again.http, again.cmd, again.kill
}

// begin runs a client until ctx is done.
func (s *session) begin(ctx context.Context, running *sync.WaitGroup, seed uint64, id int) {
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	var all []*redis.Client
	for _, c := range s.group {
		all = append(all, dial(s.t, c.addr, func(o *redis.Options) { o.ReadTimeout = 2 * time.Second }))
	}
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if id%3 == 0 {
				s.expire(ctx, r, fmt.Sprintf("ends.%d.%d", id, n), all)
				continue
			}
			s.change(ctx, r, id, all[r.IntN(len(all))])
		}
	})
}

// Members are killed, stopped and continued, while clients of all of them count, change what they watch, and read. Each counted
// number is given out once, no two changes of one value are let through, and a value is there until its end and not after it. SHALE_LONG
// says for how long.
func TestGroup_Faults(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	s := &session{t: t, group: children(t), history: make(map[string][]porcupine.Operation), counts: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for id := range 9 {
		s.begin(ctx, &running, seed, id)
	}
	r := rand.New(rand.NewPCG(seed, 99))
	for end := time.Now().Add(max(8*time.Second, testenv.Long(t))); time.Now().Before(end) && !t.Failed(); {
		time.Sleep(time.Second)
		s.fail(r)
	}
	leading(t, s.group)
	cancel()
	running.Wait()
	for _, c := range s.group { // nothing that was acknowledged is missing on any of them
		client := dial(t, c.addr)
		for key := range s.history {
			call := s.clock.Add(1)
			value, err := client.Get(t.Context(), key).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			s.add(99, change{key: key, name: "GET"}, effect{value: value}, call)
		}
	}
	for key, ops := range s.history {
		switch porcupine.CheckOperationsTimeout(changing, ops, 20*time.Second) {
		case porcupine.Illegal:
			t.Errorf("no order of the changes of %s explains the answers", key)
		case porcupine.Unknown:
			s.count("undecided keys")
		}
	}
	t.Logf("%d keys, %v; seed %d", len(s.history), s.counts, seed)
}
