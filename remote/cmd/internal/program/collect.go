package program

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
)

// collect deletes what nobody needs any more, with credentials that may delete. It is for buckets whose writer may not, and
// finds nothing to do next to one that may.
func collect(c *call) (int, error) {
	b, err := c.bucket(c.words[0])
	if err != nil {
		return failed, err
	}
	// Only Collect is right here and not an Open: this program must not become the owner of the
	// store.
	done, err := remote.Collect(c.ctx, b)
	if err != nil {
		return failed, err
	}
	fmt.Fprintf(c.out, "%s, %s, %s and %s deleted, %s; step %d is the first that can be restored\n", plural(done.Tables, "table"),
		plural(done.Segments, "segment"), plural(done.Steps+done.States, "step"), plural(done.Pins, "pin"), base.FormatBytes(done.Bytes), max(done.Floor, 1))
	return found, nil
}
