package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
)

// restore makes a store from a bucket.
func restore(c *call) (int, error) {
	at, err := parsePoint(c.options["at"], time.Now())
	if err != nil {
		return failed, err
	}
	if c.has("at") && c.has("pin") {
		return failed, errors.New("--at and --pin name two points: give one of them")
	}
	dir := c.words[1]
	if dir == "" {
		return failed, errors.New("the folder to restore into has an empty name: write a new or an empty one")
	}
	from, b, err := c.bucketFor(dir, c.words[0], false)
	if err != nil {
		return failed, err
	}
	d := c.newDisplay()
	r, err := remote.Restore(c.ctx, b, dir, at, &remote.RestoreOptions{
		Pin:      c.options["pin"],
		Progress: d.bytes,
		Parent:   func(prefix string) (remote.Bucket, error) { return from.sibling(c.ctx, prefix) },
	})
	d.clear()
	var point *remote.PointError
	switch {
	case errors.As(err, &point):
		c.note("%s", message(err))
		c.suggest(point, from.text, dir)
		return absent, nil
	case err != nil:
		return failed, err
	}
	c.writeRestored(dir, &r, time.Since(d.begin))
	return found, nil
}

// parsePoint reads the argument of --at.
func parsePoint(text string, now time.Time) (remote.At, error) {
	for _, number := range []struct {
		prefix string
		at     func(n uint64) remote.At
	}{
		{"seq:", func(n uint64) remote.At { return remote.At{Seq: n} }},
		{"step:", func(n uint64) remote.At { return remote.At{Step: n} }},
	} {
		if digits, ok := strings.CutPrefix(text, number.prefix); ok {
			n, err := strconv.ParseUint(strings.ReplaceAll(digits, ",", ""), 10, 64)
			if err != nil || n == 0 {
				return remote.At{}, fmt.Errorf("--at %s: %q is not a number from 1 up", text, digits)
			}
			return number.at(n), nil
		}
	}
	if text == "" || text == "now" {
		return remote.At{}, nil
	}
	if d, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil {
		return remote.At{Time: now.Add(-max(d, -d))}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return remote.At{Time: t}, nil
		}
	}
	return remote.At{}, fmt.Errorf("--at %s is not a point: write a time such as 2026-11-25T04:05:06Z or \"2026-11-25 04:05\", "+
		"15m for a quarter of an hour ago, seq:N or step:N", text)
}

// suggest prints the commands that restore the nearest good points.
func (c *call) suggest(point *remote.PointError, bucket, dir string) {
	for _, near := range []struct {
		what string
		at   *remote.At
	}{{"before", point.Before}, {"after", point.After}} {
		if near.at != nil && near.at.Seq > 0 {
			c.note("the nearest point %s: shale restore %s %s --at seq:%d", near.what, bucket, dir, near.at.Seq)
		}
	}
}

// writeRestored prints what was restored, and what was not.
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
		fmt.Fprintf(c.out, "The logs are large and were not read again: `shale check %s` reads everything.\n", dir)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(c.out, "%s could not be fetched, and is built again when needed: %s\n", plural(len(r.Missing), "filter"), strings.Join(r.Missing, " "))
	}
	l := &r.Left
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
