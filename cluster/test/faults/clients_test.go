//go:build unix

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Clients use a group until they are stopped. They know nothing of its faults.
type clients struct {
	g     *group
	h     *history
	epoch string // in all their keys
	stop  chan struct{}
	wg    sync.WaitGroup
	begun atomic.Int64
	slots atomic.Int64 // operations on slots

	mu     sync.Mutex
	leader string // as a member has said
	once   *ledger
	txns   bool // they do nothing but transactions, and writes of what these read
}

// A ledger has keys that are written once. It outlives the history of an epoch.
type ledger struct {
	mu      sync.Mutex
	acked   map[string]string
	refused map[string]bool
}

const (
	clientCount = 16
	hotKeys     = 8    // at a time; many clients meet at each
	keyLife     = 1200 // operations, then the hot keys are others

	firstTxn, lastTxn = 51, 64 // of 100 operations
)

func startClients(g *group, seed uint64, epoch int, once *ledger, txns bool) *clients {
	c := &clients{g: g, h: newHistory(), epoch: formatEpoch(epoch), stop: make(chan struct{}), once: once, txns: txns}
	for i := range clientCount {
		r := rand.New(rand.NewPCG(seed, uint64(1000*epoch+i)))
		c.wg.Go(func() {
			for n := 0; !c.stopped(); n++ {
				c.step(r, i, n)
			}
		})
	}
	c.wg.Go(c.count)
	return c
}

func (c *clients) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// end stops the clients and waits for their last answers.
func (c *clients) end() {
	close(c.stop)
	c.wg.Wait()
}

// do sends an operation to a member, and says what is known of it then.
func (c *clients) do(r *rand.Rand, op Op, write bool) Answer {
	p := c.g.any()
	if write && r.IntN(3) > 0 {
		c.mu.Lock()
		id := c.leader
		c.mu.Unlock()
		for _, m := range c.g.all() {
			if m.id == id {
				p = m
			}
		}
	}
	op.Timeout = time.Duration(200+r.IntN(1500)) * time.Millisecond
	a := new(Answer)
	err := p.call("Do", op, a, op.Timeout+500*time.Millisecond)
	switch {
	case errors.Is(err, errDown):
		return Answer{Outcome: refused}
	case err != nil:
		return Answer{Outcome: unknown} // a may be written to still
	}
	if write && a.Outcome == done && r.IntN(10) == 0 || a.Leader != "" {
		c.mu.Lock()
		if c.leader = a.Leader; a.Leader == "" {
			c.leader = p.id
		}
		c.mu.Unlock()
	}
	return *a
}

// step does one operation, and notes its outcome.
func (c *clients) step(r *rand.Rand, client, n int) {
	f := c.g.figures
	hot := r.IntN(hotKeys)
	op := Op{Key: fmt.Sprintf("%s%s/%d/%d", []string{keyPrefix, expiringPrefix}[hot%2], c.epoch, c.begun.Add(1)/keyLife, hot), Value: fmt.Sprintf("c%d.%d", client, n)}
	d := r.IntN(100)
	if c.txns {
		d = firstTxn + d%(lastTxn-firstTxn)
	}
	switch {
	case d < 22:
		op.Kind = "put"
	case d < 30:
		op.Kind, op.Value = "delete", ""
	case d < 40:
		op.Kind = "put if absent"
	case d < 48:
		c.writeOnce(r, client, n)
		return
	case d < firstTxn:
		c.pair(r, op.Value)
		return
	case d < 59:
		c.slot(r, client, n)
		return
	case d < lastTxn:
		c.transfer(r)
		return
	default:
		op.Kind, op.Value = "get", ""
	}
	if hot%2 == 1 && strings.HasPrefix(op.Kind, "put") && r.IntN(2) == 0 {
		op.Kind, op.TTL = op.Kind+ttlSuffix, drawTTL(r)
	}
	began := c.h.begin()
	a := c.do(r, op, op.Kind != "get")
	switch {
	case a.Outcome == refused || a.Outcome == unknown && op.Kind == "get":
		f.refused.Add(1)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	case a.Outcome == unknown:
		f.unknown.Add(1)
	case op.Kind == "get":
		f.gets.Add(1)
	default:
		f.writes.Add(1)
	}
	c.h.add(client, op.Key, input{op.Kind, op.Value}, output{value: a.Value, inserted: a.Inserted, unknown: a.Outcome == unknown}, began)
}

