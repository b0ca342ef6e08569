package buckettest_test

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

func TestMem(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return remote.NewMem() })
}

func TestDir(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return newDir(t, vfs.Default, testenv.QuickDir(t)) })
}

func TestDir_InMemory(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return newDir(t, vfs.NewMem(), "bucket") })
}

// TestFaulty_WithoutFaults checks that nothing but the faults makes a difference.
func TestFaulty_WithoutFaults(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket {
		return buckettest.NewFaulty(remote.NewMem(), 0, buckettest.BySeed(1, nil))
	})
}

func newDir(t *testing.T, fsys vfs.FS, dir string) remote.Bucket {
	t.Helper()
	b, err := remote.NewDir(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
