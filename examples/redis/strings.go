package main

import (
	"errors"
	"net"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// lookUp returns the value of a name with its first byte, which says what it is. It is
// valid until the next lookup.
func (c *client) lookUp(name []byte) ([]byte, error) {
	c.key = appendNameKey(c.key[:0], name)
	value, err := c.s.db.AppendValue(c.value[:0], c.key)
	if err != nil {
		return nil, err
	}
	if cap(value) <= sendAt { // a large one is not kept
		c.value = value
	}
	return value, nil
}

func (c *client) get(args [][]byte) {
	value, err := c.lookUp(args[0])
	switch {
	case errors.Is(err, shale.ErrNotFound):
		c.Null()
	case err != nil:
		c.fail(err)
	case value[0] != stringValue:
		c.fail(errWrongType)
	default:
		c.Bulk(value[1:])
	}
}

// mget is MGET. All values are of one moment. A name that stands for no string has none. Large
// values are sent while others are looked up, so that they are not all in memory.
func (c *client) mget(args [][]byte) {
	keys := make([][]byte, len(args))
	for i, name := range args {
		keys[i] = appendNameKey(nil, name)
	}
	begin, sent := len(c.Out), false
	c.Array(len(args))
	err := c.s.db.GetMany(keys, func(_ int, value []byte, found bool) error {
		if found && value[0] == stringValue {
			c.Bulk(value[1:])
		} else {
			c.Null()
		}
		sent = sent || len(c.Out) >= sendAt
		if !c.sendIfLarge() {
			return net.ErrClosed
		}
		return nil
	})
	switch {
	case err == nil:
	case sent && c.conn != nil: // an error would be taken for a value
		c.s.logf("MGET: %v", err)
		c.hangUp()
	default:
		c.Out = c.Out[:begin]
		c.fail(err)
	}
}

func (c *client) exists(args [][]byte) {
	n := int64(0)
	for _, name := range args {
		has, err := c.s.db.Has(appendNameKey(c.key[:0], name))
		if err != nil {
			c.fail(err)
			return
		}
		if has {
			n++
		}
	}
	c.Integer(n)
}

// typeOf is TYPE. The name of filters is the one that RedisBloom has registered.
func (c *client) typeOf(args [][]byte) {
	value, err := c.lookUp(args[0])
	switch {
	case errors.Is(err, shale.ErrNotFound):
		c.Simple("none")
	case err != nil:
		c.fail(err)
	case value[0] == stringValue:
		c.Simple("string")
	default:
		c.Simple("MBbloom--")
	}
}

// set is SET with NX or XX, and EX or PX.
func (c *client) set(args [][]byte) {
	name, value := args[0], args[1]
	var ifAbsent, ifPresent bool
	var ttl time.Duration
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		option, unit := rest[0], resp.Unit(rest[0])
		switch {
		case resp.Is(option, "NX"):
			ifAbsent = true
		case resp.Is(option, "XX"):
			ifPresent = true
		case unit > 0 && ttl == 0 && len(rest) > 1:
			var refused string
			if ttl, refused = resp.TTL(rest[1], unit, "SET"); refused != "" {
				c.Error(refused)
				return
			}
			rest = rest[1:]
		default:
			c.SyntaxError()
			return
		}
	}
	if ifAbsent && ifPresent {
		c.SyntaxError()
		return
	}
	switch done, err := c.setIf(name, value, ifAbsent, ifPresent, ttl); {
	case err != nil:
		c.fail(err)
	case done:
		c.OK()
	default:
		c.Null()
	}
}

// setNX is SETNX, the old form of SET NX, which go-redis sends.
func (c *client) setNX(args [][]byte) {
	done, err := c.setIf(args[0], args[1], true, false, 0)
	if err != nil {
		c.fail(err)
		return
	}
	c.Truth(done)
}

// setIf sets a name to a string if it may, and reports whether it did. ttl 0: the string does not expire.
func (c *client) setIf(name, value []byte, ifAbsent, ifPresent bool, ttl time.Duration) (done bool, err error) {
	h := c.s.stripes.lock(name)
	defer c.s.stripes.unlock(h)
	if ifAbsent || ifPresent {
		c.wrote = true // the answer depends on what another client wrote
		has, err := c.s.db.Has(appendNameKey(c.key[:0], name))
		if err != nil || has == ifAbsent {
			return false, err
		}
	}
	return true, c.putStrings([][]byte{name}, [][]byte{value}, ttl)
}

// ttl returns TTL or PTTL.
func ttl(unit time.Duration) func(*client, [][]byte) {
	return func(c *client, args [][]byte) {
		switch at, err := c.s.db.ExpiresAt(appendNameKey(c.key[:0], args[0])); {
		case err == nil:
			c.TimeLeft(at, unit)
		case errors.Is(err, shale.ErrNotFound):
			c.Integer(-2)
		default:
			c.fail(err)
		}
	}
}

// putStrings sets names to strings. Filters of these names end. Requires: the stripes
// of the names are held. ttl 0: the strings do not expire.
func (c *client) putStrings(names, values [][]byte, ttl time.Duration) error {
	b := new(shale.Batch)
	for i, name := range names {
		c.key = appendNameKey(c.key[:0], name)
		c.value = append(append(c.value[:0], stringValue), values[i]...)
		var err error
		if ttl > 0 {
			err = b.PutTTL(c.key, c.value, ttl)
		} else {
			err = b.Put(c.key, c.value)
		}
		if err != nil {
			return err
		}
	}
	return c.replace(b, names)
}

// replace writes a batch after which no name of names stands for a filter.
func (c *client) replace(b *shale.Batch, names [][]byte) error {
	var dropped []*filter
	for _, name := range names {
		f := c.s.filters.get(name)
		if f == nil || slices.Contains(dropped, f) {
			continue
		}
		f.changing.Lock()
		defer f.changing.Unlock()
		dropped = append(dropped, f)
		if err := b.Delete(idKey(filterMeta, f.id)); err != nil {
			return err
		}
	}
	if err := c.write(b); err != nil {
		return err
	}
	c.s.dropFilters(dropped)
	return nil
}

// del is DEL of strings and filters.
func (c *client) del(args [][]byte) {
	h := c.s.stripes.lock(args...)
	defer c.s.stripes.unlock(h)
	c.wrote = true // that a name was not there may depend on what another client wrote
	b, deleted := new(shale.Batch), make(map[string]bool)
	for _, name := range args {
		c.key = appendNameKey(c.key[:0], name)
		has, err := c.s.db.Has(c.key)
		if err == nil && has && !deleted[string(name)] {
			deleted[string(name)] = true
			err = b.Delete(c.key)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
	if b.Len() > 0 {
		if err := c.replace(b, args); err != nil {
			c.fail(err)
			return
		}
	}
	c.Integer(int64(len(deleted)))
}
