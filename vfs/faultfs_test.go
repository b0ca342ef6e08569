package vfs_test

import (
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

func init() {
	vfs.Faultless = func(fs vfs.FS) vfs.FS { return faultfs.New(fs, nil) }
}
