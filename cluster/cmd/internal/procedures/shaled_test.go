//go:build unix

package procedures

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A group is three machines with a member each, and one that keeps the key of the authority.
type group struct {
	*site
	a, b, c, office *machine
}

const backups = "s3://s3.eu-central-1.amazonaws.com/backups/group"

// newMember makes a machine ready for a member.
func (s *site) newMember(n int) *machine {
	s.t.Helper()
	m := s.machine(n)
	m.run("folders")
	m.file("/etc/systemd/system/shaled.service")
	return m
}

// newGroup makes a group as the page says.
func newGroup(t *testing.T) *group {
	s := newSite(t)
	g := &group{s, s.newMember(1), s.newMember(2), s.newMember(3), s.machine(9)}
	g.office.run("secrets")
	g.a.run("first member")
	g.a.waitFor("group members", "leads")
	g.a.run("write")
	g.b.run("other member")
	g.c.run("other member", "ID=b", "ID=c", "ADDRESS=10.0.0.2", "ADDRESS=10.0.0.3")
	g.a.waitVotes(3)
	return g
}

// waitVotes waits until the machine sees a leader and n members with a vote.
func (m *machine) waitVotes(n int) {
	m.t.Helper()
	m.waitFor(`group members | awk '$3 == "yes" { n++ } $4 == "leads" { l = "a leader" } END { print l ", votes " n+0 }'`, fmt.Sprint("a leader, votes ", n))
}

// waitHealthy waits until the member on the machine serves and knows a leader.
func (m *machine) waitHealthy() {
	m.t.Helper()
	m.waitFor("curl -sf --cacert /etc/shaled/ca.crt https://"+m.address+":8380/health", "true")
}

// redis is redis-cli for member a of the group, or for another.
func redis(member int, command string) string {
	return fmt.Sprintf("REDISCLI_AUTH=$(cat /etc/shaled/password) redis-cli --tls --cacert /etc/shaled/ca.crt -h 10.0.0.%d -p 6380 %s", member, command)
}

