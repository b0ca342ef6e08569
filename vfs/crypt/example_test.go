package crypt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// A store gets a new key: files from now on by itself, and older ones by Rekey.
func ExampleFS_Rekey() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	write := func(disk vfs.FS, key string) {
		db, err := shale.Open("db", &shale.Options{FS: disk})
		check(err)
		check(db.Put([]byte(key), []byte("value")))
		check(db.Flush(context.Background()))
		check(db.Close())
	}
	base := vfs.NewMem() // a program takes vfs.Default
	older := crypt.Key{ID: 1, Secret: bytes.Repeat([]byte{1}, 32)}
	newer := crypt.Key{ID: 2, Secret: bytes.Repeat([]byte{2}, 32)}

	disk, err := crypt.New(base, crypt.Keys{older})
	check(err)
	write(disk, "a")
	disk, err = crypt.New(base, crypt.Keys{older, newer})
	check(err)
	write(disk, "b")
	uses, err := disk.Uses("db")
	check(err)
	fmt.Println("files with an older key:", len(uses[1]))

	check(disk.Rekey("db"))
	disk, err = crypt.New(base, crypt.Keys{newer})
	check(err)
	write(disk, "c")
	disk, err = crypt.New(base, crypt.Keys{older})
	check(err)
	_, err = shale.Open("db", &shale.Options{FS: disk})
	fmt.Println(errors.Is(err, crypt.ErrNoKey))
	// Output:
	// files with an older key: 1
	// true
}
