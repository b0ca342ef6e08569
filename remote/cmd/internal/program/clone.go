package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/shaledb/shale/remote"
)

// clone begins a new store with a pinned state.
func clone(c *call) (int, error) {
	from, err := parsePlace(c.words[0])
	if err != nil {
		return failed, err
	}
	into, err := parsePlace(c.words[2])
	if err != nil {
		return failed, err
	}
	prefix, err := into.prefixFrom(from)
	if err != nil {
		return failed, err
	}
	parent, err := from.open(c.ctx, false)
	if err != nil {
		return failed, err
	}
	b, err := into.open(c.ctx, true)
	if err != nil {
		return failed, err
	}
	begin := time.Now()
	host, _ := os.Hostname() // without a name, the pin has no owner
	err = remote.Clone(c.ctx, parent, c.words[1], b, remote.CloneOptions{
		Prefix: prefix,
		Parent: func(prefix string) (remote.Bucket, error) { return from.sibling(c.ctx, prefix) },
		Owner:  host,
	})
	if errors.Is(err, fs.ErrNotExist) {
		c.note("%s", message(err))
		return absent, nil
	}
	if err != nil {
		return failed, err
	}
	fmt.Fprintf(c.out, "%s is a clone of %s at pin %s, made in %s\n", into.text, from.text, c.words[1], ago(time.Since(begin)))
	return found, nil
}
