package s3

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale/remote"
)

// How commands name a bucket, in a folder or on a server, with one word.

// A Place is where a bucket is, as it is named on a command line.
type Place struct {
	Dir    string // of a bucket in a directory
	Server Config // of one on a server; Dir is empty
}

// ParsePlace reads the name of a bucket: a folder, also as file://FOLDER, or what [ParseURL] reads.
func ParsePlace(text string) (Place, error) {
	path, isFile := strings.CutPrefix(text, "file://")
	switch {
	case IsURL(text):
		c, err := ParseURL(text)
		return Place{Server: c}, err
	case strings.Contains(text, "://") && !isFile:
		return Place{}, fmt.Errorf("%s is not a bucket: write a folder, s3://HOST/BUCKET/PREFIX, or s3+http://HOST/BUCKET/PREFIX without TLS", text)
	case path == "":
		return Place{}, errors.New("a bucket has an empty name: write a folder, or s3://HOST/BUCKET/PREFIX")
	}
	return Place{Dir: path}, nil
}

// Open returns the bucket. A directory is made if it is not there.
func (p Place) Open(ctx context.Context) (remote.Bucket, error) {
	if p.Dir != "" {
		return remote.NewDir(nil, p.Dir)
	}
	return New(ctx, p.Server)
}

// Below returns the bucket with a longer path, or a longer prefix on the same server.
func (p Place) Below(names ...string) Place {
	if p.Dir != "" {
		p.Dir = filepath.Join(append([]string{p.Dir}, names...)...)
		return p
	}
	if p.Server.Prefix != "" {
		names = append([]string{p.Server.Prefix}, names...)
	}
	p.Server.Prefix = strings.Join(names, "/")
	return p
}

// String returns the name that [ParsePlace] reads.
func (p Place) String() string {
	if p.Dir != "" {
		return p.Dir
	}
	return p.Server.String()
}
