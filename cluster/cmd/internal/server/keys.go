package server

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// Commands that change what is there, and commands on how long it stays. They are transactions.

const errNoInteger = refusal("ERR value is not an integer or out of range")

// reply replies with the string under a name, or with null, and returns the value that has it.
func (c *client) reply(tx Txn, name []byte) (old []byte, err error) {
	old, err = c.lookUp(tx, name)
	if err != nil {
		return nil, err
	}
	t, err := textIn(tx, name, old)
	if err == nil {
		err = c.get(&t, nil)
	}
	return old, err
}

// incrBy returns INCR, DECR, INCRBY or DECRBY. sign is -1 for the latter of each, and one is whether there is no number.
func incrBy(sign int64, one bool) func(*client, Txn, [][]byte) error {
	return func(c *client, tx Txn, args [][]byte) error {
		by := int64(1)
		if !one {
			n, ok := resp.ParseInt(args[1])
			if !ok {
				return errNoInteger
			}
			by = n
		}
		if sign < 0 && by == math.MinInt64 {
			return refusal("ERR decrement would overflow")
		}
		by *= sign
		t, err := c.textUnder(tx, args[0])
		if err != nil {
			return err
		}
		n, ok := int64(0), true
		if t.found {
			n, ok = resp.ParseInt(t.short)
		}
		if !ok {
			return errNoInteger
		}
		if by < 0 && n < math.MinInt64-by || by > 0 && n > math.MaxInt64-by {
			return refusal("ERR increment or decrement would overflow")
		}
		c.Integer(n + by)
		e, err := c.endOf(tx, args[0], &t)
		return errors.Join(err, c.put(tx, args[0], strconv.AppendInt(nil, n+by, 10), e))
	}
}

// appendTo is APPEND.
func (c *client) appendTo(tx Txn, args [][]byte) error {
	t, err := c.textUnder(tx, args[0])
	if err != nil {
		return err
	}
	n, err := c.writeAt(tx, args[0], &t, t.size(), args[1])
	c.Integer(int64(n))
	return err
}

// getRange is GETRANGE, and SUBSTR, its old name. Positions below 0 count from the end.
func (c *client) getRange(t *text, args [][]byte) error {
	r, err := readRange(args[1:], t.size())
	if err != nil {
		return err
	}
	if r.crossed {
		r = bitRange{}
	}
	s, err := t.part(c, r.from/8, r.to/8)
	if err == nil {
		c.Bulk(s)
	}
	return err
}

// getSet is GETSET, the old form of SET GET.
func (c *client) getSet(tx Txn, args [][]byte) error {
	return c.set(tx, [][]byte{args[0], args[1], []byte("GET")})
}

// getDel is GETDEL.
func (c *client) getDel(tx Txn, args [][]byte) error {
	old, err := c.reply(tx, args[0])
	if err != nil || old == nil {
		return err
	}
	return errors.Join(drop(tx, args[0], old), tx.Delete(c.nameKey(args[0])))
}

// getEx is GETEX: GET that may change how long the value stays.
func (c *client) getEx(tx Txn, args [][]byte) error {
	var e expiry
	persist := len(args) == 2 && resp.Is(args[1], "PERSIST")
	if len(args) > 1 && !persist {
		ok, err := e.read(args[1:], "GETEX")
		if err != nil {
			return err
		}
		if !ok || len(args) > 3 {
			return errSyntax
		}
	}
	old, err := c.reply(tx, args[0])
	if err != nil || old == nil || len(args) == 1 {
		return err
	}
	return c.putValue(tx, args[0], old, e)
}

// msetNX is MSETNX.
func (c *client) msetNX(tx Txn, args [][]byte) error {
	for i := 0; i < len(args); i += 2 {
		if has, err := tx.Has(c.nameKey(args[i])); has || err != nil {
			c.Truth(false)
			return err
		}
	}
	for i := 0; i < len(args); i += 2 {
		if err := c.put(tx, args[i], args[i+1], expiry{}); err != nil {
			return err
		}
	}
	c.Truth(true)
	return nil
}

// delIfEqual is DELIFEQ, the name of Valkey for DELEX with IFEQ.
func (c *client) delIfEqual(tx Txn, args [][]byte) error {
	return c.delEx(tx, [][]byte{args[0], []byte("IFEQ"), args[1]})
}

