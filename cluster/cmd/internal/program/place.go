package program

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// A place is where a bucket is: a directory, or a prefix on a server.
type place struct {
	dir    string
	server s3.Config // if dir is empty
}

// parsePlace reads the name of a bucket, which is written as for shale ship and shale restore.
func parsePlace(text string) (place, error) {
	path, isFile := strings.CutPrefix(text, "file://")
	switch {
	case s3.IsURL(text):
		c, err := s3.ParseURL(text)
		return place{server: c}, err
	case strings.Contains(text, "://") && !isFile:
		return place{}, fmt.Errorf("%s is not a bucket: write a folder, s3://HOST/BUCKET/PREFIX, or s3+http://HOST/BUCKET/PREFIX without TLS", text)
	case path == "":
		return place{}, errors.New("a bucket has an empty name: write a folder, or s3://HOST/BUCKET/PREFIX")
	}
	return place{dir: path}, nil
}

// sub returns the bucket below this one.
func (p place) sub(names ...string) place {
	if p.dir != "" {
		p.dir = filepath.Join(append([]string{p.dir}, names...)...)
		return p
	}
	if p.server.Prefix != "" {
		names = append([]string{p.server.Prefix}, names...)
	}
	p.server.Prefix = strings.Join(names, "/")
	return p
}

// open returns the bucket.
func (p place) open(ctx context.Context) (remote.Bucket, error) {
	if p.dir != "" {
		return remote.NewDir(nil, p.dir)
	}
	return s3.New(ctx, p.server)
}

func (p place) String() string {
	if p.dir != "" {
		return p.dir
	}
	return p.server.String()
}

// below returns the buckets of stores below this one, in order.
func (p place) below(ctx context.Context) ([]place, error) {
	b, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	var found []place
	for info, err := range b.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if prefix, ok := strings.CutSuffix(info.Name, "/"+remote.IdentityName); ok {
			found = append(found, p.sub(strings.Split(prefix, "/")...))
		}
	}
	slices.SortFunc(found, func(a, b place) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// describe returns how many bytes the bucket of a store has, and when something was last written to it.
func (p place) describe(ctx context.Context) (size int64, last time.Time, err error) {
	b, err := p.open(ctx)
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
