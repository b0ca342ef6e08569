package process

import (
	"errors"
	"os"
	"syscall"

	"github.com/shaledb/shale"
)

// A volume is mounted over the directory, where root may do that.
func init() {
	if os.Getuid() != 0 {
		return
	}
	movedWays = append(movedWays, movedWay{name: "a volume mounted over it", away: func(m *movedStore) {
		if err := syscall.Mount("shale-test", m.path("db"), "tmpfs", 0, "size=64m"); err != nil {
			m.must(m.db.Close())
			m.t.Skipf("nothing can be mounted here: %v", err)
		}
		m.t.Cleanup(func() {
			// EINVAL: it is not mounted any more.
			if err := syscall.Unmount(m.path("db"), syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
				m.t.Error(err)
			}
		})
		m.must(os.CopyFS(m.path("db"), os.DirFS(m.path("backup"))))
	}, restored: true, undo: func(m *movedStore) {
		m.must(syscall.Unmount(m.path("db"), 0))
		db, err := shale.Open(m.path("db"), m.options.Next())
		m.must(err)
		if err := m.stream.Check(db, m.acked, m.begun); err != nil {
			m.t.Errorf("the store under the volume: %v", err)
		}
		m.must(db.Close())
	}})
}
