//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// Transactions over a few keys each, called slots, in histories of their own, and a bank.

const (
	slotCount = 4
	slotLife  = 60 // operations on the same slots, less if outcomes are unknown: these make histories hard to check
	slotSets  = 3  // at a time
)

// A slotState has the values of all slots; "" stands for an absent key.
type slotState [slotCount]string

// A slotInput is an operation on slots. All but "set" and "unset" are transactions, or a read of all slots.
type slotInput struct {
	kind  string
	slots [2]int
	value string
}

// A slotOutput is its answer.
type slotOutput struct {
	read    string // see slotInput.reads
	unknown bool   // it may happen at any time, or never
}

// reads returns the text of what an operation reads of a state.
func (i slotInput) reads(s slotState) string {
	switch i.kind {
	case "set", "unset":
		return ""
	case "swap":
		return s[i.slots[0]] + "," + s[i.slots[1]]
	}
	return strings.Join(s[:], ",")
}

// after returns the state that an operation makes of s.
func (i slotInput) after(s slotState) slotState {
	switch a, b := i.slots[0], i.slots[1]; i.kind {
	case "set":
		s[a] = i.value
	case "unset":
		s[a] = ""
	case "swap":
		s[a], s[b] = s[b], s[a]
	case "renew": // which keeps the end
		if s[a] != "" {
			s[a] = i.value
		}
	case "fill": // the first slot that is free, and else the first becomes free
		for n := range s {
			if s[n] == "" {
				s[n] = i.value
				return s
			}
		}
		s[0] = ""
	}
	return s
}

// slots is the model of the slots of a prefix.
var slots = porcupine.Model{
	Init: func() any { return slotState{} },
	Step: func(state, in, out any) (bool, any) {
		now, i, o := state.(slotState), in.(slotInput), out.(slotOutput)
		return o.unknown || o.read == i.reads(now), i.after(now)
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(slotInput), out.(slotOutput)
		if o.unknown {
			return fmt.Sprintf("%s %v %q: unknown", i.kind, i.slots, i.value)
		}
		return fmt.Sprintf("%s %v %q = %q", i.kind, i.slots, i.value, o.read)
	},
}

// expiringSlotsModel is that of slots whose values may expire. A transaction puts a value that lasts, but for one that keeps ends.
var expiringSlotsModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{slotState{}} },
	Step: func(state, in, out any) (all []any) {
		i, o := in.(slotInput), out.(slotOutput)
		plain := i
		plain.kind = strings.TrimSuffix(i.kind, ttlSuffix)
		states := []slotState{{}}
		for n, value := range state.(slotState) {
			var more []slotState
			for _, s := range states {
				for _, s[n] = range orOver(value) {
					more = append(more, s)
				}
			}
			states = more
		}
		for _, now := range states {
			seen := now
			for n := range seen {
				seen[n] = strings.TrimSuffix(seen[n], mark)
			}
			if !o.unknown && o.read != plain.reads(seen) {
				continue
			}
			after := plain.after(seen)
			for n := range after {
				switch {
				case after[n] == seen[n]: // no value is written twice
					after[n] = now[n]
				case plain != i, i.kind == "renew" && strings.HasSuffix(now[n], mark):
					after[n] += mark
				}
			}
			all = append(all, after)
		}
		return all
	},
	DescribeOperation: slots.DescribeOperation,
}).ToModel()

const (
	slotPrefix    = "slot/"
	expiringSlots = ".0/" // ends the prefix of slots whose values may expire
	bankPrefix    = "bank/"
)

func slotKey(prefix string, n int) []byte { return fmt.Append([]byte(prefix), n) }

// slot does an operation on slots.
func (c *clients) slot(r *rand.Rand, client, n int) {
	prefix := fmt.Sprintf("%s%s/%d.%d/", slotPrefix, c.epoch, c.slots.Add(1)/(slotSets*slotLife), r.IntN(slotSets))
	in := slotInput{kind: []string{"set", "unset", "swap", "swap", "fill", "fill", "see", "walk", "renew"}[r.IntN(9)], value: fmt.Sprintf("c%d.%d", client, n)}
	in.slots[0] = r.IntN(slotCount)
	in.slots[1] = (in.slots[0] + 1 + r.IntN(slotCount-1)) % slotCount
	op := Op{Kind: in.kind, Key: prefix, Value: in.value, Slots: in.slots}
	switch in.kind {
	case "set":
		op.Kind, op.Key = "put", string(slotKey(prefix, in.slots[0]))
		if strings.HasSuffix(prefix, expiringSlots) {
			in.kind, op.Kind, op.TTL = in.kind+ttlSuffix, op.Kind+ttlSuffix, drawTTL(r)
		}
	case "unset":
		op.Kind, op.Key = "delete", string(slotKey(prefix, in.slots[0]))
	}
	began := c.h.begin()
	write := in.kind != "see" && in.kind != "walk"
	a := c.do(r, op, write)
	switch {
	case a.Outcome == refused || a.Outcome == unknown && !write:
		c.g.figures.refused.Add(1)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		return
	case a.Outcome == unknown:
		c.g.figures.unknown.Add(1)
		c.slots.Add(slotLife / 4)
	case strings.HasPrefix(op.Kind, "put") || op.Kind == "delete":
		c.g.figures.writes.Add(1)
	default:
		c.g.figures.transactions.Add(1)
	}
	c.h.addTo(prefix, client, in, slotOutput{a.Value, a.Outcome == unknown}, a.Outcome == unknown, began)
}

