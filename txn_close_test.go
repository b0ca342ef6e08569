package shale

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// txnCalls are the rows of closingCalls that have to do with transactions.
var txnCalls = map[string]func(c *closing) error{
	"DB.Begin": func(c *closing) error { return c.inTxn(func(*Txn) error { return nil }) },
	"DB.View":  func(c *closing) error { return c.db.View(func(tx *Txn) error { return c.get(tx) }) },
	"DB.Update": func(c *closing) error {
		return c.db.Update(c.ctx, func(tx *Txn) error {
			return cmp.Or(c.get(tx), tx.Put(fmt.Appendf(nil, "put%d", c.n.Add(1)), []byte("v")))
		})
	},
	"DB.Sub":          func(c *closing) error { return c.get(c.db.Sub("")) },
	"Snapshot.Sub":    func(c *closing) error { return c.scan(c.snap.Sub("")) },
	"Txn.Get":         func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.get(tx) }) },
	"Txn.AppendValue": func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.appendValue(tx) }) },
	"Txn.ViewValue":   func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.viewValue(tx) }) },
	"Txn.Has":         func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.has(tx) }) },
	"Txn.ExpiresAt":   func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.never(tx) }) },
	"Txn.PutTTL": func(c *closing) error {
		return c.inTxn(func(tx *Txn) error { return tx.PutTTL([]byte("mine"), nil, time.Hour) })
	},
	"Txn.Scan":          func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.scan(tx) }) },
	"Txn.NewIterator":   func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.walk(tx) }) },
	"Txn.Untracked":     func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.get(tx.Untracked()) }) },
	"Txn.Sub":           func(c *closing) error { return c.inTxn(func(tx *Txn) error { return c.walk(tx.Sub("")) }) },
	"Txn.Discard":       func(c *closing) error { return c.inTxn(func(tx *Txn) error { tx.Discard(); return nil }) },
	"Txn.SetDurability": func(c *closing) error { return c.inTxn(func(tx *Txn) error { tx.SetDurability(SyncEach); return nil }) },
	"Txn.Seq":           func(c *closing) error { return c.inTxn(func(tx *Txn) error { tx.Seq(); return nil }) },
	"Txn.DeleteRange": func(c *closing) error {
		return c.inTxn(func(tx *Txn) error { return tx.DeleteRange([]byte("gone"), []byte("gone!")) })
	},
	"Txn.Delete": func(c *closing) error { return c.inTxn(func(tx *Txn) error { return tx.Delete([]byte("gone")) }) },
	"Txn.GetMany": func(c *closing) error {
		return c.inTxn(func(tx *Txn) error {
			return tx.GetMany([][]byte{closingKey(5)}, func(_ int, value []byte, _ bool) error { return c.wantValue(tx, 5, value) })
		})
	},
	"Txn.Put": func(c *closing) error {
		return c.inTxn(func(tx *Txn) error {
			if err := tx.Put([]byte("mine"), []byte("v")); err != nil {
				return err
			}
			_, err := tx.Get([]byte("mine"))
			return err
		})
	},
	"Txn.Commit": func(c *closing) error {
		return c.inTxn(func(tx *Txn) error {
			if err := cmp.Or(c.get(tx), tx.Put(fmt.Appendf(nil, "put%d", c.n.Add(1)), []byte("v"))); err != nil {
				return err
			}
			if err := tx.Commit(c.ctx); !errors.Is(err, ErrConflict) { // the writer may have come between
				return err
			}
			return nil
		})
	},
}

// inTxn runs fn in a transaction, which it then discards.
func (c *closing) inTxn(fn func(tx *Txn) error) error {
	tx, err := c.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return fn(tx)
}
