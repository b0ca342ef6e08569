package remote

import (
	"context"
	"errors"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// A Store around a store that the program has opened itself. It differs from Open in what it must
// not do: hold up writes, fence the program's store, or close it.

// Attach keeps the open store db, whose directory is dir, in the bucket, as Open does with a store that it opens
// itself. It is for programs that go before their backup: db stays the program's, no write ever waits for the bucket,
// and a writer that is fenced ends the Store and not db. Close ends the Store and not db either, and comes before
// db.Close.
//
// Open db with Options.Shipping.HoldLogs = LogsToHold(fsys, dir), so that the logs that the bucket lacks are still there.
// If Attach fails, it can be called again, with this bucket or, after [ErrFenced] and [ErrOtherStore], with another one.
//
// Of [Options.Store] it takes FS only. [Options.Strict] and MaxLag, which make writers wait, are refused.
func Attach(ctx context.Context, db *shale.DB, dir string, b Bucket, o *Options) (*Store, error) {
	if o != nil && (o.Strict || o.MaxLag != 0) {
		return nil, optionError("Strict and MaxLag", errors.New("they make writers wait for the bucket: use Open"))
	}
	if o != nil && o.LocalBytes != 0 {
		return nil, optionError("LocalBytes", errors.New("a store reads tables from the bucket by way of a file system that it is opened with: use Open"))
	}
	return open(ctx, db, dir, b, o)
}

// LogsToHold returns the number of the first log in a directory that its bucket may lack, for
// [shale.ShippingOptions.HoldLogs]. It returns 0, which holds none, if the directory has never been kept in a bucket. nil
// stands for [vfs.Default].
func LogsToHold(fsys vfs.FS, dir string) uint64 {
	setDefault(&fsys, vfs.Default)
	if n, err := localdir.ReadRecord(fsys, dir); err == nil && n != nil {
		return n.Shipped.Log
	}
	return 0
}

// take makes the attached store ready for a list of segments that begins with this epoch.
func (o *opening) take() error {
	o.keepLogs(o.firstLog())
	// From here up the program's store gives out file numbers of the new epoch, and its next log is
	// the first one behind the anchor.
	if err := shale.ShippingOf(o.db).RaiseFileNum(o.ctx, object.AnchorOf(o.epoch).Log+1); err != nil {
		return err
	}
	var err error
	o.local, err = o.state()
	return err
}

// state returns what the local store has now.
func (s *Store) state() (*manifest.State, error) {
	h, err := shale.ShippingOf(s.db).Hold()
	if err != nil {
		return nil, local(err)
	}
	// The description stays valid after that. Only the files that it names may go.
	defer h.Release()
	return h.State(), nil
}

// look tells the ledger how far the log of an attached store is. A store that Open has opened does it in the gate.
func (s *Store) look() {
	if s.attached {
		s.ledger.wrote(shale.ShippingOf(s.db).Position())
	}
}