// A group lives through all that the page says.
func TestShaled(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	d := g.newMember(4)

	g.step("a backup", func() {
		for _, m := range []*machine{g.a, g.b} {
			m.run("backup")
			m.waitFor("journalctl -u shaled", "backup to")
			m.waitHealthy()
		}
		g.a.waitVotes(3)
		g.a.says(redis(2, "SET color red"), "OK")
		g.chooseBucket("a-*")
		g.a.waitFor("shale-remote verify "+backups+"/"+bucketOfPage, "Everything is there")
		if out := g.a.run("verify"); !strings.Contains(out, "No damage") {
			g.t.Errorf("verify: %s", out)
		}
	})
	g.step("watching", func() {
		out := g.a.run("watch")
		page, err := os.ReadFile(root + "/docs/SHALED.md")
		if err != nil {
			g.t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(shaled_[a-z_]*)`").FindAllStringSubmatch(string(page), -1) {
			if !strings.Contains(out, "\n"+name[1]+" ") {
				g.t.Errorf("there is no metric %s", name[1])
			}
		}
	})
	g.step("a member is down", func() {
		g.a.run("member is down")
		g.b.says(redis(2, "SET color green"), "OK")
		g.a.waitFor(redis(1, "GET color"), "green")
	})
	g.step("a lost log, and a lost disk", func() {
		for _, lost := range []string{"log", "*"} {
			g.b.sh("systemctl stop shaled; rm -r /var/lib/shaled/" + lost + "; : >$MACHINE/run/log; systemctl start shaled")
			g.b.waitFor("journalctl -u shaled", map[string]string{"log": "lost what it had acknowledged", "*": "another member b"}[lost])
			g.b.run("put aside")
			g.a.command("group leave b")
			g.b.command("systemctl start shaled")
			g.a.waitVotes(3)
			g.b.waitFor(redis(2, "GET color"), "green")
			g.b.sh("rm -r /var/lib/shaled.old")
		}
	})
	g.step("the first member's lost disk makes no second group", func() {
		g.a.sh("systemctl stop shaled; rm -r /var/lib/shaled/*; : >$MACHINE/run/log; systemctl start shaled")
		g.a.waitFor("journalctl -u shaled", "another")
		g.a.run("put aside")
		g.b.sh("group leave a")
		g.a.command("systemctl start shaled")
		g.b.waitVotes(3)
		g.a.waitFor(redis(1, "GET color"), "green")
		g.a.sh("rm -r /var/lib/shaled.old")
	})
	g.step("a full disk", func() {
		folder := g.c.path("/var/lib/shaled")
		g.c.sh("systemctl stop shaled")
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", folder).CombinedOutput(); err != nil {
			g.t.Logf("the disk is not filled, since nothing can be mounted here: %v %s", err, out)
			g.c.run("full disk")
			g.c.sh("systemctl start shaled")
			return
		}
		defer func() { _ = exec.Command("umount", "-l", folder).Run() }() // it may be unmounted
		g.fillDisk(g.c)
	})
	g.step("damage", func() {
		g.a.sh("for i in $(seq 200); do echo SET key$i value$i; done | " + redis(1, "") + " >/dev/null")
		g.b.waitFor(redis(2, "GET key200"), "value200")
		g.b.sh(`systemctl stop shaled
			shale -C "$(ls -d /var/lib/shaled/state-? | tail -1)" flush
			for f in /var/lib/shaled/state-*/*.sst; do printf x | dd of=$f bs=1 seek=3 conv=notrunc status=none; done
			systemctl start shaled`)
		g.b.waitFor(redis(2, "DBSIZE"), "the store")
		g.b.command("systemctl restart shaled")
		g.b.waitFor(redis(2, "GET key100"), "value100")
		g.b.says(redis(2, "DBSIZE"), strings.TrimSpace(g.a.sh(redis(1, "DBSIZE"))))
	})
	g.step("another bucket", func() {
		g.a.run("another bucket")
		g.a.waitHealthy()
		g.a.says(redis(1, "SET color blue"), "OK")
		g.chooseBucket("a-*")
		g.a.waitFor("shale-remote verify "+backups+"/"+bucketOfPage, "Everything is there")
	})
	g.step("a fourth member", func() {
		g.office.run("secrets", "a=10.0.0.1 b=10.0.0.2 c=10.0.0.3", "d=10.0.0.4")
		d.run("other member", "ID=b", "ID=d", "ADDRESS=10.0.0.2", "ADDRESS=10.0.0.4")
		g.a.waitVotes(4)
	})
	g.step("a lost majority", func() { g.loseMajority(d) })
	g.step("changes", func() {
		g.a.command("group leave c")
		g.c.command("systemctl disable --now shaled")
		g.a.waitVotes(3)
		for i, m := range []*machine{g.a, g.b, d} {
			m.sh("cp /usr/local/bin/shaled .")
			m.run("upgrade", "10.0.0.1:", []string{"10.0.0.1:", "10.0.0.2:", "10.0.0.4:"}[i])
		}
		g.a.command("group transfer b")
	})
	g.step("a restore", func() {
		g.a.says(redis(2, "SET color yellow"), "OK")
		g.a.waitFor(redis(1, "GET color"), "yellow") // so that its own state has it
		g.a.waitFor("group members | grep '^a'", "has all writes")
		g.chooseBucket("a-*")
		for _, m := range []*machine{g.a, g.b, d} {
			m.run("put aside")
		}
		if out := g.a.run("restore", " --at 15m", ""); !strings.Contains(out, g.bucket+" ") && !strings.Contains(out, g.bucket+"\n") {
			g.t.Errorf("the list of backups lacks %s:\n%s", g.bucket, out)
		}
		g.a.waitFor("group members", "leads")
		for _, m := range []*machine{g.b, d} {
			m.sh("systemctl start shaled")
		}
		g.a.waitVotes(3)
		g.b.waitFor(redis(2, "GET color"), "yellow")
	})
}

// chooseBucket makes the newest bucket of a state, whose member's folder of backups is like pattern, the one that
// blocks mean.
func (g *group) chooseBucket(pattern string) {
	g.t.Helper()
	found, err := filepath.Glob(g.a.path(backups) + "/" + pattern + "/state-*")
	if err != nil || len(found) == 0 {
		g.t.Fatalf("backups: %q, %v", found, err)
	}
	made := func(dir string) time.Time {
		info, err := os.Stat(filepath.Join(dir, "id"))
		if err != nil {
			return time.Time{} // it is just being made
		}
		return info.ModTime()
	}
	last := slices.MaxFunc(found, func(a, b string) int { return made(a).Compare(made(b)) })
	g.bucket = filepath.Base(filepath.Dir(last)) + "/" + filepath.Base(last)
}

// fillDisk fills the small disk that was mounted over a member's folder, and makes room again.
func (g *group) fillDisk(m *machine) {
	g.t.Helper()
	g.a.command("group leave c")
	m.sh("mkdir -p /var/lib/shaled/lost; : >$MACHINE/run/log; systemctl start shaled")
	g.a.waitVotes(3)
	m.sh("head -c 149m /dev/zero >/var/lib/shaled/lost/fill 2>/dev/null || :")
	g.a.sh("for i in $(seq 10); do head -c 1000000 /dev/urandom | base64 -w0 | " + redis(1, "-x SET large$i") + "; done >/dev/null")
	m.waitFor("journalctl -u shaled", "no space left on device")
	m.run("full disk")
	m.waitFor(redis(3, "STRLEN large10"), "1333336")
	m.sh("systemctl stop shaled")
	if out, err := exec.Command("umount", m.path("/var/lib/shaled")).CombinedOutput(); err != nil {
		g.t.Fatalf("%v %s", err, out)
	}
	g.a.command("group leave c")
	m.sh("rm -rf /var/lib/shaled/*; systemctl start shaled")
	g.a.waitVotes(3)
}

// loseMajority loses members c and d of four for good. The other two go on.
func (g *group) loseMajority(d *machine) {
	g.t.Helper()
	for _, m := range []*machine{g.c, d} {
		m.sh("systemctl kill -s KILL shaled; systemctl stop shaled; rm -r /var/lib/shaled/*")
	}
	survivors := []*machine{g.a, g.b}
	var names []string
	for _, m := range survivors {
		name := regexp.MustCompile(`[ab]/[0-9a-f]{16}:\S+`).FindString(m.run("how far is it"))
		names = append(names, name)
	}
	lead, other := g.a, g.b
	for i, m := range survivors {
		if out := m.run("recover", "NAME,NAME", strings.Join(names, ",")); strings.Contains(out, "it goes on") {
			lead, other = survivors[i], survivors[1-i]
		}
	}
	lead.command("systemctl start shaled")
	lead.waitVotes(1)
	other.command("systemctl start shaled")
	lead.waitVotes(2)
	for _, m := range []*machine{g.c, d} {
		m.command("systemctl start shaled")
	}
	lead.waitVotes(4)
	d.waitFor(redis(4, "GET color"), "blue")
}

// The demonstration on one machine.
func TestShaled_TryIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	port := 15000 + os.Getpid()%400*30 // another run of this test next to this one has others
	out, err := script(t.Context(), top, inPages(t, "cluster/cmd/shaled/three.sh"), fmt.Sprintf("PORT=%d", port), "TMPDIR="+s.dir)
	if err != nil || !strings.Contains(out, "comes back, and has what was written meanwhile") {
		t.Errorf("%v\n%s", err, out)
	}
}
