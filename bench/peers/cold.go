package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/vfs"
)

// coldSeeks is the most seeks of seekrandom-cold. They are few, so that nearly every block that
// they read is one that the page cache does not have either.
const coldSeeks = 2000

// seekCold seeks in a store that was just opened, after its files were dropped from the page cache.
func (c *child) seekCold() error {
	const name = "seekrandom-cold"
	if !c.measures(name) {
		return nil
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := dropPages(c.Dir); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := stores.Options{Reading: true}
	c.smallCache(&o)
	if err := c.open(o); err != nil {
		return err
	}
	return c.measureRead(name, c.seekFew)
}

// seekFew is seekRandom with a clock around each seek, and an end.
func (c *child) seekFew(t *track) error {
	it, err := c.store.Iterator()
	if err != nil {
		return err
	}
	next, _ := c.presentKeys("seekrandom-cold", 0)
	t.ready("a seek and 10 entries")
	for more := true; more && t.ops < coldSeeks; more = t.counted() {
		if err := c.scan(it, next(), seekEntries+1); err != nil {
			return err
		}
	}
	return it.Close()
}

// dropPages drops the files of a closed store from the page cache, where the system can do that.
// While a store is open, pages that it has mapped would stay.
func dropPages(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := vfs.Default.OpenReadWrite(path)
		if err != nil {
			return err
		}
		err = f.Sync()
		if err == nil {
			if err = vfs.DropCache(f); errors.Is(err, vfs.ErrUnsupported) {
				err = nil
			}
		}
		return errors.Join(err, f.Close())
	})
}
