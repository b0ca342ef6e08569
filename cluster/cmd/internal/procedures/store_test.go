//go:build unix

package procedures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A store of one program lives through all that the page says.
func TestStore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m, other := s.machine(1), s.machine(2)
	m.sh("mkdir /mnt/disk2; seq -f host%05g.example.org 3000 >hosts; shale -C /srv/hosts.db import hosts")
	for _, m := range []*machine{m, other} {
		m.shell = find(t, "bucket")
	}

	s.step("a checkpoint", func() {
		m.run("checkpoint")
		m.sh("shale -C /srv/hosts.db put late yes")
		m.run("restore a checkpoint")
		m.says("shale -C /srv/hosts.db count; ! shale -C /srv/hosts.db get late", "3000")
	})
	s.step("a backup to a folder", func() {
		m.run("backup to a folder")
		m.says("shale -C /srv/newest.db count", "3000")
		m.says("shale -C /srv/earlier.db count", "2000")
		m.sh("rm -r /srv/newest.db /srv/earlier.db")
	})
	s.step("a bucket", func() {
		m.command("shale-remote ship --once /srv/hosts.db $BUCKET")
		m.sh("shale -C /srv/hosts.db put late yes")
		m.command("shale-remote ship --once /srv/hosts.db $BUCKET")
		m.run("verify a bucket")
		m.run("restore a store", " --at 15m ", " --at 1ms ")
		m.says("shale -C /srv/newest.db count; shale -C /srv/earlier.db get late; shale -C /srv/exact.db count", "3001\nyes\n3000\n")
		m.run("pin")
		m.says("shale -C /srv/trial.db get late", "yes")
	})
	s.step("a lost machine", func() {
		m.sh("shale -C /srv/hosts.db put lost maybe")
		other.run("go on elsewhere")
		if out, err := m.try("shale-remote ship --once /srv/hosts.db $BUCKET"); err == nil {
			s.t.Errorf("the old machine can write:\n%s", out)
		}
		m.run("salvage")
		late, err := os.ReadFile(filepath.Join(m.root, "home/late"))
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other.root, "home/late"), late, 0o666); err != nil {
			s.t.Fatal(err)
		}
		other.command("shale /srv/hosts.db <late")
		other.says("shale -C /srv/hosts.db get lost; shale -C /srv/hosts.db count", "maybe\n3002")
	})
	s.step("a damaged bucket", func() {
		other.command("shale-remote ship --once /srv/hosts.db $BUCKET")
		other.command("shale-remote collect $BUCKET")
		other.sh("for f in $BUCKET/t/*/*.sst; do printf x | dd of=$f bs=1 seek=3 conv=notrunc status=none; done; rm -r $BUCKET/w")
		if out, err := other.try("shale-remote verify $BUCKET --deep"); err == nil || !strings.Contains(out, "DAMAGED") {
			s.t.Errorf("%v\n%s", err, out)
		}
		if out := other.finds("restore from a damaged bucket"); !strings.Contains(out, "keys saved") {
			s.t.Error(out)
		}
		other.command("shale-remote ship --once /srv/hosts.db $BUCKET-2")
		other.sh("shale-remote verify $BUCKET-2 --deep; rm -r /srv/hosts.db; shale-remote restore $BUCKET-2 /srv/hosts.db")
		other.says("shale -C /srv/hosts.db count", "3002")
	})
	s.step("a copy that takes over", func() {
		other.sh("cp -r /srv/hosts.db /srv/copy.db; shale-remote ship --once /srv/hosts.db $BUCKET-2; rm -r /srv/copy.db")
		other.sh("cp -r /srv/hosts.db /srv/copy.db; shale-remote ship --once /srv/copy.db $BUCKET-2")
		if out, err := other.try("shale-remote ship --once /srv/hosts.db $BUCKET-2"); err == nil {
			s.t.Errorf("the store goes on although a copy has taken its bucket over:\n%s", out)
		}
		other.sh("shale -C /srv/copy.db count | grep 3002")
	})
	s.step("room", func() {
		if out := other.run("free space"); !strings.Contains(out, "in all") {
			s.t.Error(out)
		}
	})
	s.step("damage", func() {
		other.sh("printf x | dd of=$(ls /srv/hosts.db/*.sst | head -1) bs=1 seek=3 conv=notrunc status=none; mkdir /mnt/disk2")
		if out := other.finds("check"); !strings.Contains(out, "entries are lost") {
			s.t.Error(out)
		}
		if out := other.finds("repair"); !strings.Contains(out, "keys saved") {
			s.t.Error(out)
		}
	})
}
