package remote

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/remote/internal/restore"
)

// Points in the life of a store: how a target is named, how people write it, and what is said about
// one that can't be restored.

// An At is a point in the life of a store. As a target, the zero At is the newest point. Else one field
// is set, or Step and Seq both: the tables of this step, and the logs up to Seq, or as far as the tables
// may reach. Points that Restore returns have all three.
type At struct {
	// Step is the number of a step: its tables, and the logs as far as they were shipped then.
	Step uint64
	// Seq is a sequence number, as shale.Shipping gives it: all batches up to it, and no other. In a
	// Restored, the tables may have later ones if they had come into the bucket before their logs.
	Seq uint64
	// Time is when it was in the bucket: all that was shipped until then, exact to one shipment.
	Time time.Time
}

// String returns the point for people.
func (a At) String() string {
	switch {
	case a == At{}:
		return "the newest point"
	case a.Step > 0 && a.Seq == 0 && a.Time.IsZero():
		return fmt.Sprintf("step %d", a.Step)
	case a.Step == 0 && a.Time.IsZero():
		return fmt.Sprintf("sequence number %d", a.Seq)
	case a.Step == 0 && a.Seq == 0:
		return a.Time.UTC().Format(time.RFC3339Nano)
	case a.Time.IsZero():
		return fmt.Sprintf("sequence number %d on step %d", a.Seq, a.Step)
	}
	return fmt.Sprintf("sequence number %d on step %d, of %s", a.Seq, a.Step, a.Time.UTC().Format(time.RFC3339Nano))
}

// check returns an error if a is no target.
func (a At) check() error {
	if !a.Time.IsZero() && (a.Step > 0 || a.Seq > 0) {
		return errors.New("a target is a time, or a step, or a sequence number")
	}
	return nil
}

// ParsePoint reads a point as people write it: a time, such as "2026-11-25 04:05", in the zone of now if it
// names none; 15m for a quarter of an hour before now; seq:N, step:N, or step:N+seq:M; and "" or now for the
// newest.
func ParsePoint(text string, now time.Time) (At, error) {
	if step, seq, both := strings.Cut(text, "+seq:"); both && strings.HasPrefix(step, "step:") {
		at, err := ParsePoint(step, now)
		logs, seqErr := ParsePoint("seq:"+seq, now)
		at.Seq = logs.Seq
		return at, errors.Join(err, seqErr)
	}
	for _, number := range []struct {
		prefix string
		at     func(n uint64) At
	}{
		{"seq:", func(n uint64) At { return At{Seq: n} }},
		{"step:", func(n uint64) At { return At{Step: n} }},
	} {
		if digits, ok := strings.CutPrefix(text, number.prefix); ok {
			n, err := strconv.ParseUint(strings.ReplaceAll(digits, ",", ""), 10, 64)
			if err != nil || n == 0 {
				return At{}, fmt.Errorf("%s: %q is not a number from 1 up", text, digits)
			}
			return number.at(n), nil
		}
	}
	if text == "" || text == "now" {
		return At{}, nil
	}
	// A duration leads to the past whatever its sign is: there is no future to restore.
	if d, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil {
		return At{Time: now.Add(-max(d, -d))}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return At{Time: t}, nil
		}
	}
	return At{}, fmt.Errorf("%s is not a point: write a time such as 2026-11-25T04:05:06Z or \"2026-11-25 04:05\", "+
		"15m for a quarter of an hour ago, seq:N or step:N", text)
}

// A PointError says that a store can't be restored to a point, and which points nearby it can be
// restored to.
type PointError struct {
	Want At     // the target
	Why  string // what is in the way, for people
	Err  error  // the damage that is in the way, if it is that
	// Before and After are the nearest good points; nil: there is none. Their Step and Seq together
	// are a target.
	Before, After *At
}

// Unwrap returns the damage.
func (e *PointError) Unwrap() error { return e.Err }

// Error returns a text with the nearest good points.
func (e *PointError) Error() string {
	text := fmt.Sprintf("remote: can't restore %v: %s", e.Want, e.Why)
	for _, p := range []struct {
		what string
		at   *At
	}{{"before", e.Before}, {"after", e.After}} {
		if p.at != nil {
			text += fmt.Sprintf("; the nearest good point %s is %v", p.what, *p.at)
		}
	}
	return text
}

// pointError returns the error for a target that can't be restored. before may be nil.
func (r *restoration) pointError(why string, before *At) *PointError {
	e := &PointError{Want: r.want, Why: why, Before: before}
	if found := r.damage(); len(found) > 0 {
		// The last finding is the one at which the logs have ended, if damage has ended them. The
		// text names the first five.
		e.Err = found[len(found)-1].Err
		e.Why += "; damaged or missing: " + found[0].Object
		for _, f := range found[1:min(len(found), 5)] {
			e.Why += ", " + f.Object
		}
		if more := len(found) - 5; more > 0 {
			e.Why += fmt.Sprintf(" and %d more", more)
		}
	}
	// The tables of later alone are a good point. Most often it is behind the target, because fits
	// has refused its tables.
	if r.later == nil {
		return e
	}
	switch p := pointOf(r.later); {
	case p.Seq == 0: // it has no tables
	case r.want.Seq == 0 || p.Seq > r.want.Seq:
		e.After = &p
	case before == nil || before.Seq < p.Seq:
		e.Before = &p // fits was more careful than it had to be
	}
	return e
}

// pointOf returns the point of a store's life that the tables of m alone are.
func pointOf(m *restore.Moment) At { return At{Step: m.State.N, Seq: m.Reach(), Time: m.At} }
