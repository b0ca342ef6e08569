package faultfs_test

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// The second write meets a full disk.
func ExampleFullFrom() {
	fs := faultfs.New(vfs.NewMem(), nil)
	f, err := fs.Create("log")
	if err != nil {
		fmt.Println(err)
		return
	}
	fs.Inject(faultfs.FullFrom(2, syscall.ENOSPC))
	for range 3 {
		n, err := f.Write([]byte("eight by"))
		fmt.Println(n, errors.Is(err, syscall.ENOSPC))
	}
	// Output:
	// 8 false
	// 4 true
	// 0 true
}
