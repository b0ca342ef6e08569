package remote

import (
	"context"
	"errors"
	"io/fs"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
)

// point finds the newest point that can be restored, as far as the findings show: the newest step without one, and the
// segments behind it up to one with a finding. Only a restore reads whether something is missing in between: an ingestion, or
// what a writer had not shipped when it died.
//
// The choice of the step is that of a restore, which is told that all objects with findings are bad. So Verify can't promise
// a step that Restore would pass by. Without a step that can be restored there is no point, which is no error here: the
// findings say why.
func (v *verification) point(ctx context.Context) error {
	r := newRestore(v.b, "", At{}, nil)
	r.bad = make(map[string]error)
	for _, f := range v.report.Findings {
		r.bad[f.Object] = f.Err
	}
	var none *PointError
	switch err := r.choose(ctx); {
	case errors.As(err, &none), object.IsDamage(err), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	// A segment with a finding ends this walk, as it ends the logs of a restore.
	good := func(at object.Position) bool {
		_, there := v.segments[at]
		return there && r.bad[at.String()] == nil
	}
	// Sequence numbers grow along the list, so the header of the last segment of each log is
	// enough.
	p := pointOf(r.moment)
	_, err := v.walk(ctx, r.start(), good, func(object.Position, int64) {}, func(s *object.Segment) {
		p.Seq, p.Time = max(p.Seq, s.LastSeq), restore.LaterOf(p.Time, s.Written)
	})
	if err != nil && !object.IsDamage(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v.report.Point = p
	return nil
}

// lastStep returns the newest step that can be read, from step n down, or nil. Those that can't are findings. The floor is
// taken from that step: floors never sink, so the right one is at least as high.
func (v *verification) lastStep(ctx context.Context, n uint64) (*object.Step, error) {
	for ; n > 0; n-- {
		if !v.steps[n] {
			continue // it was collected, or readSteps finds it
		}
		step, err := chain.ReadStep(ctx, v.b, v.report.StoreID, n)
		if err == nil {
			return step, nil
		}
		if err := v.findOr(object.StepName(n), err); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
