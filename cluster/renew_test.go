package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A member whose log is damaged, gone or shorter than what it had acknowledged comes back by itself as
// a new member, and only if there is somebody to ask.
func TestRenew_LostLog(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, m *testMember, earlier *vfs.Mem){
		"damaged": func(t *testing.T, m *testMember, _ *vfs.Mem) {
			for _, name := range logFiles(t, m.opts.FS, m.dir) {
				f, err := m.opts.FS.OpenReadWrite(name)
				if err != nil {
					t.Fatal(err)
				}
				size, err := f.Size()
				for at := size / 8; err == nil && at < size; at += max(size/8, 1) {
					_, err = f.WriteAt([]byte("damage"), at)
				}
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
		},
		"gone": func(t *testing.T, m *testMember, _ *vfs.Mem) {
			if err := removeTree(m.opts.FS, m.dir+"/log"); err != nil {
				t.Fatal(err)
			}
		},
		"marked": func(t *testing.T, m *testMember, _ *vfs.Mem) {
			if err := writeWhole(m.opts.FS, m.dir+"/"+damagedMark, nil); err != nil {
				t.Fatal(err)
			}
		},
		"of an earlier time": func(t *testing.T, m *testMember, earlier *vfs.Mem) {
			err := errors.Join(removeTree(m.opts.FS, m.dir+"/log"), m.opts.FS.MkdirAll(m.dir+"/log"))
			for _, name := range logFiles(t, earlier, m.dir) {
				data, e := readWhole(earlier, name)
				err = errors.Join(err, e, writeWhole(m.opts.FS, name, data))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 3, nil)
			earlier := map[*testMember]*vfs.Mem{}
			for _, m := range g.members {
				earlier[m] = m.opts.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
			}
			for range 20 {
				g.write("k", "v")
			}
			g.agree()
			var m *testMember
			for _, f := range g.members[1:] {
				if !f.IsLeader() {
					m = f
				}
			}
			old := m.server
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			damage(t, m, earlier[m])
			join := m.opts.Join
			m.opts.Join = nil
			if _, err := Open(m.dir, &m.opts); err == nil || !renews(err) || !strings.Contains(err.Error(), "Options.Join") {
				t.Errorf("Open with nobody to ask: %v", err)
			}
			for _, other := range g.members {
				if other != m {
					join = append(join, other.opts.Listen)
				}
			}
			m.opts.Join = join
			g.open(m)
			g.waitVoters(3)
			g.agree()
			if m.server == old {
				t.Error("it has its old name")
			}
			for _, s := range g.leader().raft().GetConfiguration().Configuration().Servers {
				if s.ID == old {
					t.Error("the old name is a member")
				}
			}
			if names, err := m.opts.FS.List(m.dir + "/lost"); len(names) != 1 || err != nil {
				t.Errorf("lost = %v, %v", names, err)
			}
			if err := m.Close(); err != nil { // each start after that succeeds
				t.Fatal(err)
			}
			m.opts.Join = nil
			g.open(m)
			g.agree()
		})
	}
}

// logFiles returns the files of a member's log.
func logFiles(t *testing.T, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	all, err := fsys.List(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		names = append(names, dir+"/log/"+name)
	}
	return names
}
