package program

import (
	"fmt"
	"strings"
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
			ttl := ""
			if !op.ExpiresAt.IsZero() {
				ttl = fmt.Sprintf(" --ttl %v", time.Until(op.ExpiresAt).Round(time.Millisecond))
			}
			if op.Kind == shale.OpDelete || strings.HasPrefix(ttl, " --ttl -") || ttl == " --ttl 0s" { // or it is over
				fmt.Fprintf(c.out, "del %s\n", quoting.Quote(string(op.Key)))
			} else if _, err := fmt.Fprintf(c.out, "put %s %s%s\n", quoting.Quote(string(op.Key)), quoting.Quote(string(op.Value)), ttl); err != nil {
				return failed, err
			}
		}
	}
	if status == absent {
		c.note("%s has nothing that the bucket lacks", dir)
	}
	return status, nil
}
