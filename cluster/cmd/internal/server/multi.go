package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// A multi is what a client has said between MULTI and EXEC, and before that what it watches. EXEC does all commands in one
// transaction of the store.
type multi struct {
	open    bool // between MULTI and EXEC
	spoiled bool // a command was refused, so EXEC will be
	calls   []call
	size    int64             // of both, taken from the budget
	watched map[string]uint64 // names, and what they stood for
}

// queue takes a command behind MULTI. It reports whether the command is one that waits for EXEC.
func (c *client) queue(args [][]byte) bool {
	t, refused := c.check(args)
	switch {
	case refused != "":
		c.multi.spoiled = true
		c.Error(refused)
		return true
	case t == nil:
		return true
	}
	switch t.Name {
	case "MULTI", "EXEC", "DISCARD", "WATCH", "QUIT":
		return false
	}
	if strings.Contains(t.Flags, "no_multi") {
		c.multi.spoiled = true
		c.Error("ERR Command not allowed inside a transaction")
		return true
	}
	if refused := c.keep(args); refused != "" {
		c.multi.spoiled = true
		c.Error(refused)
		return true
	}
	mine := make([][]byte, len(args)-1)
	for i := range mine {
		mine[i] = bytes.Clone(args[1+i])
	}
	c.multi.calls = append(c.multi.calls, call{t, mine})
	c.noteRun(t, time.Now())
	c.Simple("QUEUED")
	return true
}

// argBytes is about what an argument takes in memory beyond its bytes.
const argBytes = 48

// keep counts arguments that are kept for EXEC. It returns an error text if they are too many.
func (c *client) keep(args [][]byte) (refused string) {
	size := int64(0)
	for _, arg := range args {
		size += int64(len(arg)) + argBytes
	}
	switch {
	case c.multi.size+size > c.s.config.MaxCommand:
		return fmt.Sprintf("ERR the commands of a transaction have more than %d bytes", c.s.config.MaxCommand)
	case !c.s.budget.Take(size):
		return resp.TooMuch
	}
	c.multi.size += size
	return ""
}

// forget ends MULTI and WATCH.
func (c *client) forget() {
	c.s.budget.Give(c.multi.size)
	c.multi = multi{}
}

// doMulti is MULTI.
func (c *client) doMulti([][]byte) {
	if c.multi.open {
		c.Error("ERR MULTI calls can not be nested")
		return
	}
	c.multi.open = true
	c.OK()
}

// discard is DISCARD.
func (c *client) discard([][]byte) {
	if !c.multi.open {
		c.Error("ERR DISCARD without MULTI")
		return
	}
	c.forget()
	c.OK()
}

// watch is WATCH. What a name stands for is remembered, and not who has changed it: a value that is set to what it was counts as
// unchanged, since the transaction can't tell.
func (c *client) watch(args [][]byte) {
	if c.multi.open {
		c.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	if refused := c.keep(args); refused != "" {
		c.Error(refused)
		return
	}
	seen := make(map[string]uint64)
	err := c.s.read(func(r shale.Reader) error {
		for _, name := range args {
			if _, has := c.multi.watched[string(name)]; has {
				continue
			}
			sum, err := c.fingerprint(r, name)
			if err != nil {
				return err
			}
			seen[string(name)] = sum
		}
		return nil
	})
	if err != nil {
		c.fail(err)
		return
	}
	if c.multi.watched == nil {
		c.multi.watched = make(map[string]uint64)
	}
	for name, sum := range seen {
		c.multi.watched[name] = sum
	}
	c.OK()
}

// unwatch is UNWATCH. Behind MULTI it waits for EXEC, which ends that too.
func (c *client) unwatch([][]byte) {
	if c.multi.watched != nil {
		c.forget()
	}
	c.OK()
}

// fingerprint returns a hash of what a name stands for, and until when.
func (c *client) fingerprint(r shale.Reader, name []byte) (sum uint64, err error) {
	at, err := r.ExpiresAt(c.nameKey(name))
	if errors.Is(err, shale.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = r.ViewValue(c.nameKey(name), func(value []byte) error {
		var h maphash.Hash
		h.SetSeed(c.s.lanes.seed)
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))) // neither ever fails
		_, _ = h.Write(value)
		sum = max(1, h.Sum64())
		return nil
	})
	if errors.Is(err, shale.ErrNotFound) {
		return 0, nil
	}
	return sum, err
}

// errWatched ends a transaction of which something watched has changed.
var errWatched = errors.New("something watched has changed")

// exec is EXEC.
func (c *client) exec([][]byte) {
	m := c.multi
	defer c.forget()
	c.multi.open = false
	switch {
	case !m.open:
		c.Error("ERR EXEC without MULTI")
		return
	case m.spoiled:
		c.Error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	begin := len(c.Out)
	c.wrote = true
	err := c.s.write(func(ctx context.Context) error {
		return c.s.config.Store.Update(ctx, func(tx Txn) error {
			c.Out = c.Out[:begin]
			for name, sum := range m.watched {
				now, err := c.fingerprint(tx, []byte(name))
				if err == nil && now != sum {
					err = errWatched
				}
				if err != nil {
					return err
				}
			}
			c.Array(len(m.calls))
			k := &keeper{Txn: tx}
			for _, call := range m.calls {
				if err := c.execOne(k, call); err != nil {
					return err
				}
			}
			return k.save(c)
		})
	})
	if err == nil {
		return
	}
	c.Out = c.Out[:begin]
	if errors.Is(err, errWatched) {
		c.NullArray()
		return
	}
	c.fail(err)
}

// execOne does a command of a transaction. Its refusal is its reply, and the others are done all the same, as in Redis.
func (c *client) execOne(k *keeper, call call) error {
	c.s.counts.commands[call.t.index].Add(1)
	switch do := call.t.Do; {
	case do.update != nil:
		return k.do(c, call)
	case do.read != nil:
		begin := len(c.Out)
		err := k.save(c)
		if err == nil {
			err = do.read(c, k.Txn, call.args)
		}
		if refused := refusal(""); errors.As(err, &refused) {
			c.Out = c.Out[:begin]
			c.fail(err)
			return nil
		}
		return err
	default:
		do.do(c, call.args)
		return nil
	}
}
