package server

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// Limits of the writes of a pipeline that go together.
const (
	// The first is for reads, whose replies are bounded by sendAt, the second for writes, which are
	// one entry.
	mostTogether  = 1024
	bytesTogether = 1 << 20
)

// A kind of commands that can go together if they follow each other.
type kind uint8

const (
	single  kind = iota
	reads        // one read of the store
	puts         // writes that read nothing, such as SET without conditions: one batch
	deletes      // DELs and UNLINKs: one write, which says of each key whether it was there
	inserts      // SET NX and SETNX: alone, a write that says whether the key was there
	updates      // all other writes: one transaction
)

// kindOf returns with which commands a command can go together.
func kindOf(t *command, args [][]byte) kind {
	switch {
	case t.Do.read != nil:
		return reads
	case t.Do.kind != nil:
		return t.Do.kind(args)
	case t.Do.update != nil:
		return updates
	}
	return single
}

// run does the first commands of a pipeline, as many as go together, and returns how many that were.
//
// A run ends where the kind changes, so the commands of a connection take effect in their order.
// What is left of the pipeline comes with the next call.
func (c *client) run(pipeline []resp.Command) int {
	if c.multi.open && c.queue(pipeline[0].Args) {
		return 1
	}
	n, k := c.gather(pipeline)
	if n == 0 { // the first one is refused, or empty
		if _, refused := c.check(pipeline[0].Args); refused != "" {
			c.Error(refused)
		}
		return 1
	}
	begin, out := time.Now(), len(c.Out)
	c.noteRun(c.calls[0].t, begin)
	var err error
	switch k {
	case reads:
		n, err = c.readRun(c.calls)
	case puts:
		err = c.putRun(c.calls)
	case deletes:
		err = c.deleteRun(c.calls)
	case inserts:
		err = c.insert(c.calls[0])
	case updates:
		n, err = c.updateRun(c.calls)
	default:
		c.calls[0].t.Do.do(c, c.calls[0].args)
	}
	if err != nil { // then all of them have failed
		c.Out, n = c.Out[:out], len(c.calls)
		for range c.calls {
			c.fail(err)
		}
	}
	if k != single {
		c.s.counts.took(k == reads, begin)
		c.wrote = c.wrote || k != reads
	}
	for _, call := range c.calls[:n] {
		c.s.counts.commands[call.t.index].Add(1)
	}
	clear(c.calls) // so that it does not keep the arguments
	return n
}

// gather puts the first commands of a pipeline that go together into c.calls, and returns how many they are, and of
// which kind: 0 if the first one is refused.
//
// Arguments are not copied: they lie in the buffer of the connection, which stays until the
// pipeline is done.
func (c *client) gather(pipeline []resp.Command) (n int, k kind) {
	c.calls = c.calls[:0]
	size := 0
	for _, cmd := range pipeline {
		t, refused := c.check(cmd.Args)
		if t == nil || refused != "" {
			break
		}
		of := kindOf(t, cmd.Args[1:])
		apart := of == single || of == inserts
		if size += cmd.Size; n > 0 && (of != k || apart || n == mostTogether || of != reads && size > bytesTogether) {
			break
		}
		k = of
		c.calls = append(c.calls, call{t, cmd.Args[1:]})
		n++
	}
	return n, k
}

// readRun does reads. It returns how many it has done: it stops when there is much to be sent. A read that fails in its
// middle is answered with its error alone.
func (c *client) readRun(calls []call) (done int, err error) {
	begin := len(c.Out)
	err = c.s.read(func(r shale.Reader) error {
		c.Out = c.Out[:begin]
		for done = 0; done < len(calls) && (done == 0 || len(c.Out) < sendAt); done++ {
			at := len(c.Out)
			if err := calls[done].t.Do.read(c, r, calls[done].args); err != nil {
				c.Out = c.Out[:at]
				c.fail(err)
			}
		}
		return nil
	})
	return done, err
}

// update does a command in a transaction. A refusal is its reply, as it has written nothing then.
func (c *client) update(tx Txn, call call) error {
	begin := len(c.Out)
	err := call.t.Do.update(c, tx, call.args)
	if refused := refusal(""); errors.As(err, &refused) {
		c.Out = c.Out[:begin]
		c.fail(err)
		return nil
	}
	return err
}

// A blind transaction is a batch for commands that read nothing.
type blind struct {
	shale.Reader // nil
	*shale.Batch
}

// Untracked implements Txn.
func (b blind) Untracked() shale.Reader { return b.Reader }

// putRun does writes that read nothing in one batch. So either all commands of the run are answered with OK, or all
// with the same error.
func (c *client) putRun(calls []call) error {
	b := &c.batch
	tx := Txn(blind{Batch: b})
	var err error
	for i := 0; i < len(calls) && err == nil; i++ {
		err = c.update(tx, calls[i])
	}
	if err == nil {
		err = c.s.write(func(ctx context.Context) error { return c.s.config.Store.Write(ctx, b) })
	}
	if b.Size() > mostKept {
		*b = shale.Batch{}
	}
	b.Reset()
	return err
}

// deleteRun deletes the keys of DELs.
//
// A key that two DELs of a run name is counted for the first one only, as if they had come one
// after the other.
func (c *client) deleteRun(calls []call) error {
	var keys [][]byte
	for _, call := range calls {
		keys = c.appendNames(keys, call.args)
	}
	var present []bool
	err := c.s.write(func(ctx context.Context) (err error) {
		present, err = c.s.config.Store.DeletePresent(ctx, keys...)
		return err
	})
	if err != nil {
		return err
	}
	for _, call := range calls {
		n := int64(0)
		for _, was := range present[:len(call.args)] {
			if was {
				n++
			}
		}
		present = present[len(call.args):]
		c.Integer(n)
	}
	return nil
}
