package program

import "github.com/shaledb/shale/remote"

// where says for each level where its tables are.
func where(c *call) (int, error) {
	dir, err := c.folder(1)
	if err != nil {
		return failed, err
	}
	_, b, err := c.bucketFor(dir, c.words[len(c.words)-1], false)
	if err != nil {
		return failed, err
	}
	levels, err := remote.PlacesIn(c.ctx, nil, dir, b)
	if err != nil {
		return failed, err
	}
	if len(levels) == 0 {
		c.note("%s has no tables", dir)
		return absent, nil
	}
	return found, writePlaces(c.out, levels)
}
