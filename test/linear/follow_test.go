package linear

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// follow reads the key from a read-only handle that shows what was written until now. If that handle has few files open,
// compactions may remove one that a snapshot of it needs, or a scan that has begun.
func (o *owner) follow() error {
	if o.follower == nil {
		opts := harness.Draw(o.r, o.faults)
		opts.Exist, opts.ReadOnly, o.few = shale.MustExist, true, opts.Tuning.MaxOpenFiles > 0
		db, err := shale.Open(harness.Dir, &opts)
		if err != nil {
			return fmt.Errorf("a follower: %w", err)
		}
		o.follower = db
	} else if _, err := o.follower.Advance(context.Background()); err != nil {
		return err
	}
	if o.r.IntN(2) == 0 {
		return o.point(o.follower, "a follower's ", o.value)
	}
	snapshot, err := o.follower.Snapshot()
	if err != nil {
		return err
	}
	err = o.point(snapshot, "a follower's snapshot's ", o.value)
	if err == nil {
		value, scanErr := o.scanned(snapshot, shale.Range{Lower: o.key, Upper: append(slices.Clone(o.key), 0)})
		err = o.is("a follower's snapshot's Scan", value, scanErr, o.value)
	}
	if o.few && harness.Gone(err) {
		err = nil
	}
	return errors.Join(err, snapshot.Close())
}
