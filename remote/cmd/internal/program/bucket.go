package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// A place is where a bucket is.
type place struct {
	text   string    // as it was given
	dir    string    // of a bucket in a directory
	server s3.Config // of one on a server; dir is empty
}

// parsePlace reads the name of a bucket.
func parsePlace(text string) (place, error) {
	path, isFile := strings.CutPrefix(text, "file://")
	switch {
	case s3.IsURL(text):
		c, err := s3.ParseURL(text)
		return place{text: c.String(), server: c}, err
	case strings.Contains(text, "://") && !isFile:
		return place{}, fmt.Errorf("%s is not a bucket: write a directory, s3://HOST/BUCKET/PREFIX, or s3+http://HOST/BUCKET/PREFIX without TLS", text)
	case path == "":
		return place{}, errors.New("a bucket has an empty name: write a directory, or s3://HOST/BUCKET/PREFIX")
	}
	return place{text: path, dir: path}, nil
}

// open returns the bucket. One in a directory is made if make is set; without that, a wrong name must not leave a
// directory behind.
func (p place) open(ctx context.Context, make bool) (remote.Bucket, error) {
	if p.dir == "" {
		return s3.New(ctx, p.server)
	}
	if !make {
		if info, err := os.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no bucket %s: correct the name", p.dir)
		} else if err == nil && !info.IsDir() {
			return nil, fmt.Errorf("%s is a file, and a bucket is a directory", p.dir)
		}
	}
	return remote.NewDir(nil, p.dir)
}

// sibling returns the bucket that a clone in p calls by a prefix: one on the same server, or the directory.
func (p place) sibling(ctx context.Context, prefix string) (remote.Bucket, error) {
	if p.dir == "" {
		p.server.Prefix = prefix
		return p.open(ctx, false)
	}
	dir := filepath.FromSlash(prefix)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.dir, dir)
	}
	return place{text: dir, dir: dir}.open(ctx, false)
}

// prefixFrom returns how a clone in p calls the bucket parent.
func (p place) prefixFrom(parent place) (string, error) {
	if (p.dir == "") != (parent.dir == "") {
		return "", errors.New("a clone and its parent must both be directories, or both be on one server")
	}
	if p.dir == "" {
		same := p.server
		same.Prefix = parent.server.Prefix
		if same != parent.server {
			return "", fmt.Errorf("%s and %s are not in one bucket of one server: a clone differs from its parent in the prefix only", p.text, parent.text)
		}
		if parent.server.Prefix == "" {
			return "", fmt.Errorf("%s has no prefix, so that its clone can't name it", parent.text)
		}
		return parent.server.Prefix, nil
	}
	abs, err := filepath.Abs(parent.dir)
	return filepath.ToSlash(abs), err
}

// bucket opens the bucket that a word names.
func (c *call) bucket(word string, make bool) (place, remote.Bucket, error) {
	p, err := parsePlace(word)
	if err != nil {
		return p, nil, err
	}
	b, err := p.open(c.ctx, make)
	return p, b, err
}
