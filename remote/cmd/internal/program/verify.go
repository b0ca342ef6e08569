package program

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
)

// The command verify compares what a bucket has with what a restore would need.

// verify checks a store in a bucket.
// Findings are its result and no failure: they go to standard output, with status 1. If the bucket
// can't be read, nothing is known, and the status is 2.
func verify(c *call) (int, error) {
	name := c.option("bucket")
	switch {
	case len(c.words) > 0 && name != "":
		return failed, errors.New("two buckets are named: --bucket is instead of the word")
	case len(c.words) > 0:
		name = c.words[0]
	case name == "":
		return failed, errors.New("no bucket is named: write --bucket BUCKET; `shale DIR check` reads a store in a folder")
	}
	b, err := c.bucket(name)
	if err != nil {
		return failed, err
	}
	r, err := remote.Verify(c.ctx, b, c.has("deep"))
	if err != nil {
		return failed, err
	}
	fmt.Fprintf(c.out, "steps %d to %d: %s, %s, %s, %s\n", r.First, r.Newest,
		plural(r.Tables, "table"), plural(r.Segments, "segment"), plural(r.Pins, "pin"), base.FormatBytes(r.Bytes))
	// Leftovers are counted and not named: a writer at work always has some.
	if n := len(r.Leftovers); n > 0 {
		size := int64(0)
		for _, o := range r.Leftovers {
			size += o.Size
		}
		fmt.Fprintf(c.out, "%s with %s that nothing needs: of a writer at work, or to be collected. They do no harm.\n", plural(n, "object"), base.FormatBytes(size))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(c.out, "%v\n", f)
	}
	if r.Point.Seq > 0 {
		fmt.Fprintf(c.out, "The newest point that can be restored: sequence number %d, as it was in the bucket at %s, %s ago.\n",
			r.Point.Seq, clock(r.Point.Time), ago(time.Since(r.Point.Time)))
	}
	if len(r.Findings) > 0 {
		fmt.Fprintf(c.out, "DAMAGED. Ship the store to another place while its folder is whole, or restore the newest point: shale-remote restore %s DIR\n", name)
		return absent, nil
	}
	if c.has("deep") {
		fmt.Fprintln(c.out, "Every byte was read. No damage.")
	} else {
		fmt.Fprintln(c.out, "Everything is there, with the right sizes. --deep also reads it.")
	}
	return found, nil
}
