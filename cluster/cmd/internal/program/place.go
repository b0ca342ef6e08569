package program

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// storesBelow returns the buckets of stores below this one, in order.
func storesBelow(ctx context.Context, p s3.Place) ([]s3.Place, error) {
	b, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	var found []s3.Place
	for info, err := range b.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if prefix, ok := strings.CutSuffix(info.Name, "/"+remote.IdentityName); ok {
			found = append(found, p.Below(strings.Split(prefix, "/")...))
		}
	}
	slices.SortFunc(found, func(a, b s3.Place) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// describe returns how many bytes the bucket of a store needs, and of when its newest state is.
func describe(ctx context.Context, p s3.Place) (size int64, last time.Time, err error) {
	b, err := p.Open(ctx)
	if err != nil {
		return 0, last, err
	}
	r, err := remote.Verify(ctx, b, false)
	return r.Bytes, r.Point.Time, err
}