// updateSlots does a transaction on slots, and returns what it has read.
func updateSlots(ctx context.Context, n *cluster.Node, op Op) (read string, err error) {
	in := slotInput{op.Kind, op.Slots, op.Value}
	look := func(r shale.Reader) (now slotState, err error) {
		if in.kind == "swap" {
			for _, i := range in.slots {
				if now[i], err = get(r, slotKey(op.Key, i)); err != nil {
					return now, err
				}
			}
			return now, nil
		}
		for e, err := range r.Scan(shale.Prefix(op.Key)) {
			if err != nil {
				return now, err
			}
			now[e.Key[len(e.Key)-1]-'0'] = string(e.Value)
		}
		return now, nil
	}
	if in.kind == "walk" {
		err = n.Read(ctx, func(r shale.Reader) error {
			now, err := look(r)
			read = in.reads(now)
			return err
		})
		return read, err
	}
	err = n.Update(ctx, func(tx *cluster.Txn) error {
		now, err := look(tx)
		read = in.reads(now)
		for i, v := range in.after(now) {
			switch {
			case err != nil || v == now[i]:
			case v == "":
				err = tx.Delete(slotKey(op.Key, i))
			default:
				err = putSlot(tx, in.kind == "renew", slotKey(op.Key, i), []byte(v))
			}
		}
		return err
	})
	return read, err
}

// putSlot puts a value, which may keep the end of the one before.
func putSlot(tx *cluster.Txn, keeps bool, key, value []byte) error {
	if !keeps {
		return tx.Put(key, value)
	}
	until, err := tx.ExpiresAt(key)
	if err != nil || until.IsZero() {
		return errors.Join(err, tx.Put(key, value))
	}
	return tx.PutUntil(key, value, until)
}

const accounts = 10

// transfer moves money from one account of the epoch to another, or adds all up: the sum is always 0.
func (c *clients) transfer(r *rand.Rand) {
	op := Op{Kind: "transfer", Key: bankPrefix + c.epoch + "/", Value: fmt.Sprint(r.IntN(100))}
	op.Slots = [2]int{r.IntN(accounts), r.IntN(accounts)}
	if r.IntN(3) == 0 {
		op.Kind, op.Value = "sum", []string{"read", "update", "local"}[r.IntN(3)]
	}
	switch a := c.do(r, op, op.Kind == "transfer"); {
	case a.Outcome == unknown:
		c.g.figures.unknown.Add(1)
	case a.Outcome == refused:
		c.g.figures.refused.Add(1)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	case op.Kind == "transfer":
		c.g.figures.transactions.Add(1)
	default:
		c.g.figures.gets.Add(1)
	}
}

// transfer does one. An account that is not there has 0.
func transfer(ctx context.Context, n *cluster.Node, op Op) error {
	amount, err := strconv.Atoi(op.Value)
	if err != nil {
		return err
	}
	return n.Update(ctx, func(tx *cluster.Txn) error {
		for i, change := range []int{-amount, amount} {
			key := slotKey(op.Key, op.Slots[i])
			v, err := get(tx, key)
			if err != nil {
				return err
			}
			have, _ := strconv.Atoi(v) // "" is 0
			if err := tx.Put(key, fmt.Append(nil, have+change)); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkSum adds up all accounts in one of three ways.
func checkSum(ctx context.Context, n *cluster.Node, op Op) error {
	check := func(r shale.Reader) error {
		sum := 0
		for e, err := range r.Scan(shale.Prefix(op.Key)) {
			if err != nil {
				return err
			}
			have, err := strconv.Atoi(string(e.Value))
			if err != nil {
				return err
			}
			sum += have
		}
		if sum != 0 {
			fmt.Fprintf(os.Stderr, "%sthe accounts of %s have %d in all (%s)\n", broken, op.Key, sum, op.Value)
			return errors.New("the bank has lost money")
		}
		return nil
	}
	switch op.Value {
	case "read":
		return n.Read(ctx, check)
	case "update":
		return n.Update(ctx, func(tx *cluster.Txn) error { return check(tx) })
	}
	return check(n.Local())
}

// finishTransactions reads all slots in the state that all members have at the end, and adds up the bank.
func (c *clients) finishTransactions(state map[string]string) {
	sum := 0
	for k, v := range state {
		if strings.HasPrefix(k, bankPrefix) {
			n, err := strconv.Atoi(v)
			if sum += n; err != nil {
				c.g.fail("%q has %q", k, v)
			}
		}
	}
	if sum != 0 {
		c.g.fail("the bank has %d in the end", sum)
	}
	for _, prefix := range sortedKeys(c.h.ops) {
		if !strings.HasPrefix(prefix, slotPrefix) {
			continue
		}
		var now slotState
		for i := range now {
			now[i] = state[string(slotKey(prefix, i))]
		}
		in := slotInput{kind: "see"}
		c.h.addTo(prefix, clientCount, in, slotOutput{read: in.reads(now)}, false, c.h.begin())
	}
}
