package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// typeOf is TYPE: there are strings only.
func (c *client) typeOf(r shale.Reader, args [][]byte) {
	switch has, err := r.Has(args[0]); {
	case err != nil:
		c.fail(err)
	case has:
		c.Simple("string")
	default:
		c.Simple("none")
	}
}

// set is SET with options. Plain ones go through putRun.
func (c *client) set(args [][]byte) {
	var ifAbsent bool
	var ttl time.Duration
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		option, unit := rest[0], resp.Unit(rest[0])
		switch {
		case resp.Is(option, "NX"):
			ifAbsent = true
		case unit > 0 && ttl == 0 && len(rest) > 1:
			var refused string
			if ttl, refused = resp.TTL(rest[1], unit, "SET"); refused != "" {
				c.Error(refused)
				return
			}
			rest = rest[1:]
		case slices.ContainsFunc([]string{"XX", "GET", "EXAT", "PXAT", "KEEPTTL"}, func(word string) bool { return resp.Is(option, word) }):
			c.Error(fmt.Sprintf("ERR SET with %s is not supported: SET takes NX, EX and PX only", printable(option)))
			return
		default:
			c.SyntaxError()
			return
		}
	}
	switch {
	case ifAbsent:
		inserted, err := c.putIfAbsent(args, ttl)
		switch {
		case err != nil:
			c.fail(err)
		case inserted:
			c.OK()
		default:
			c.Null()
		}
	case ttl > 0:
		c.putTTL(args[0], args[1], ttl)
	default:
		c.putRun([]call{{commands.LookUp([]byte("SET")), args[:2]}})
	}
}

// setEX returns SETEX or PSETEX, the old forms of SET with EX or PX.
func setEX(name string, unit time.Duration) func(*client, [][]byte) {
	return func(c *client, args [][]byte) {
		ttl, refused := resp.TTL(args[1], unit, name)
		if refused != "" {
			c.Error(refused)
			return
		}
		c.putTTL(args[0], args[2], ttl)
	}
}

// putTTL sets a value that expires.
func (c *client) putTTL(key, value []byte, ttl time.Duration) {
	err := c.s.write(func(ctx context.Context) error { return c.s.config.Group.PutTTL(ctx, key, value, ttl) })
	if err != nil {
		c.fail(err)
		return
	}
	c.OK()
}

// ttl returns TTL or PTTL. The clock of this member says how much time is left.
func ttl(unit time.Duration) func(*client, shale.Reader, [][]byte) {
	return func(c *client, r shale.Reader, args [][]byte) {
		switch at, err := r.ExpiresAt(args[0]); {
		case err == nil:
			c.TimeLeft(at, unit)
		case errors.Is(err, shale.ErrNotFound):
			c.Integer(-2)
		default:
			c.fail(err)
		}
	}
}

// setNX is SETNX, the old form of SET NX, which go-redis sends.
func (c *client) setNX(args [][]byte) {
	inserted, err := c.putIfAbsent(args, 0)
	if err != nil {
		c.fail(err)
		return
	}
	c.Truth(inserted)
}

// putIfAbsent is what SETNX and SET NX do: the group decides whether the key was there, not this
// member. ttl 0: the value does not expire.
func (c *client) putIfAbsent(args [][]byte, ttl time.Duration) (inserted bool, err error) {
	err = c.s.write(func(ctx context.Context) (err error) {
		if ttl > 0 {
			inserted, err = c.s.config.Group.PutIfAbsentTTL(ctx, args[0], args[1], ttl)
		} else {
			inserted, err = c.s.config.Group.PutIfAbsent(ctx, args[0], args[1])
		}
		return err
	})
	return inserted, err
}
