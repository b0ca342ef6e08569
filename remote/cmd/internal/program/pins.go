package program

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"text/tabwriter"

	"github.com/shaledb/shale/remote"
)

// The commands about pins: what keeps old states from being deleted.

// pins lists the pins of a bucket, those of readers too. One that is past its time goes with the next collection.
func pins(c *call) (int, error) {
	b, err := c.bucket(c.words[0])
	if err != nil {
		return failed, err
	}
	list, err := remote.Pins(c.ctx, b)
	if err != nil {
		return failed, err
	}
	if len(list) == 0 {
		c.note("there are no pins")
		return absent, nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pin\tstep\tof\tuntil\towner")
	for _, p := range list {
		until := "unpin"
		if !p.Expires.IsZero() {
			until = clock(p.Expires)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", p.Label, p.N, clock(p.Written), until, p.Owner)
	}
	return found, w.Flush()
}

// pin keeps a state.
// It prints the label, which names this pin alone even if others have its name.
func pin(c *call) (int, error) {
	o := remote.PinOptions{Owner: c.option("owner")}
	if err := c.duration("lasts", &o.Lasts); err != nil {
		return failed, err
	}
	if c.has("step") {
		n, err := strconv.ParseUint(c.option("step"), 10, 64)
		if err != nil || n == 0 {
			return failed, fmt.Errorf("--step %s is not the number of a step", c.option("step"))
		}
		o.Step = n
	}
	b, err := c.bucket(c.words[0])
	if err != nil {
		return failed, err
	}
	p, err := remote.CreatePin(c.ctx, b, c.words[1], o)
	if err != nil {
		return failed, err
	}
	fmt.Fprintf(c.out, "%s keeps step %d of %s\n", p.Label, p.N, clock(p.Written))
	return found, nil
}

// unpin lets a state go.
// A name stands for the pin of the newest step that has it, a label for exactly one.
func unpin(c *call) (int, error) {
	b, err := c.bucket(c.words[0])
	if err != nil {
		return failed, err
	}
	err = remote.RemovePin(c.ctx, b, c.words[1])
	if errors.Is(err, fs.ErrNotExist) {
		c.note("there is no pin %s; `shale-remote pins` lists them", c.words[1])
		return absent, nil
	}
	if err != nil {
		return failed, err
	}
	return found, nil
}
