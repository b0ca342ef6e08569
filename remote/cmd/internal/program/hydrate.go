package program

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
)

// The command hydrate makes a store that is larger than its disk one that needs no bucket.

// hydrate brings the tables of a folder back that are only in the bucket. Damage of the bucket is a result and no failure of the
// command: all else is there, and people have to decide what to do about the rest.
func hydrate(c *call) (int, error) {
	dir, err := c.folder(1)
	if err != nil {
		return failed, err
	}
	from, b, err := c.bucketFor(dir, c.words[len(c.words)-1], false)
	if err != nil {
		return failed, err
	}
	d := c.newDisplay()
	h, err := remote.Hydrate(c.ctx, b, dir, &remote.HydrateOptions{Salvage: c.has("salvage"), Progress: d.bytes})
	d.clear()
	switch {
	case errors.Is(err, shale.ErrLocked):
		return failed, fmt.Errorf("%s has %s open for writing: end it, and run this again", ownerOf(err), dir)
	case err != nil && len(h.Damage) == 0:
		return failed, err
	}
	fmt.Fprintf(c.out, "%s: %s, %s fetched in %s\n", dir, plural(h.Tables, "table"), base.FormatBytes(h.Bytes), ago(time.Since(d.begin)))
	for _, name := range h.Missing {
		fmt.Fprintf(c.out, "%s could not be fetched: the filter in its table serves\n", name)
	}
	for _, f := range h.Damage {
		fmt.Fprintln(c.out, f.Err)
	}
	again := ""
	if !c.has("salvage") {
		again = fmt.Sprintf("`shale-remote hydrate --salvage %s %s` also fetches what is damaged, as it is. Then ", dir, from)
	}
	switch {
	case len(h.Damage) > 0:
		fmt.Fprintf(c.out, "DAMAGED: %s of the bucket can't be used, all others are here. `shale-remote restore` makes a store of an earlier step and the logs,\n"+
			"where the bucket has them. %s`shale %s repair TO` saves what is provably correct\n"+
			"(--without-bucket, if tables are missing).\n", plural(len(h.Damage), "table"), again, dir)
		return absent, nil
	case h.Manifest != nil:
		fmt.Fprintf(c.out, "%v\nDAMAGED: the manifest of the folder. All tables that it, or the newest step, names are here now:\n"+
			"`shale %s repair TO` saves what is provably correct. `shale-remote restore` makes a whole store of the bucket.\n", h.Manifest, dir)
		return absent, nil
	}
	fmt.Fprintln(c.out, "All tables are in the folder. It opens without the bucket.")
	return found, nil
}
