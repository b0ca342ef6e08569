package program

import (
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/remote"
)

// What a fenced store had not shipped is written as commands of shale, one a line, so that people
// can read it and decide.

// salvage prints the writes that a bucket lacks as a script for shale, so that they can be looked at, changed, and written to
// the store that goes on. It needs no bucket: the folder knows what it has shipped.
func salvage(c *call) (int, error) {
	dir, err := c.folder(0)
	if err != nil {
		return failed, err
	}
	status := absent
	for u, err := range remote.Salvage(nil, dir) {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return failed, err
		}
		status = found
		// The batch has no keys of its own: they are in a table, which the script can't contain.
		if least, greatest, ok := u.Batch.Ingested(); ok {
			fmt.Fprintf(c.out, "# sequence number %d: a table was ingested, keys from %s to %s; it is in the folder %s\n",
				u.Seq, quoting.Quote(string(least)), quoting.Quote(string(greatest)), dir)
			continue
		}
		fmt.Fprintf(c.out, "# sequence number %d\n", u.Seq)
		for op := range u.Batch.Ops() {
			if _, err := fmt.Fprintln(c.out, commandOf(op)); err != nil {
				return failed, err
			}
		}
	}
	if status == absent {
		c.note("%s has nothing that the bucket lacks", dir)
	}
	return status, nil
}

// commandOf returns the command of shale that does what op does.
func commandOf(op shale.Op) string {
	key, value := quoting.Quote(string(op.Key)), quoting.Quote(string(op.Value))
	switch op.Kind {
	case shale.OpDelete:
		return "del " + key
	case shale.OpPut:
		text := "put " + key + " " + value
		if op.ExpiresAt.IsZero() {
			return text
		}
		ttl := time.Until(op.ExpiresAt).Round(time.Millisecond)
		if ttl <= 0 {
			return "del " + key
		}
		return text + " --ttl " + ttl.String()
	}
	text := "delrange" // the bounds of a range delete
	if len(op.Key) > 0 {
		text += " --from " + key
	}
	if op.Value != nil {
		text += " --to " + value
	}
	if text == "delrange" {
		text += " --all"
	}
	return text
}
