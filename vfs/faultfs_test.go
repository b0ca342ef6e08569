package vfs_test

import (
	"bytes"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
	"github.com/shaledb/shale/vfs/faultfs"
)

func init() {
	vfs.Faultless = func(fs vfs.FS) vfs.FS { return faultfs.New(fs, nil) }
	vfs.Encrypted = func(fs vfs.FS) vfs.FS {
		c, err := crypt.New(fs, crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}})
		if err != nil {
			panic(err) // the key is as it must be
		}
		return c
	}
}
