package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/vfs"
)

// How a word of the command line becomes a bucket, and which words are refused because they are
// most likely mistakes.

// checkDir returns an error if the directory is none of a bucket, and none that a bucket may be made in. Otherwise NewDir
// would leave something of its own in whatever a wrong name leads to, and ship a store among other files, or into
// itself.
func checkDir(dir string, make bool) error {
	names, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && make:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no bucket %s: correct the name", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is a file, or below one, and a bucket is a directory: correct the name", dir)
	case err != nil:
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == name })
	}
	if has("CURRENT") {
		return fmt.Errorf("%s is a store, and no bucket: write the bucket's name here", dir)
	}
	// Every bucket in a directory has .put, and the identity once a store is in it. A copy made by
	// other means may lack .put.
	if len(names) == 0 || has(".put") || has(remote.IdentityName) {
		return nil
	}
	if make {
		return fmt.Errorf("%s has other files and is no bucket: name a new or an empty directory", dir)
	}
	return fmt.Errorf("%s has other files and is no bucket: correct the name", dir)
}

// checkApart returns an error if one of a store's folder and a bucket is within the other: who removes the one would lose
// both, and what a bucket has in its directory is its objects.
func checkApart(bucket, dir string) error {
	for _, pair := range [][2]string{{bucket, dir}, {dir, bucket}} {
		if in, err := vfs.Within(vfs.Default, pair[0], pair[1]); err == nil && in {
			return fmt.Errorf("the bucket %s and the store's folder %s must not lie in each other: name another place for one of them", bucket, dir)
		}
	}
	return nil
}

// bucket opens the bucket that a word names.
func (c *call) bucket(word string) (remote.Bucket, error) {
	_, b, err := c.bucketFor("", word, false)
	return b, err
}

// bucketFor opens the bucket that a word names for a store in dir; "": for none. One in a directory is made if make is
// set; without that, a wrong name must not leave a directory behind.
func (c *call) bucketFor(dir, word string, make bool) (p s3.Place, b remote.Bucket, err error) {
	if strings.HasPrefix(word, "s3:") && !strings.HasPrefix(word, "s3://") {
		return p, nil, fmt.Errorf("%s has one slash too few: a bucket of S3 is s3://HOST/BUCKET/PREFIX, and a folder of that name ./%s", word, word)
	}
	p, err = s3.ParsePlace(word)
	if err == nil && p.Dir != "" {
		if dir != "" {
			err = checkApart(p.Dir, dir)
		}
		if err == nil {
			err = checkDir(p.Dir, make)
		}
	}
	if err == nil {
		b, err = p.Open(c.ctx)
	}
	return p, b, err
}