// delEx is DELEX: DEL of one name, or with a condition of a string. So a lock is released by its owner alone.
func (c *client) delEx(tx Txn, args [][]byte) error {
	if len(args) == 1 {
		return c.del(tx, args)
	}
	is, err := readCondition(args[1:])
	if err != nil || is.word == "" || len(args) != 3 {
		return cmp.Or(err, error(errSyntax))
	}
	old, err := c.lookUp(tx, args[0])
	if err != nil {
		return err
	}
	t, err := textIn(tx, args[0], old)
	if err != nil {
		return err
	}
	may, err := is.met(c, &t)
	may = may && t.found
	if err == nil && may {
		err = errors.Join(drop(tx, args[0], old), tx.Delete(c.nameKey(args[0])))
	}
	c.Truth(may)
	return err
}

// expire returns EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT.
func expire(name string, unit time.Duration, at bool) func(*client, Txn, [][]byte) error {
	return func(c *client, tx Txn, args [][]byte) error {
		e, err := readEnd(args[1], unit, at, name)
		if err != nil {
			return err
		}
		allows, err := readConditions(args[2:])
		if err != nil {
			return err
		}
		until := e.end()
		old, err := c.withEnd(tx, args[0], func(was time.Time) bool { return allows(was, until) })
		if err != nil || old == nil {
			return err
		}
		if e.isPast() {
			return errors.Join(drop(tx, args[0], old), tx.Delete(c.nameKey(args[0])))
		}
		return c.putValue(tx, args[0], old, e)
	}
}

// readConditions reads NX, XX, GT and LT, and returns whether they allow another end for a value. The zero time is never.
func readConditions(args [][]byte) (allows func(was, until time.Time) bool, err error) {
	var nx, xx, gt, lt bool
	for _, arg := range args {
		switch strings.ToUpper(string(arg)) {
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "GT":
			gt = true
		case "LT":
			lt = true
		default:
			return nil, refusal("ERR Unsupported option " + printable(arg))
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return nil, refusal("ERR NX and XX, GT or LT options at the same time are not compatible")
	case gt && lt:
		return nil, refusal("ERR GT and LT options at the same time are not compatible")
	}
	return func(was, until time.Time) bool {
		never := was.IsZero()
		return !(nx && !never || xx && never || gt && (never || !until.After(was)) || lt && !never && !until.Before(was))
	}, nil
}

// persist is PERSIST.
func (c *client) persist(tx Txn, args [][]byte) error {
	old, err := c.withEnd(tx, args[0], func(was time.Time) bool { return !was.IsZero() })
	if err != nil || old == nil {
		return err
	}
	return c.putValue(tx, args[0], old, expiry{})
}

// withEnd returns the value of a name whose end is to be changed, and replies with 1: or with 0 and nil if there is none, or if
// changes refuses the end that it has, which is the zero time for never.
func (c *client) withEnd(tx Txn, name []byte, changes func(was time.Time) bool) (old []byte, err error) {
	old, err = c.lookUp(tx, name)
	if err == nil && old != nil {
		var was time.Time
		if was, err = tx.ExpiresAt(c.nameKey(name)); err == nil && !changes(was) {
			old = nil
		}
	}
	c.Truth(err == nil && old != nil)
	return old, err
}

// expireTime returns EXPIRETIME or PEXPIRETIME.
func expireTime(unit time.Duration) func(*client, shale.Reader, [][]byte) error {
	return func(c *client, r shale.Reader, args [][]byte) error {
		at, err := r.ExpiresAt(c.nameKey(args[0]))
		switch {
		case errors.Is(err, shale.ErrNotFound):
			c.Integer(-2)
			return nil
		case at.IsZero():
			c.Integer(-1)
		default:
			c.Integer(at.UnixMilli() / int64(unit/time.Millisecond))
		}
		return err
	}
}

// flush is FLUSHDB and FLUSHALL. It takes the same time however much there is.
func (c *client) flush(tx Txn, args [][]byte) error {
	if len(args) > 1 || len(args) == 1 && !resp.Is(args[0], "SYNC") && !resp.Is(args[0], "ASYNC") {
		return errSyntax
	}
	c.OK()
	for _, space := range []byte{nameSpace, pieceSpace} {
		if err := tx.DeleteRange([]byte{space}, []byte{space + 1}); err != nil {
			return err
		}
	}
	return nil
}
