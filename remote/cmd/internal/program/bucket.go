package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/vfs"
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
	if err := p.checkDir(make); err != nil {
		return nil, err
	}
	return remote.NewDir(nil, p.dir)
}

// checkDir returns an error if the directory is none of a bucket, and none that a bucket may be made in. Otherwise NewDir
// would leave something of its own in whatever a wrong name leads to, and ship a store among other files, or into
// itself.
func (p place) checkDir(make bool) error {
	names, err := os.ReadDir(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && make:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no bucket %s: correct the name", p.dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is a file, or below one, and a bucket is a directory: correct the name", p.dir)
	case err != nil:
		return err
	}
	store, err := isStore(p.dir)
	if err != nil {
		return err
	}
	if store {
		return fmt.Errorf("%s is a store, and no bucket: write the bucket's name here", p.dir)
	}
	if len(names) == 0 || isThere(filepath.Join(p.dir, ".put")) || isThere(filepath.Join(p.dir, remote.IdentityName)) {
		return nil
	}
	if make {
		return fmt.Errorf("%s has other files and is no bucket: name a new or an empty directory", p.dir)
	}
	return fmt.Errorf("%s has other files and is no bucket: correct the name", p.dir)
}

// isThere reports whether a file can be seen.
func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// checkApart returns an error if one of a store's folder and a bucket is within the other: who removes the one would lose
// both, and what a bucket has in its directory is its objects.
func (p place) checkApart(dir string) error {
	if p.dir == "" {
		return nil
	}
	for _, pair := range [][2]string{{p.dir, dir}, {dir, p.dir}} {
		if in, err := vfs.Within(vfs.Default, pair[0], pair[1]); err == nil && in {
			return fmt.Errorf("the bucket %s and the store's folder %s must not lie in each other: name another place for one of them", p.dir, dir)
		}
	}
	return nil
}

// bucket opens the bucket that a word names.
func (c *call) bucket(word string) (remote.Bucket, error) {
	p, err := parsePlace(word)
	if err != nil {
		return nil, err
	}
	return p.open(c.ctx, false)
}

// bucketFor opens the bucket that a word names for a store in dir.
func (c *call) bucketFor(dir, word string, make bool) (p place, b remote.Bucket, err error) {
	if p, err = parsePlace(word); err == nil {
		err = p.checkApart(dir)
	}
	if err == nil {
		b, err = p.open(c.ctx, make)
	}
	return p, b, err
}
