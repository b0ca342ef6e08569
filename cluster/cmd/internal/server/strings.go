package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
)

// The commands on strings. Those that read get a Reader, and those that write a transaction. They append to c.Out, and
// return an error instead of a reply: a client never gets half of an array. A refusal comes before the first write.

// nameKey returns the key of the store for a name, which is valid until the next call.
func (c *client) nameKey(name []byte) []byte {
	c.key = appendName(c.key[:0], name)
	return c.key
}

// appendNames appends the keys of the store for names.
func (c *client) appendNames(keys, names [][]byte) [][]byte {
	size := 0
	for _, name := range names {
		size += 1 + len(name)
	}
	buf := make([]byte, 0, size)
	for _, name := range names {
		at := len(buf)
		buf = appendName(buf, name)
		keys = append(keys, buf[at:len(buf):len(buf)])
	}
	return keys
}

// mostKept is how large a buffer may be that a connection keeps for its next command.
const mostKept = 64 << 10

// lookUp returns what the store has under a name, which is valid until the next lookup. Nil: nothing.
func (c *client) lookUp(r shale.Reader, name []byte) ([]byte, error) {
	value, err := r.AppendValue(c.old[:0], c.nameKey(name))
	switch {
	case errors.Is(err, shale.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if cap(value) <= mostKept {
		c.old = value
	}
	return value, nil
}

// get is GET. It copies a short string once, from the block of the store into the reply.
func (c *client) get(t *text, _ [][]byte) error {
	if !t.found {
		c.Null()
		return nil
	}
	return c.bulk(t)
}

// bulk replies with a string.
func (c *client) bulk(t *text) error {
	s, err := t.part(c, 0, t.size())
	if err == nil {
		c.Bulk(s)
	}
	return err
}

// A manyReader looks up many keys at one moment. The readers of a Store, and its transactions, are such.
type manyReader interface {
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
}

// errLong says that an MGET has found a long string.
var errLong = errors.New("a string is long")

// mget is MGET. All values are of one moment. A name that stands for no string has none.
func (c *client) mget(r shale.Reader, args [][]byte) error {
	begin := len(c.Out)
	one := func(t *text, err error) error {
		if err != nil && !errors.Is(err, errWrongType) {
			return err
		}
		if !t.found {
			c.Null()
			return nil
		}
		if len(c.Out)-begin+int(t.size()) > c.s.config.MaxReply {
			return refusal(fmt.Sprintf("ERR the values together are larger than %d bytes: ask for fewer keys at a time", c.s.config.MaxReply))
		}
		return c.bulk(t)
	}
	c.Array(len(args))
	err := r.(manyReader).GetMany(c.appendNames(nil, args), func(_ int, value []byte, found bool) error {
		if !found {
			return one(new(text), nil)
		}
		t, err := textOf(value)
		if t.isLong {
			return errLong
		}
		return one(&t, err)
	})
	if !errors.Is(err, errLong) {
		return err
	}
	c.Out = c.Out[:begin]
	c.Array(len(args))
	it := moment(r)
	for _, name := range args {
		t, err := c.textAt(it, name)
		if err = one(&t, err); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

// exists is EXISTS. A key that is named twice counts twice.
func (c *client) exists(r shale.Reader, args [][]byte) error {
	if len(args) == 1 {
		has, err := r.Has(c.nameKey(args[0]))
		c.Truth(has)
		return err
	}
	n := int64(0)
	err := r.(manyReader).GetMany(c.appendNames(nil, args), func(_ int, _ []byte, found bool) error {
		if found {
			n++
		}
		return nil
	})
	c.Integer(n)
	return err
}

// strlen is STRLEN: 0 for a key that is absent.
func (c *client) strlen(t *text, _ [][]byte) error {
	c.Integer(int64(t.size()))
	return nil
}

// typeOf is TYPE.
func (c *client) typeOf(r shale.Reader, args [][]byte) error {
	name := "none"
	err := r.ViewValue(c.nameKey(args[0]), func(value []byte) (err error) {
		name, err = typeName(value)
		return err
	})
	if err != nil && !errors.Is(err, shale.ErrNotFound) {
		return err
	}
	c.Simple(name)
	return nil
}

// set is SET with all options. One without conditions reads nothing: see setKind.
func (c *client) set(tx Txn, args [][]byte) error {
	o, err := readSet(args)
	if err != nil {
		return err
	}
	if o.reads() {
		old, err := c.lookUp(tx, args[0])
		if err != nil {
			return err
		}
		may := !(o.ifAbsent && old != nil || o.ifPresent && old == nil)
		if o.get || o.is.word != "" {
			t, err := textIn(tx, args[0], old)
			if err == nil && o.is.word != "" {
				may, err = o.is.met(c, &t)
			}
			if err == nil && o.get && old != nil {
				err = c.bulk(&t)
			}
			if err != nil {
				return err
			}
		}
		if !may {
			if !o.get || old == nil {
				c.Null()
			}
			return nil
		}
		if o.keepTTL && old != nil {
			if o.until, err = tx.ExpiresAt(c.nameKey(args[0])); err != nil {
				return err
			}
		}
		if o.get && old == nil {
			c.Null()
		}
		if err := drop(tx, args[0], old); err != nil {
			return err
		}
	}
	if !o.get {
		c.OK()
	}
	return c.put(tx, args[0], args[1], o.expiry)
}

// put sets a string.
func (c *client) put(w shale.Writer, name, s []byte, e expiry) error {
	value := append(append(c.value[:0], stringKind), s...)
	if cap(value) <= mostKept {
		c.value = value
	}
	return c.putValue(w, name, value, e)
}

// putValue sets what a name stands for. The store decides whether a time is over: its clock need not be this process's.
func (c *client) putValue(w shale.Writer, name, value []byte, e expiry) error {
	key := c.nameKey(name)
	switch {
	case e.until.IsZero() && e.ttl > 0:
		return w.PutTTL(key, value, e.ttl)
	case e.until.IsZero():
		return w.Put(key, value)
	}
	return shale.Op{Kind: shale.OpPut, Key: key, Value: value, ExpiresAt: e.until}.Apply(w)
}

// setEX returns the action of SETEX or PSETEX, the old forms of SET with EX or PX.
func setEX(name string, unit time.Duration) action {
	return action{update: func(c *client, tx Txn, args [][]byte) error {
		e, err := readExpiry(args[1], unit, false, name)
		if err != nil {
			return err
		}
		c.OK()
		return c.put(tx, args[0], args[2], e)
	}, kind: func(args [][]byte) kind {
		if e, _ := readExpiry(args[1], unit, false, name); !e.until.IsZero() {
			return updates // as in setKind
		}
		return puts
	}}
}

// mset is MSET.
func (c *client) mset(tx Txn, args [][]byte) error {
	for ; len(args) > 0; args = args[2:] {
		if err := c.put(tx, args[0], args[1], expiry{}); err != nil {
			return err
		}
	}
	c.OK()
	return nil
}

// setNX is SETNX, the old form of SET NX, which go-redis sends.
func (c *client) setNX(tx Txn, args [][]byte) error {
	has, err := tx.Has(c.nameKey(args[0]))
	if err == nil && !has {
		err = c.put(tx, args[0], args[1], expiry{})
	}
	c.Truth(!has)
	return err
}

// insert does a SETNX or a SET NX that is alone: the store decides whether the key was there, without a read before.
func (c *client) insert(call call) error {
	var o setOptions
	if call.t.Name == "SET" {
		o, _ = readSet(call.args) // setKind has read it
	}
	key, value := c.nameKey(call.args[0]), append([]byte{stringKind}, call.args[1]...)
	var inserted bool
	err := c.s.write(func(ctx context.Context) (err error) {
		if o.ttl > 0 {
			inserted, err = c.s.config.Store.PutIfAbsentTTL(ctx, key, value, o.ttl)
		} else {
			inserted, err = c.s.config.Store.PutIfAbsent(ctx, key, value)
		}
		return err
	})
	switch {
	case call.t.Name == "SETNX":
		c.Truth(inserted)
	case inserted:
		c.OK()
	default:
		c.Null()
	}
	return err
}

// del is DEL and UNLINK within a transaction.
func (c *client) del(tx Txn, args [][]byte) error {
	n := int64(0)
	for _, name := range args {
		old, err := c.lookUp(tx, name)
		if err == nil && old != nil {
			n++
			err = errors.Join(drop(tx, name, old), tx.Delete(c.nameKey(name)))
		}
		if err != nil {
			return err
		}
	}
	c.Integer(n)
	return nil
}

// ttl returns TTL or PTTL. The clock of this server says how much time is left.
func ttl(unit time.Duration) func(*client, shale.Reader, [][]byte) error {
	return func(c *client, r shale.Reader, args [][]byte) error {
		at, err := r.ExpiresAt(c.nameKey(args[0]))
		if errors.Is(err, shale.ErrNotFound) {
			c.Integer(-2)
			return nil
		}
		c.TimeLeft(at, unit)
		return err
	}
}
