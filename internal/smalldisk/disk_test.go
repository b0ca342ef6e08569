package smalldisk

import (
	"errors"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func (d *Disk) want(t *testing.T, what string, want int64) {
	t.Helper()
	if used, _, _ := d.Usage(); used != want {
		t.Errorf("%s: %d blocks are used, want %d", what, used, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDisk_CountsAsARealOne(t *testing.T) {
	d := New(vfs.NewMem(), 4)
	f, err := d.Create("a")
	must(t, err)
	d.want(t, "an empty file", 0)
	n, err := f.Write(make([]byte, 5*Block))
	if n != 4*Block || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write of 5 blocks = %d, %v, want 4 blocks and ENOSPC", n, err)
	}
	must(t, f.Truncate(Block+1))
	d.want(t, "cut", 2)
	if err := f.Preallocate(5 * Block); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Preallocate = %v, want ENOSPC", err)
	}
	d.want(t, "after a Preallocate that failed", 2)
	must(t, f.Preallocate(3*Block))
	d.want(t, "preallocated", 3)
	must(t, d.Link("a", "b"))
	must(t, d.Remove("a"))
	d.want(t, "linked", 3)
	must(t, d.Rename("b", "c"))
	must(t, d.Remove("c"))
	d.want(t, "open without a name", 3)
	must(t, f.Close())
	d.want(t, "gone", 0)
	if _, most, refused := d.Usage(); most != 4 || refused != 2 {
		t.Errorf("%d blocks at most, %d calls refused, want 4 and 2", most, refused)
	}
}
