package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// The commands on keys and values. Those that read get a Reader of the group, and append to c.Out.
// If a read fails in the middle of a reply, the reply is cut off where it began, and an error takes
// its place: a client never gets half of an array.

// A manyReader looks up many keys at one moment. The readers of a Group are such.
type manyReader interface {
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
}

// get is GET. It copies the value once, from the block of the store into the reply.
func (c *client) get(r shale.Reader, args [][]byte) {
	begin := len(c.Out)
	err := r.ViewValue(args[0], func(value []byte) error {
		c.Bulk(value)
		return nil
	})
	switch {
	case err == nil:
	case errors.Is(err, shale.ErrNotFound):
		c.Null()
	default:
		c.Out = c.Out[:begin]
		c.fail(err)
	}
}

// errReply ends an MGET whose reply gets too large.
var errReply = errors.New("the reply is too large")

// mget is MGET. All values are of one moment.
func (c *client) mget(r shale.Reader, args [][]byte) {
	begin := len(c.Out)
	c.Array(len(args))
	err := r.(manyReader).GetMany(args, func(_ int, value []byte, found bool) error {
		if !found {
			c.Null()
			return nil
		}
		if len(c.Out)-begin+len(value) > c.s.config.MaxReply {
			return errReply
		}
		c.Bulk(value)
		return nil
	})
	if err == nil {
		return
	}
	c.Out = c.Out[:begin]
	if errors.Is(err, errReply) {
		c.Error(fmt.Sprintf("ERR the values together are larger than %d bytes: ask for fewer keys at a time", c.s.config.MaxReply))
		return
	}
	c.fail(err)
}

// exists is EXISTS. A key that is named twice counts twice.
func (c *client) exists(r shale.Reader, args [][]byte) {
	n := int64(0)
	if len(args) == 1 {
		has, err := r.Has(args[0])
		if err != nil {
			c.fail(err)
			return
		}
		c.Truth(has)
		return
	}
	err := r.(manyReader).GetMany(args, func(_ int, _ []byte, found bool) error {
		if found {
			n++
		}
		return nil
	})
	if err != nil {
		c.fail(err)
		return
	}
	c.Integer(n)
}

// strlen is STRLEN: 0 for a key that is absent. The value is read, as the store does not know its
// length before.
func (c *client) strlen(r shale.Reader, args [][]byte) {
	n := 0
	err := r.ViewValue(args[0], func(value []byte) error {
		n = len(value)
		return nil
	})
	if err != nil && !errors.Is(err, shale.ErrNotFound) {
		c.fail(err)
		return
	}
	c.Integer(int64(n))
}

// ifThere returns a command that answers in one way for a key that is there, and in another if it is not.
func ifThere(there, absent func(*client)) func(*client, shale.Reader, [][]byte) {
	return func(c *client, r shale.Reader, args [][]byte) {
		switch has, err := r.Has(args[0]); {
		case err != nil:
			c.fail(err)
		case has:
			there(c)
		default:
			absent(c)
		}
	}
}

// set is SET with options. Plain ones go through putRun.
func (c *client) set(args [][]byte) {
	ifAbsent := false
	for _, option := range args[2:] {
		switch {
		case resp.Is(option, "NX"):
			ifAbsent = true
		case resp.Is(option, "KEEPTTL"): // there is nothing to keep
		case resp.Is(option, "EX"), resp.Is(option, "PX"), resp.Is(option, "EXAT"), resp.Is(option, "PXAT"):
			c.Error(noExpiry + ": SET takes NX only")
			return
		case resp.Is(option, "XX"), resp.Is(option, "GET"):
			c.Error(fmt.Sprintf("ERR SET with %s is not supported: SET takes NX only", printable(option)))
			return
		default:
			c.SyntaxError()
			return
		}
	}
	if !ifAbsent {
		c.putRun([]call{{commands.LookUp([]byte("SET")), args[:2]}})
		return
	}
	switch inserted, err := c.putIfAbsent(args); {
	case err != nil:
		c.fail(err)
	case inserted:
		c.OK()
	default:
		c.Null()
	}
}

// setNX is SETNX, the old form of SET NX, which go-redis sends.
func (c *client) setNX(args [][]byte) {
	inserted, err := c.putIfAbsent(args)
	if err != nil {
		c.fail(err)
		return
	}
	c.Truth(inserted)
}

// putIfAbsent is what SETNX and SET NX do: the group decides whether the key was there, not this
// member.
func (c *client) putIfAbsent(args [][]byte) (inserted bool, err error) {
	err = c.s.write(func(ctx context.Context) (err error) {
		inserted, err = c.s.config.Group.PutIfAbsent(ctx, args[0], args[1])
		return err
	})
	return inserted, err
}
