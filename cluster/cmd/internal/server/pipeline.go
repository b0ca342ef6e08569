package server

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/shaledb/shale"
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
	alone   kind = iota
	reads        // one read of the group
	puts         // SETs without options, and MSETs: one write
	deletes      // DELs and UNLINKs: one write, which says of each key whether it was there
)

// kindOf returns with which commands a command can go together. A SET with options is alone.
func kindOf(t *command, args [][]byte) kind {
	switch {
	case t.Do.read != nil:
		return reads
	case t.Name == "SET" && len(args) == 3:
		return puts
	}
	return t.Do.kind
}

// run does the first commands of a pipeline, as many as go together, and returns how many that were.
//
// A run ends where the kind changes, so the commands of a connection take effect in their order.
// What is left of the pipeline comes with the next call.
func (c *client) run(pipeline []redcon.Command) int {
	n, k := c.gather(pipeline)
	if n == 0 { // the first one is refused, or empty
		if _, refused := c.check(pipeline[0].Args); refused != "" {
			c.Error(refused)
		}
		return 1
	}
	begin := time.Now()
	switch k {
	case reads:
		n = c.readRun(c.calls)
		c.s.counts.took(true, begin)
	case puts:
		c.putRun(c.calls)
		c.s.counts.took(false, begin)
	case deletes:
		c.deleteRun(c.calls)
		c.s.counts.took(false, begin)
	default:
		c.calls[0].t.Do.do(c, c.calls[0].args)
		if strings.HasPrefix(c.calls[0].t.Flags, "write") {
			c.s.counts.took(false, begin)
		}
	}
	for _, call := range c.calls[:n] {
		c.s.counts.commands[call.t.Index].Add(1)
	}
	clear(c.calls) // so that it does not keep the arguments
	return n
}

// gather puts the first commands of a pipeline that go together into c.calls, and returns how many they are, and of
// which kind: 0 if the first one is refused.
//
// Arguments are not copied: they lie in the buffer of the connection, which stays until the
// pipeline is done.
func (c *client) gather(pipeline []redcon.Command) (n int, k kind) {
	c.calls = c.calls[:0]
	size := 0
	for _, cmd := range pipeline {
		t, refused := c.check(cmd.Args)
		if t == nil || refused != "" {
			break
		}
		of := kindOf(t, cmd.Args)
		if size += len(cmd.Raw); n > 0 && (of != k || of == alone || n == mostTogether || of != reads && size > bytesTogether) {
			break
		}
		k = of
		c.calls = append(c.calls, call{t, cmd.Args[1:]})
		n++
	}
	return n, k
}

// readRun does reads. It returns how many it has done: it stops when there is much to be sent.
//
// Replies of a read that fails are cut off again, and each command of the run gets the error.
func (c *client) readRun(calls []call) (done int) {
	begin := len(c.Out)
	err := c.s.read(func(r shale.Reader) error {
		c.Out = c.Out[:begin]
		for done = 0; done < len(calls) && (done == 0 || len(c.Out) < sendAt); done++ {
			calls[done].t.Do.read(c, r, calls[done].args)
		}
		return nil
	})
	if err != nil {
		c.Out = c.Out[:begin]
		for range calls {
			c.fail(err)
		}
		return len(calls)
	}
	return done
}

// putRun writes the pairs of SETs and MSETs.
//
// All pairs are in one batch. So either all commands of the run are answered with OK, or all with
// the same error.
func (c *client) putRun(calls []call) {
	b := new(shale.Batch)
	var err error
	for _, call := range calls {
		for i := 0; i < len(call.args) && err == nil; i += 2 {
			err = b.Put(call.args[i], call.args[i+1])
		}
	}
	if err == nil {
		err = c.s.write(func(ctx context.Context) error { return c.s.config.Group.Write(ctx, b) })
	}
	for range calls {
		if err != nil {
			c.fail(err)
		} else {
			c.OK()
		}
	}
}

// deleteRun deletes the keys of DELs.
//
// A key that two DELs of a run name is counted for the first one only, as if they had come one
// after the other.
func (c *client) deleteRun(calls []call) {
	keys := calls[0].args
	if len(calls) > 1 {
		keys = nil
		for _, call := range calls {
			keys = append(keys, call.args...)
		}
	}
	var present []bool
	err := c.s.write(func(ctx context.Context) (err error) {
		present, err = c.s.config.Group.DeletePresent(ctx, keys...)
		return err
	})
	for _, call := range calls {
		if err != nil {
			c.fail(err)
			continue
		}
		n := int64(0)
		for _, was := range present[:len(call.args)] {
			if was {
				n++
			}
		}
		present = present[len(call.args):]
		c.Integer(n)
	}
}
