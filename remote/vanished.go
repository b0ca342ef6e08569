package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// A bucket may lose objects that no collection has deleted, by a lifecycle rule or by hand. The
// writer looks for that, because as long as it has the files itself it can put them back.

// lookForTables looks each hour whether the bucket still has the tables and sidecars of the newest step, with their
// sizes. Somebody may have deleted some, and may go on: that is reported up to the next look, although those that the
// directory has are uploaded again at once.
func (s *Store) lookForTables(ctx context.Context, b Bucket) error {
	p := &s.publish
	if err := p.mu.take(ctx); err != nil {
		return err
	}
	defer p.mu.release()
	if time.Since(p.lookedForTables) < s.opts.testing.collect {
		return nil
	}
	// gone begins with all files of the newest step. The LIST takes out what is there.
	state, gone := p.chain.State, make(map[string]int64) // sizes
	for f := range tablefs.FilesOf(state.Tables.Version) {
		gone[f.Name()] = f.Size
	}
	for info, err := range b.List(ctx, object.TableFolder, "") {
		if err != nil {
			return fmt.Errorf("remote: look for tables: %w", err)
		}
		if gone[info.Name] == info.Size {
			delete(gone, info.Name)
		}
	}
	var found error
	if len(gone) > 0 {
		if err := s.uploadAgain(ctx, b, gone); err != nil {
			return err
		}
		if lost := s.evicting.have(gone); len(lost) > 0 {
			return local(fmt.Errorf("remote: the bucket has lost %q of step %d, which only it had: their entries are gone; find out who deletes there, such as a lifecycle rule, and restore an earlier state", lost, state.N))
		}
		found = local(fmt.Errorf("remote: the bucket had lost %q of step %d; those that %s has were uploaded again: find out who deletes there, such as a lifecycle rule, and run Verify",
			slices.Sorted(maps.Keys(gone)), state.N, s.dir))
	}
	// A look that has failed does not count, so the next round of the loop looks again. A look
	// without a finding takes back the report of the one before.
	p.lookedForTables = time.Now()
	s.report("tables", found)
	return nil
}

// uploadAgain uploads those tables and sidecars of gone that the store has. Tables that compactions have removed since the
// step was made are lost to the bucket; the next step does not name them any more. Requires: publish.mu.
func (s *Store) uploadAgain(ctx context.Context, b Bucket, gone map[string]int64) error {
	h, err := shale.ShippingOf(s.db).Hold()
	if err != nil {
		return fmt.Errorf("remote: upload again: %w", local(err))
	}
	defer h.Release()
	// Of the tables that the store has now, those stay that are gone or whose sidecar is.
	tables := slices.DeleteFunc(slices.Collect(placedTables(h.State().Version)), func(a manifest.Added) bool {
		return gone[object.TableName(uint64(a.Table.Num))] == 0 && (a.Table.Sidecar == nil || gone[object.FilterName(uint64(a.Table.Sidecar.Num))] == 0) ||
			s.evicting.has(a.Table)
	})
	s.publish.uploaded = nil // some of these may be gone as well
	_, err = s.upload(ctx, b, new(manifest.Version), tables)
	return err
}
