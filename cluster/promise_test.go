package cluster

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// copyLog puts the log of one member's directory in the place of another's.
func copyLog(t testing.TB, from vfs.FS, fromDir string, to vfs.FS, toDir string) {
	t.Helper()
	err := errors.Join(removeTree(to, filepath.Join(toDir, logDir)), to.MkdirAll(filepath.Join(toDir, logDir)))
	names, e := from.List(filepath.Join(fromDir, logDir))
	if !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	for _, name := range names {
		data, e := readWhole(from, filepath.Join(fromDir, logDir, name))
		err = errors.Join(err, e, durable.Write(to, filepath.Join(toDir, logDir, name), data))
	}
	mustNil(t, err)
}

// A member does not start on a log that is not the one it had last, and nothing of it is changed. It comes back by the
// documented procedure.
func TestOpen_LostLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		closed bool // the member was closed in an orderly way, and has not lost its power
		damage func(t *testing.T, m, other *testMember, earlier *vfs.Mem)
	}{
		{"damaged", true, func(t *testing.T, m, _ *testMember, _ *vfs.Mem) {
			names, err := m.opts.FS.List(m.dir + "/log")
			for _, name := range names {
				err = errors.Join(err, durable.Write(m.opts.FS, m.dir+"/log/"+name, []byte("damage")))
			}
			mustNil(t, err)
		}},
		{"gone", false, func(t *testing.T, m, _ *testMember, _ *vfs.Mem) {
			mustNil(t, removeTree(m.opts.FS, m.dir+"/log"))
		}},
		{"empty, as the folder where a disk is not mounted", false, func(t *testing.T, m, _ *testMember, _ *vfs.Mem) {
			copyLog(t, vfs.NewMem(), m.dir, m.opts.FS, m.dir)
		}},
		{"another member's", false, func(t *testing.T, m, other *testMember, _ *vfs.Mem) {
			copyLog(t, other.opts.FS, other.dir, m.opts.FS, m.dir)
		}},
		{"of before the last start, and the state is gone", false, func(t *testing.T, m, _ *testMember, earlier *vfs.Mem) {
			copyLog(t, earlier, m.dir, m.opts.FS, m.dir)
			mustNil(t, errors.Join(removeTree(m.opts.FS, m.dir+"/state-1"), removeTree(m.opts.FS, m.dir+"/snapshots")))
		}},
		{"of this life, and the state is gone", true, func(t *testing.T, m, _ *testMember, earlier *vfs.Mem) {
			copyLog(t, earlier, m.dir, m.opts.FS, m.dir)
			mustNil(t, errors.Join(removeTree(m.opts.FS, m.dir+"/state-1"), removeTree(m.opts.FS, m.dir+"/snapshots")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, 3, nil)
			m, other := g.members[1], g.members[2]
			g.write("k", "v")
			g.agree()
			earlier := m.opts.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
			if !c.closed {
				mustNil(t, m.Close())
				g.open(m)
			}
			for range 20 {
				g.write("k", "v")
			}
			g.agree()
			disk := m.opts.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
			mustNil(t, m.Close())
			if !c.closed {
				m.opts.FS = disk
			}
			c.damage(t, m, other, earlier)
			before := files(t, m.opts.FS, m.dir)
			for range 2 {
				if n, err := Open(m.dir, &m.opts); !errors.Is(err, ErrLost) {
					t.Fatalf("Open = %v, %v, want ErrLost", n, err)
				}
			}
			for name := range before {
				if _, err := m.opts.FS.Stat(name); err != nil && !strings.Contains(name, "/log/") {
					t.Errorf("after Open: %v", err)
				}
			}
			g.remove(m.opts.ID)
			m.opts.FS = vfs.NewMem()
			m.opts.Join = []string{g.members[0].opts.Listen, other.opts.Listen}
			g.open(m)
			g.waitVoters(3)
			g.agree()
		})
	}
}
