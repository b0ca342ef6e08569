package shale

import (
	"fmt"
	"maps"
	"time"
)

// expiryCalls are the rows of closingCalls that have to do with values that expire.
var expiryCalls = map[string]func(c *closing) error{
	"DB.PutTTL": func(c *closing) error {
		return c.db.PutTTL(fmt.Appendf(nil, "put%d", c.n.Add(1)), []byte("v"), time.Hour)
	},
	"DB.PutIfAbsentTTL": func(c *closing) error {
		key := fmt.Appendf(nil, "absent%d", c.n.Add(1))
		if did, err := c.db.PutIfAbsentTTL(key, key, time.Hour); err != nil || !did {
			return orWrong(err, "PutIfAbsentTTL of a fresh key did nothing")
		}
		return nil
	},
	"DB.ExpiresAt":       func(c *closing) error { return c.never(c.db) },
	"Snapshot.ExpiresAt": func(c *closing) error { return c.never(c.snap) },
}

func init() { maps.Copy(closingCalls, expiryCalls) }

func (c *closing) never(r Reader) error {
	_, key := c.key()
	at, err := r.ExpiresAt(key)
	if err == nil && !at.IsZero() {
		return fmt.Errorf("%s expires at %v", key, at)
	}
	return err
}
