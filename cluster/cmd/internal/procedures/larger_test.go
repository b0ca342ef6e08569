//go:build unix

package procedures

import (
	"strings"
	"testing"
)

// A store that is larger than its disk loses one of its two places after the other, and each time what the page says helps.
func TestStore_LargerThanItsDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.machine(1)
	m.shell = find(t, "bucket")
	m.sh("for i in 1 2 3; do head -c 3000000 /dev/urandom | base64 -w 300 | sed \"s/^/$i/\" | nl -w 8 -n rz -v ${i}0000000 >part; " +
		"shale /srv/seen.db import part; shale-remote ship --once /srv/seen.db $BUCKET; done")
	want := strings.TrimSpace(m.sh("shale /srv/seen.db count"))
	// again has the store as it was when a part of it was local.
	again := func() { m.sh("rm -rf /srv/seen.db; cp -r /srv/part.db /srv/seen.db") }

	s.step("a part of it is local", func() {
		m.run("keep a part of it local", " 20GiB ", " 1MiB ")
		m.sh("cp -r /srv/seen.db /srv/part.db; cp -r $BUCKET /srv/bucket")
		for _, command := range []string{"count", "check", "repair /srv/saved.db", "backup /srv/saved.backup"} {
			if out, err := m.try("shale /srv/seen.db " + command); err == nil || !strings.Contains(out, "shale-remote hydrate") || strings.Contains(out, "damage") {
				s.t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	})
	s.step("back to one place", func() {
		if out := m.run("bring everything back"); !strings.Contains(out, "All tables are in the folder") || !strings.Contains(out, "no damage") {
			s.t.Error(out)
		}
		m.says("shale /srv/seen.db count", want)
	})
	s.step("a damaged table of the bucket", func() {
		again()
		m.sh("for f in $(ls $BUCKET/t/*/*.sst | head -1); do printf x | dd of=$f bs=1 seek=30 conv=notrunc status=none; done")
		if out := m.finds("salvage tables that only the bucket has"); !strings.Contains(out, "keys saved") {
			s.t.Error(out)
		}
	})
	s.step("a lost bucket", func() {
		again()
		m.sh("rm -r $BUCKET")
		if out := m.finds("save what is local"); !strings.Contains(out, "given up") || !strings.Contains(out, "entries are lost: from") {
			s.t.Error(out)
		}
	})
	s.step("a damaged manifest", func() {
		again()
		m.sh("cp -r /srv/bucket $BUCKET; truncate -s 40 /srv/seen.db/MANIFEST-*")
		m.run("do without a damaged manifest")
		m.says("shale /srv/newest.db count", want)
	})
}
