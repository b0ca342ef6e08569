//go:build unix

package faults

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shaledb/shale/internal/smalldisk"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A DiskFault says how a member's disk fails. Its zero value is a healthy disk.
type DiskFault struct {
	Ops   string        // "read", "write", "sync", "any", "link"; "room" has those that a full disk refuses
	Files string        // "log", "state", "snapshots" or "any"
	Full  bool          // ENOSPC instead of EIO
	After bool          // the operation takes effect and fails nevertheless
	Skip  int64         // so many operations still work
	Count int64         // then so many fail; 0: all
	Slow  time.Duration // operations take so long instead of failing
	Small bool          // the disk has no free block any more
}

var faultOps = map[string][]vfs.Op{
	"read":  {vfs.OpRead, vfs.OpOpen, vfs.OpStat, vfs.OpList},
	"write": {vfs.OpWrite, vfs.OpMapWrite, vfs.OpCreate, vfs.OpRename, vfs.OpLink, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpRemove},
	"link":  {vfs.OpLink},
	"sync":  {vfs.OpSync, vfs.OpSyncDir},
	"room":  {vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate},
}

func init() {
	faultOps["any"] = slices.Concat(faultOps["read"], faultOps["write"], faultOps["sync"])
}

// fileKind says to which part of the member's directory dir a file belongs.
func fileKind(dir, name string) string {
	rest, err := filepath.Rel(dir, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	if strings.HasPrefix(first, "state-") {
		return "state"
	}
	return first
}

// A disk is a member's file system.
type disk struct {
	*faultfs.FS
	small *smalldisk.Disk // nil: the disk has any number of blocks
	dir   string
	fired atomic.Int64
	mu    sync.Mutex // for set
}

// plenty is how many blocks a small disk has while it is not full.
const plenty = 1 << 40

func newDisk(dir string, small bool) *disk {
	d := &disk{dir: dir}
	var base vfs.FS = vfs.Default
	if small {
		d.small = smalldisk.New(base, plenty)
		base = d.small
	}
	d.FS = faultfs.New(base, nil)
	return d
}

// over returns the file system that is given to the group, over fs. All members have one key.
func over(fs vfs.FS, encrypted bool) vfs.FS {
	if !encrypted {
		return fs
	}
	c, err := crypt.New(fs, crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}})
	if err != nil {
		panic(err) // the key is as it must be
	}
	return c
}

// set makes the disk fail, or heals it.
func (d *disk) set(f DiskFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.small != nil {
		d.small.Resize(plenty)
		if f.Small {
			used, _, _ := d.small.Usage()
			d.small.Resize(used)
		}
	}
	if f.Ops == "" {
		d.Inject(nil)
		return
	}
	ops := faultOps[f.Ops]
	var seen atomic.Int64
	d.Inject(func(op vfs.Op, name string, _ int64) error {
		if !slices.Contains(ops, op) || f.Files != "any" && fileKind(d.dir, name) != f.Files {
			return nil
		}
		if n := seen.Add(1); n <= f.Skip || f.Count > 0 && n > f.Skip+f.Count {
			return nil
		}
		d.fired.Add(1)
		if f.Slow > 0 {
			time.Sleep(f.Slow)
			return nil
		}
		err := &faultfs.Fault{Err: syscall.EIO, After: f.After}
		if f.Full {
			err = &faultfs.Fault{Err: syscall.ENOSPC, Short: rand.IntN(2) == 0}
		}
		return err
	})
}

// hits returns how many operations have failed, or have been slow.
func (d *disk) hits() int64 {
	n := d.fired.Load()
	if d.small != nil {
		_, _, refused := d.small.Usage()
		n += refused
	}
	return n
}
