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

// describe returns how many bytes the bucket of a store has, and when something was last written to it.
func describe(ctx context.Context, p s3.Place) (size int64, last time.Time, err error) {
	b, err := p.Open(ctx)
	if err != nil {
		return 0, last, err
	}
	newest := map[remote.Kind]string{} // the lists are in order
	for info, err := range b.List(ctx, "", "") {
		if err != nil {
			return 0, last, err
		}
		size += info.Size
		if n, ok := remote.ParseName(info.Name); ok {
			newest[n.Kind] = info.Name
		}
	}
	data, err := remote.ReadObject(ctx, b, remote.IdentityName, 1<<10)
	if err != nil {
		return size, last, err
	}
	id, err := remote.DecodeIdentity(data)
	if err != nil {
		return size, last, err
	}
	for _, name := range []string{newest[remote.KindStep], newest[remote.KindSegment]} {
		if name == "" {
			continue
		}
		if data, err = remote.ReadObject(ctx, b, name, 1<<30); err != nil {
			return size, last, err
		}
		if step, err := remote.DecodeStep(name, id.StoreID, data); err == nil {
			last = step.Written
		} else if segment, err := remote.DecodeSegment(name, id.StoreID, data); err == nil && segment.Written.After(last) {
			last = segment.Written
		}
	}
	return size, last, nil
}