// drawTTL draws how long a value lasts: from no time to two seconds.
func drawTTL(r *rand.Rand) time.Duration {
	return time.Duration(r.IntN(1<<r.IntN(12))) * time.Millisecond
}

// writeOnce writes a key that nobody else writes, which is looked for until the end of the test.
func (c *clients) writeOnce(r *rand.Rand, client, n int) {
	op := Op{Kind: "put", Key: fmt.Sprintf("once/%s/%d/%d", c.epoch, client, n), Value: fmt.Sprint(r.Uint64()) + strings.Repeat(".", r.IntN(400))}
	if r.IntN(2) == 0 {
		op.Kind = "put if absent"
	}
	a := c.do(r, op, true)
	c.once.mu.Lock()
	defer c.once.mu.Unlock()
	switch {
	case a.Outcome == unknown:
		c.g.figures.unknown.Add(1)
	case a.Outcome == refused:
		c.once.refused[op.Key] = true
		c.g.figures.refused.Add(1)
	case op.Kind == "put if absent" && !a.Inserted:
		c.g.fail("%q was new, but was not put, for it was there", op.Key)
	default:
		c.once.acked[op.Key] = op.Value
		c.g.figures.writes.Add(1)
	}
}

// check looks for what was written once. It returns how many acknowledged writes are lost.
func (l *ledger) check(g *group, state map[string]string) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, v := range l.acked {
		if state[k] != v {
			if lost++; lost < 10 {
				g.fail("the acknowledged write of %q is lost: %q, want %q", k, state[k], v)
			}
		}
	}
	for k := range l.refused {
		if v, ok := state[k]; ok {
			g.fail("the write of %q was refused, but it has the value %q", k, v)
		}
	}
	return lost
}

// pair writes two keys by one batch, or looks at all such keys of the epoch.
func (c *clients) pair(r *rand.Rand, value string) {
	prefix := "pair/" + c.epoch + "/"
	op := Op{Kind: "pair", Key: prefix + fmt.Sprint(r.IntN(5)), Value: value}
	if r.IntN(2) == 0 {
		op = Op{Kind: "pairs", Key: prefix}
	}
	switch a := c.do(r, op, op.Kind == "pair"); {
	case a.Outcome == unknown:
		c.g.figures.unknown.Add(1)
	case a.Outcome == refused:
		c.g.figures.refused.Add(1)
	case op.Kind == "pair":
		c.g.figures.writes.Add(1)
	default:
		c.g.figures.gets.Add(1)
	}
}

// countPrefix is the prefix of the keys that count counts.
func countPrefix(epoch string) string { return "count/" + epoch + "/" }

// count counts upwards in a key. A write whose outcome is unknown may come at any later time, so after one
// it goes on in another key: no order of the writes lowers a number. Each member watches its own state.
func (c *clients) count() {
	r := rand.New(rand.NewPCG(1, uint64(len(c.epoch))))
	key := 0
	for n := 0; !c.stopped(); n++ {
		a := c.do(r, Op{Kind: "put", Key: fmt.Sprintf("%s%05d", countPrefix(c.epoch), key), Value: fmt.Sprintf("%010d", n)}, true)
		switch a.Outcome {
		case done:
			c.g.figures.writes.Add(1)
		case unknown:
			key++
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// finish reads the keys of the history in the state that all members have at the end, and checks it.
func (c *clients) finish(state map[string]string) {
	for _, key := range sortedKeys(c.h.ops) {
		if strings.HasPrefix(key, slotPrefix) {
			continue
		}
		c.h.add(clientCount, key, input{kind: "get"}, output{value: state[key]}, c.h.begin())
	}
	c.finishTransactions(state)
	v := c.h.check()
	f := c.g.figures
	f.checkedKeys.Add(int64(v.keys))
	f.checkedSlots.Add(int64(v.slots))
	f.undecided.Add(int64(v.undecided))
	f.illegal.Add(int64(len(v.illegal)))
	for i, key := range v.illegal {
		if i < 3 {
			c.g.fail("no order of the operations on %q explains the answers, see %s:\n%s", key, c.h.draw(key), c.h.text(key))
		}
	}
	if lost := c.once.check(c.g, state); lost > 0 {
		f.lost.Add(int64(lost))
	}
}

func formatEpoch(n int) string { return fmt.Sprintf("%05d", n) }
