package command

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/logset"
)

// changesCommand prints what was written to the store, also by another program that has it open.
func changesCommand() *Command {
	var after uint64
	var given, follow bool
	c := newCommand("changes", Reads, "print what was written, from the logs, as lines of JSON", `
Prints each batch as one line: the numbers of its first and its last operation (seq and last), and its operations. Text
that is not UTF-8 is in base64, in fields whose names end in 64. A batch of an ingestion has "ingested":true: it has the keys of
that range as they are now, and the last of its lines has its number as last. A range delete has its bounds as key and upper,
and a value that expires has that time as expires_ms.

A store keeps the logs of what is in memory only, unless a program has opened it with KeepLog. Without --after the first line
is the oldest change there is. Next to a program that writes, the newest lines may not be durable yet. Status 1 if there is
nothing, 2 if changes after N are gone.`)
	c.option("after", "N", "only changes after number N, such as the last of an earlier line", func(w Word) (err error) {
		given = true
		if after, err = strconv.ParseUint(w.Text, 10, 64); err != nil {
			return errors.New("is not a number")
		}
		return nil
	})
	c.flag(&follow, "follow", "wait for more, until Ctrl-C")
	c.txn = neverIn
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		found, err := s.changes(ctx, after, follow)
		var gone *logset.GoneError
		for errors.As(err, &gone) && !given && !found { // again and again: a writer may remove the first log meanwhile
			found, err = s.changes(ctx, uint64(gone.First)-1, follow)
		}
		if err != nil {
			return Failed, err
		}
		return foundIf(found), nil
	})
}

// changes prints the changes after a number, and reports whether there are any.
func (s *Session) changes(ctx context.Context, after uint64, follow bool) (found bool, err error) {
	list := shale.ShippingOf(s.DB).ChangesNow
	if follow {
		list = s.DB.Changes
	}
	lines := json.NewEncoder(s.Out)
	lines.SetEscapeHTML(false)
	for c, err := range list(ctx, after) {
		if err != nil {
			return found, err
		}
		found = true
		if err := lines.Encode(changeRecordOf(c)); err != nil {
			return found, err
		}
		if follow {
			if err := s.Out.Flush(); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// A changeRecord is a line of the command changes.
type changeRecord struct {
	Seq      uint64     `json:"seq"`
	Last     uint64     `json:"last"`
	Ingested bool       `json:"ingested,omitempty"`
	Ops      []opRecord `json:"ops"`
}

// An opRecord is an operation in such a line. Upper is the bound of a range delete, whose key is the lower one.
type opRecord struct {
	Op string `json:"op"`
	jsonRecord
	Upper   *string `json:"upper,omitempty"`
	Upper64 *string `json:"upper64,omitempty"`
}

func changeRecordOf(c shale.Change) changeRecord {
	r := changeRecord{Seq: c.Seq, Last: c.Last, Ingested: c.Ingested(), Ops: []opRecord{}}
	for op := range c.Ops() {
		o := opRecord{Op: op.Kind.String()}
		o.Key, o.Key64 = jsonText(op.Key)
		switch {
		case op.Kind == shale.OpPut:
			o.Value, o.Value64 = jsonText(op.Value)
			o.Expires = expiryOf(op.ExpiresAt)
		case op.Kind == shale.OpDeleteRange && op.Value != nil:
			o.Upper, o.Upper64 = jsonText(op.Value)
		}
		r.Ops = append(r.Ops, o)
	}
	return r
}
