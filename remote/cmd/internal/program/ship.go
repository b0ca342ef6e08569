package program

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// The command ship is a program around remote.Open, for stores whose own program is not running all
// the time.

// ship keeps a store in a bucket until the command is ended. A folder without a store is refused, although
// Open would make one there: it is most likely a wrong name.
func ship(c *call) (int, error) {
	dir, err := c.folder(1)
	if err != nil {
		return failed, err
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); errors.Is(err, fs.ErrNotExist) { // Open reports other errors
		return failed, fmt.Errorf("there is no store in %s: correct the name; `shale-remote restore` makes a store from a bucket, and `shale %s import` from a file", dir, dir)
	}
	o, err := c.shipOptions()
	if err != nil {
		return failed, err
	}
	to, b, err := c.bucketFor(dir, c.words[len(c.words)-1], true)
	if err != nil {
		return failed, err
	}
	d := c.newDisplay()
	o.OnEvent = func(e remote.Event) { c.event(d, e) }
	store, err := remote.Open(c.ctx, dir, b, o)
	if err != nil {
		return failed, openError(dir, to, err)
	}
	// Publish ships first, so it brings the logs as well as the tables. A collection is due once an
	// hour, however often the command runs.
	if c.has("once") {
		if err = store.Publish(c.ctx); err == nil {
			_, err = store.CollectDue(c.ctx)
		}
		if err == nil && o.LocalBytes > 0 {
			err = c.awaitRoom(store, o.LocalBytes)
		}
	} else {
		c.note("%s is shipped to %s; Ctrl-C ends it", dir, to)
		err = c.watch(store, d)
	}
	d.clear()
	// The status is taken before Close, which ends it, and the lag afterwards: Close ships the
	// rest.
	s := store.Status()
	if cerr := store.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return failed, err
	}
	s.Lag = store.Lag()
	fmt.Fprintf(c.out, "%s\n", shipState(&s))
	return found, nil
}

// shipOptions returns the options of remote.Open for those of the command.
// An option that was not given leaves its field at zero, which stands for the default of remote.
func (c *call) shipOptions() (*remote.Options, error) {
	o, err := c.localOptions()
	if err != nil {
		return nil, err
	}
	o.Strict = c.has("strict")
	for name, field := range map[string]*time.Duration{"every": &o.Ship, "publish": &o.Publish, "retain": &o.Retain} {
		if err := c.duration(name, field); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// localOptions returns options for --local, or the defaults. The command itself writes little, so its memtables can be small,
// of which the local bytes must have eight.
func (c *call) localOptions() (*remote.Options, error) {
	o := new(remote.Options)
	if !c.has("local") {
		return o, nil
	}
	n, err := humanize.ParseBytes(c.option("local"))
	if err != nil || n < leastLocal || n > math.MaxInt64 {
		return nil, fmt.Errorf("--local %s is not a size from 1 MiB up: write 500MB or 20GiB", c.option("local"))
	}
	o.LocalBytes = int64(n)
	o.Store.MemtableSize = min(o.LocalBytes/8, mostMemtable)
	return o, nil
}

const mostMemtable = 32 << 20

// awaitRoom waits until the folder has as few bytes of tables as it should, as long as tables leave it.
func (c *call) awaitRoom(store *remote.Store, limit int64) error {
	for least, begin := int64(math.MaxInt64), time.Now(); time.Since(begin) < evictPatience; {
		places, err := store.Places()
		if err != nil {
			return err
		}
		local := int64(0)
		for _, p := range places {
			local += p.Local.Bytes + p.Both.Bytes
		}
		if local <= limit {
			return nil
		}
		if local < least {
			least, begin = local, time.Now()
		}
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// evictPatience is how long no table has to leave before the command ends all the same: the rest goes with the next one.
const evictPatience = 5 * time.Second

// duration parses the argument of an option that was given.
func (c *call) duration(option string, to *time.Duration) error {
	if !c.has(option) {
		return nil
	}
	d, err := time.ParseDuration(c.option(option))
	if err != nil || d <= 0 {
		return fmt.Errorf("--%s %s is not a time: write 500ms, 10s, 1m or 24h", option, c.option(option))
	}
	*to = d
	return nil
}

// watch shows how far the bucket is behind, until the command is ended or another writer owns the store. On a
// terminal that is one line that changes, in a log a line each half minute.
func (c *call) watch(store *remote.Store, d *display) error {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := store.Err(); err != nil {
			return err
		}
		if d.due() {
			s := store.Status()
			d.line(shipState(&s))
		}
	}
}

// shipState returns a line about what is in the bucket, and what is not.
func shipState(s *remote.Status) string {
	text := "nothing is in the bucket yet"
	if s.Step > 0 {
		text = fmt.Sprintf("step %d of %s, %s, %s sent", s.Step, clock(s.Time), plural(s.Tables, "table"), base.FormatBytes(s.Sent))
	}
	if s.Lag.Seq > s.Lag.Shipped {
		text += fmt.Sprintf("; behind by %s, %s", plural(s.Lag.Seq-s.Lag.Shipped, "write"), ago(s.Lag.Time))
	} else {
		text += "; all writes are in the bucket"
	}
	if s.Away != nil {
		text += fmt.Sprintf("; the bucket is away for %s: %v", ago(time.Since(s.Since)), s.Away)
	}
	if s.Failing != nil {
		text += fmt.Sprintf("; it fails: %v", s.Failing)
	}
	return text
}

// event prints what happens in the background.
// Collections are for a log: on a terminal they would break into the line with the state.
func (c *call) event(d *display, e remote.Event) {
	switch e.Kind {
	case remote.EventAway, remote.EventBackground:
		c.note("%v: %s; it is tried again", e.Kind, message(e.Err))
	case remote.EventBack:
		c.note("%v after %s", e.Kind, ago(e.Duration))
	case remote.EventCollected:
		if e.Objects > 0 && !d.terminal {
			c.note("%v: %s", e.Kind, plural(e.Objects, "object"))
		}
	}
}

// ownerPattern finds the process in the text of the error of a lock, which is the only place that
// has it.
var ownerPattern = regexp.MustCompile(`owned by (process \d+)`)

// ownerOf returns which process holds the lock that an error is about.
func ownerOf(err error) string {
	if m := ownerPattern.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return "another process"
}

// openError returns in plain words why a store can't be shipped. The most common reason is a program that has the store open:
// it has to ship the store itself.
func openError(dir string, to s3.Place, err error) error {
	switch {
	case errors.Is(err, shale.ErrLocked):
		return fmt.Errorf("%s has %s open for writing. Only that program can ship the store: let it open the store with remote.Open instead of shale.Open, or end it and run this again", ownerOf(err), dir)
	case errors.Is(err, remote.ErrOtherStore):
		return fmt.Errorf("%w: ship %s to another bucket or prefix than %s", err, dir, to)
	}
	return err
}
