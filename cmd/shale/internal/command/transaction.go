package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// This file has the transaction of a session: begin opens it, commit and discard end it, and other
// commands read and write by way of it.

// A transaction is one that is open in a session.
type transaction struct {
	*shale.Txn
	writable bool
	changes  int // puts and deletions so far
	bytes    int // of these, as batches of their own
}

// A txnUse says where a command may run. Most may run anywhere: they read and write by way of the open
// transaction, or look at files and counters, which do not show it.
type txnUse int

const (
	anywhere txnUse = iota
	notBatch        // not in a batch, which is one transaction
	neverIn         // nor while a transaction is open, of which it could not be a part
)

// allowed returns an error if c can't run now.
func (s *Session) allowed(c *Command) error {
	switch {
	case s.Mode == inBatch && c.txn != anywhere:
		return fmt.Errorf("%s can't be in a batch, which is one transaction", c.Title)
	case s.tx != nil && c.txn == neverIn:
		return fmt.Errorf("%s can't run in a transaction, and one is open; commit or discard it first", c.Title)
	}
	return nil
}

// reader returns what commands read: the open transaction, or the store if none is open.
func (s *Session) reader() shale.Reader {
	if s.tx != nil {
		return s.tx
	}
	return s.DB
}

// write writes b to the open transaction, or to the store if none is open: all of b or nothing.
func (s *Session) write(ctx context.Context, b *shale.Batch) error {
	tx := s.tx
	if tx == nil {
		return s.DB.Write(ctx, b)
	}
	// A transaction that is full would take only the first part of b. The size of b is that of its
	// changes and a few bytes, so this never allows too much.
	if tx.bytes+b.Size() > shale.MaxBatchSize {
		return fmt.Errorf("this has no room in the transaction, which takes %s at most; split the transaction, "+
			"or use import outside of one, which writes files of any size", output.Plural(shale.MaxBatchSize, "byte"))
	}
	for op := range b.Ops() {
		if err := op.Apply(tx); err != nil {
			return err
		}
	}
	tx.changes += b.Len()
	tx.bytes += b.Size()
	return nil
}

// endTxn makes the session go on without its transaction, which is over or is ended by the caller.
func (s *Session) endTxn() (*transaction, error) {
	tx := s.tx
	if tx == nil {
		return nil, errors.New("no transaction is open; begin opens one")
	}
	s.tx = nil
	return tx, nil
}

// leave discards the transaction that is open at the end of a session, and says so. In a script lost
// changes are an error, since it has forgotten to commit.
func (s *Session) leave() error {
	tx, err := s.endTxn()
	if err != nil {
		return nil // none is open
	}
	tx.Discard()
	text := "the transaction was not committed, and is discarded"
	if tx.changes > 0 {
		text += fmt.Sprintf(": %s %s not written", output.Plural(tx.changes, "change"), output.WasWere(tx.changes))
	}
	if s.Mode != AtPrompt && tx.changes > 0 {
		return errors.New(text)
	}
	s.note("shale: %s", text)
	return nil
}

// beginCommand opens a transaction. A single command can't: nothing could follow it.
func beginCommand() *Command {
	var readOnly bool
	c := newCommand("begin", writes, "open a transaction, at the prompt or in a script", `
Until commit or discard, get, has, scan, count and export see the store as it is now, and the changes that put,
del, batch and import make. Nobody else sees these changes before commit writes them, all at once. A
command that fails does not end the transaction. Leaving the prompt or the script without commit discards it.

Commands that look at files, filters and counters, such as levels, explain and has --filters, do not show its
changes. flush, compact, checkpoint, filters rebuild and import --sorted can't run while it is open.`)
	c.late, c.txn = true, neverIn
	c.flag(&readOnly, "readonly", "only read; the store may be open in another program then")
	return c.does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		if s.Mode == oneShot {
			return Failed, errors.New("begin is for the prompt and for scripts; batch runs a file of commands in one transaction")
		}
		need := c.access
		if readOnly = readOnly || s.readOnly; readOnly {
			need = Reads
		}
		if err := s.OpenFor(c.Title, need); err != nil {
			if errors.Is(err, shale.ErrLocked) {
				err = &sentence{plain(err) + ", or use begin --readonly", err}
			}
			return Failed, err
		}
		tx, err := s.DB.Begin(!readOnly)
		if err != nil {
			return Failed, err
		}
		s.tx = &transaction{Txn: tx, writable: !readOnly}
		return Found, nil
	})
}

// commitCommand ends the transaction by writing its changes.
func commitCommand() *Command {
	c := newCommand("commit", needsNothing, "write the changes of the transaction, all or none", `
Ends the transaction. If something else has changed what the transaction has read, the error names the key, and
nothing is written. Other programs can't do that: while a transaction may write, they can't write to the store.`)
	c.txn = notBatch
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		tx, err := s.endTxn()
		if err != nil {
			return Failed, err
		}
		begin := time.Now()
		switch err := tx.Commit(ctx); {
		case errors.Is(err, context.Canceled):
			return Failed, fmt.Errorf("commit: %w; nothing was written, and the transaction has ended", errInterrupted)
		case errors.Is(err, shale.ErrConflict):
			return Failed, fmt.Errorf("%w; nothing was written, and the transaction has ended: begin again", err)
		case err != nil:
			return Failed, fmt.Errorf("%w; the transaction has ended", plainly(err))
		}
		s.Say("%s in %v", output.Plural(tx.changes, "change"), output.Since(begin))
		return Found, nil
	})
}

// discardCommand ends the transaction without its changes.
func discardCommand() *Command {
	c := newCommand("discard", needsNothing, "drop the changes of the transaction", "Ends the transaction. The store is as if it had not been.")
	c.txn = notBatch
	return c.does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		tx, err := s.endTxn()
		if err != nil {
			return Failed, err
		}
		tx.Discard()
		s.Say("%s dropped", output.Plural(tx.changes, "change"))
		return Found, nil
	})
}
