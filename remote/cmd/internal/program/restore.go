package program

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// The commands that make a store from a bucket. They print what the store lacks as well as what it
// has: whoever restores must know whether it is all.

// restore makes a store from a bucket. A point that can't be restored is no failure of the command: it names the nearest ones
// that can be, with the command for each. So is damage, if the store that was made lacks something for it.
func restore(c *call) (int, error) {
	at, err := remote.ParsePoint(c.option("at"), time.Now())
	if err != nil {
		return failed, fmt.Errorf("--at %w", err)
	}
	if c.has("at") && c.has("pin") {
		return failed, errors.New("--at and --pin name two points: give one of them")
	}
	dir, from, b, err := c.restoreFrom()
	if err != nil {
		return failed, err
	}
	d := c.newDisplay()
	r, err := remote.Restore(c.ctx, b, dir, at, &remote.RestoreOptions{
		Pin:      c.option("pin"),
		Salvage:  c.has("salvage"),
		Progress: d.bytes,
	})
	d.clear()
	var point *remote.PointError
	switch {
	case errors.As(err, &point):
		c.note("%s", message(err))
		c.suggest(point, from.String(), dir)
		return absent, nil
	case err != nil:
		return failed, err
	}
	c.writeRestored(dir, &r, time.Since(d.begin))
	if len(r.Damage) > 0 && (r.Left.Why != "" || c.has("salvage")) {
		return absent, nil
	}
	return found, nil
}

// restoreFrom returns the folder to restore into, and opens the bucket.
func (c *call) restoreFrom() (dir string, from s3.Place, b remote.Bucket, err error) {
	if dir = c.words[1]; dir == "" {
		return dir, from, b, errors.New("the folder to restore into has an empty name: write a new or an empty one")
	}
	from, b, err = c.bucketFor(dir, c.words[0], false)
	return dir, from, b, err
}

// promote makes a folder the owner of a store in a bucket. It closes the store at once: whoever runs the program that writes
// to it decides when that begins.
func promote(c *call) (int, error) {
	dir, from, b, err := c.restoreFrom()
	if err != nil {
		return failed, err
	}
	o, err := c.localOptions()
	if err != nil {
		return failed, err
	}
	begin := time.Now()
	s, err := remote.TakeOver(c.ctx, b, dir, o)
	if err != nil {
		return failed, err
	}
	seq := shale.ShippingOf(s.DB()).Position().LastSeq
	if err := s.Close(); err != nil {
		return failed, err
	}
	fmt.Fprintf(c.out, "%s: restored to sequence number %d in %s, and now the owner of %s\n"+
		"No other program can write there. `shale-remote ship %s %s` goes on.\n", dir, seq, ago(time.Since(begin)), from, dir, from)
	return found, nil
}

// suggest prints the commands that restore the nearest good points.
// Each is a step together with a number, because the number alone might lead to another step, and
// to the same refusal.
func (c *call) suggest(point *remote.PointError, bucket, dir string) {
	for _, near := range []struct {
		what string
		at   *remote.At
	}{{"before", point.Before}, {"after", point.After}} {
		if near.at != nil && near.at.Seq > 0 {
			c.note("the nearest point %s: shale-remote restore %s %s --at step:%d+seq:%d", near.what, bucket, dir, near.at.Step, near.at.Seq)
		}
	}
}

// writeRestored prints what was restored, and what was not. It always says whether the store may go on in the same bucket,
// because two stores that both go on there are the worst that can happen.
func (c *call) writeRestored(dir string, r *remote.Restored, took time.Duration) {
	fmt.Fprintf(c.out, "%s: restored to sequence number %d, step %d", dir, r.At.Seq, r.At.Step)
	if !r.At.Time.IsZero() {
		fmt.Fprintf(c.out, ", as it was in the bucket at %s", clock(r.At.Time))
	}
	fmt.Fprintf(c.out, "\n%s, %s, %s in %s", plural(r.Tables, "table"), plural(r.Logs, "log"), base.FormatBytes(r.Bytes), ago(took))
	if r.Kept > 0 {
		fmt.Fprintf(c.out, "; %s were there from an interrupted restore", base.FormatBytes(r.Kept))
	}
	fmt.Fprintln(c.out)
	if !r.Checked {
		fmt.Fprintf(c.out, "The logs are large and were not read again: `shale %s check` reads everything.\n", dir)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(c.out, "%s could not be fetched, and is built again when needed: %s\n", plural(len(r.Missing), "filter"), strings.Join(r.Missing, " "))
	}
	l := &r.Left
	if len(r.Damage) > 0 {
		c.writeDamage(dir, r)
		return
	}
	if l.Steps == 0 && l.Segments == 0 {
		fmt.Fprintln(c.out, "That is all that the bucket has. Writes that were not shipped by then are lost.")
		return
	}
	fmt.Fprintf(c.out, "Left out, because it is later: %s, %s with %s of logs", plural(l.Steps, "step"), plural(l.Segments, "segment"), base.FormatBytes(l.Bytes))
	if l.LastSeq > 0 {
		fmt.Fprintf(c.out, ", up to sequence number %d", l.LastSeq)
	}
	fmt.Fprintln(c.out, ".")
	if l.Why != "" {
		fmt.Fprintf(c.out, "The logs end there because %s.\n", l.Why)
	}
	if l.Lost {
		fmt.Fprintln(c.out, "That waits for tables which the bucket does not have. If the program that has them still runs, let it ship, and restore\n"+
			"again. If its machine is lost, this store goes on in the same place: ship it there.")
		return
	}
	fmt.Fprintln(c.out, "The bucket still has it. This store can't be shipped to the same place any more: ship it to another one.")
}

// writeDamage prints what is wrong with the bucket, and what that means for the store that was made.
func (c *call) writeDamage(dir string, r *remote.Restored) {
	for _, f := range r.Damage[:min(len(r.Damage), 20)] {
		fmt.Fprintln(c.out, f.Err)
	}
	fmt.Fprintf(c.out, "DAMAGED: %s of the bucket can't be used. ", plural(len(r.Damage), "object"))
	if r.Left.Why == "" {
		fmt.Fprintln(c.out, "The store lacks nothing for that: what it has comes from elsewhere in the bucket.")
	} else {
		fmt.Fprintf(c.out, "The store ends there because %s.\n", r.Left.Why)
	}
	if r.Left.Why != "" && r.Left.LastSeq > r.At.Seq {
		fmt.Fprintf(c.out, "Sequence numbers %d to %d are left out.\n", r.At.Seq+1, r.Left.LastSeq)
	}
	if c.has("salvage") {
		fmt.Fprintf(c.out, "`shale %s repair TO` saves what is provably correct of it into another folder.\n", dir)
		return
	}
	fmt.Fprintln(c.out, "`shale-remote restore --salvage` into another folder gets what is readable of the damaged tables. This store can't be shipped\n"+
		"to the same place any more: ship it to another one.")
}
