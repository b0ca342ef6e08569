package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const (
	txnAccounts = 100_000 // or all entries, if those are fewer
	txnBalance  = 1 << 20 // of each, at first
	txnClients  = 16
)

// transactions reads and changes numbers in transactions: a counter, and accounts whose sum stays the same.
func (c *child) transactions() error {
	o := stores.Options{Compactions: true, Clients: txnClients, Sync: strings.HasSuffix(c.Group, "sync")}
	if err := c.open(o); err != nil {
		return err
	}
	if err := c.loadNumbers(); err != nil {
		return err
	}
	if _, err := c.settle(); err != nil {
		return err
	}
	for _, name := range c.Workloads {
		work := make([]func(*track) error, 1, txnClients)
		work[0] = c.transact(name)
		for strings.Contains(name, "16") && len(work) < txnClients {
			work = append(work, work[0])
		}
		counted, err := c.count()
		if err != nil {
			return err
		}
		m, err := c.measure(name, c.duration(), work...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if strings.HasPrefix(name, "txncounter") {
			counted += uint64(m.run.Ops)
		}
		if err := c.checkNumbers(counted); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, t := range m.tracks {
			m.run.Tries += float64(t.tries) / float64(m.run.Ops)
		}
		c.keep(m, name)
	}
	return nil
}

func (c *child) accounts() uint64 { return min(txnAccounts, uint64(c.N)) }

// counter is the key of the counter. No account has it.
func (c *child) counter(k *data.Key) []byte { return c.space.Absent(k, 0) }

// loadNumbers writes the accounts and the counter.
func (c *child) loadNumbers() error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	var k data.Key
	var value [8]byte
	for next := uint64(0); next <= c.accounts(); {
		n := min(loadEntries, c.accounts()+1-next)
		if err := w.Batch(int(n), func() ([]byte, []byte) {
			next++
			if next > c.accounts() {
				clear(value[:])
				return c.counter(&k), value[:]
			}
			binary.LittleEndian.PutUint64(value[:], txnBalance)
			return c.space.Present(&k, next-1), value[:]
		}); err != nil {
			return err
		}
	}
	return w.Close()
}

// count returns the counter.
func (c *child) count() (n uint64, err error) {
	var k data.Key
	err = c.client().View(func(tx stores.Tx) error {
		n, err = tx.Number(c.counter(&k))
		return err
	})
	return n, err
}

// checkNumbers sees that no addition to the counter was lost, and no money.
func (c *child) checkNumbers(counter uint64) error {
	if c.kind.Unverified {
		return nil
	}
	if n, err := c.count(); err != nil || n != counter {
		return errors.Join(err, fmt.Errorf("the counter is %d, not %d", n, counter))
	}
	return c.client().View(func(tx stores.Tx) error {
		var k data.Key
		sum := uint64(0)
		for i := range c.accounts() {
			n, err := tx.Number(c.space.Present(&k, i))
			if err != nil {
				return err
			}
			sum += n
		}
		if want := c.accounts() * txnBalance; sum != want {
			return fmt.Errorf("the sum of all accounts is %d, not %d", sum, want)
		}
		return nil
	})
}

func (c *child) client() stores.Client { return c.store.(stores.Transactional).Client() }

// transact runs transactions until the time is over.
func (c *child) transact(name string) func(*track) error {
	return func(t *track) error {
		cl := data.Apart[teller]()
		*cl = teller{child: c, random: data.NewRandom(c.seed(name, t.id))}
		c.counter(&cl.counter)
		client := c.client()
		run, fn, untimed := client.Update, cl.transfer, 0
		switch {
		case name == "txnview":
			run, fn, untimed = client.View, cl.view, sampleEvery-1
		case strings.HasPrefix(name, "txncounter"):
			fn = cl.add
		}
		t.ready("a transaction")
		for more := true; more; more = t.counted() {
			for i := range untimed + 1 {
				if i == untimed && i > 0 {
					t.previous = t.now()
				}
				cl.draw()
				if err := run(fn); err != nil {
					return err
				}
			}
			t.ops += int64(untimed)
		}
		t.tries = cl.tries
		return nil
	}
}

// A teller is who runs transactions.
type teller struct {
	*child
	random            *data.Random
	counter, from, to data.Key
	amount            uint64
	tries             int64 // of all transactions
}

// draw chooses two accounts and an amount.
func (l *teller) draw() {
	from, other := l.random.Below(l.accounts()), l.random.Below(l.accounts()-1)
	l.space.Present(&l.from, from)
	l.space.Present(&l.to, (from+1+other)%l.accounts())
	l.amount = 1 + from%100
}

func (l *teller) view(tx stores.Tx) error {
	l.tries++
	n, err := tx.Number(l.from[:])
	if err == nil && n != txnBalance && !l.kind.Unverified {
		err = fmt.Errorf("account %q has %d, not %d", l.from, n, txnBalance)
	}
	return err
}

func (l *teller) add(tx stores.Tx) error {
	l.tries++
	return change(tx, l.counter[:], 1)
}

func (l *teller) transfer(tx stores.Tx) error {
	l.tries++
	if err := change(tx, l.from[:], -l.amount); err != nil {
		return err
	}
	return change(tx, l.to[:], l.amount)
}

func change(tx stores.Tx, key []byte, by uint64) error {
	n, err := tx.Number(key)
	if err != nil {
		return err
	}
	return tx.SetNumber(key, n+by)
}
