//go:build unix

package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/vfs"
)

// Logs that are taken away, and recoveries from what logs have.

// damageLog takes a member's log away while it does not run. What the member has acknowledged is lost with it, so it
// must not start any more. It is removed then, and joins with an empty directory.
func (n *nemesis) damageLog(r *rand.Rand) {
	p := n.g.any()
	p.setWanted(false)
	p.kill()
	log := filepath.Join(p.config.Dir, "log")
	if _, err := os.Stat(filepath.Join(log, "CURRENT")); err != nil {
		p.setWanted(true) // it was killed before it had one
		return
	}
	var err error
	var what string
	switch other := n.g.any(); r.IntN(4) {
	case 0:
		what, err = "without CURRENT", os.Remove(filepath.Join(log, "CURRENT"))
	case 1:
		what, err = "emptied", errors.Join(os.RemoveAll(log), os.Mkdir(log, 0o700))
	case 2:
		if what = "of " + other.id; other == p {
			what = "gone"
		}
		err = errors.Join(os.RemoveAll(log), copyDir(filepath.Join(other.config.Dir, "log"), log))
	default:
		old := filepath.Join(n.g.root, p.id+".old")
		err = copyDir(log, old)
		p.setWanted(true)
		if !n.awaitMember(p, true) {
			return
		}
		n.sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		p.setWanted(false)
		p.kill()
		what, err = "of before", errors.Join(err, os.RemoveAll(log), copyDir(old, log), os.RemoveAll(old))
	}
	if err == nil { // its file system may be full
		p.mustNotStart(what)
	}
	n.takeAway(p)
	if n.rejoin(p) {
		n.f.damagedLogs.Add(1)
	}
}

// recover treats all members as the survivors of a lost majority: one of them goes on alone, and the others join it with
// empty directories. As the lost ones are none, nothing may be lost. Each step is done again if it fails, or for no reason.
func (n *nemesis) recover(r *rand.Rand) {
	all := n.g.all()
	for _, p := range all {
		p.setWanted(false)
	}
	for _, p := range all {
		p.kill()
		p.forgetSnapshots()
	}
	var survivors []cluster.Survivor
	o := &cluster.Options{FS: over(vfs.Default, all[0].config.Encrypted)}
	for _, p := range all {
		s, err := cluster.ReadSurvivor(p.config.Dir, o)
		if err != nil {
			n.g.fail("%v", err)
			return
		}
		survivors = append(survivors, s)
	}
	var first *process
	for _, i := range append(r.Perm(len(all)), r.Perm(len(all))...) {
		var leads bool
		var err error
		for deadline := time.Now().Add(comeBack); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if leads, err = cluster.Recover(all[i].config.Dir, survivors, o); err == nil { // its file system may be full
				break
			}
		}
		if err != nil || leads && first != nil && first != all[i] {
			n.g.fail("recover %s of %v: %v, %v", all[i].id, survivors, leads, err)
			return
		}
		if leads {
			first = all[i]
		}
	}
	first.setWanted(true)
	for _, p := range all {
		if p == first {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.config.Dir, "lost")); err != nil {
			n.g.fail("%v", err)
		}
		p.joinBy([]*process{first})
		p.setWanted(true)
	}
	for _, p := range all {
		if !n.awaitMember(p, true) {
			return
		}
		p.joinBy(all)
	}
	n.f.recoveries.Add(1)
}

// mustNotStart starts a member whose Open has to say that its log is not the one it had. The disk may have
// faults of its own meanwhile.
func (p *process) mustNotStart(what string) {
	said := func() int { return strings.Count(p.tail(1<<20), "lost what it had acknowledged") }
	before := said()
	p.mu.Lock()
	p.faulty, p.wanted = true, true
	p.mu.Unlock()
	for deadline := time.Now().Add(comeBack); said() == before && !p.g.failed.Load(); time.Sleep(20 * time.Millisecond) {
		if p.running() || time.Now().After(deadline) {
			p.g.fail("%s%s starts on a log %s, or does not say why not:\n%s", broken, p.id, what, p.tail(20))
		}
	}
	p.setWanted(false)
	p.kill()
	p.healed()
}

// copyDir copies the files of a directory, of a member that may run. There may be none.
func copyDir(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err = errors.Join(err, os.Mkdir(to, 0o700))
	for _, e := range entries {
		data, e1 := os.ReadFile(filepath.Join(from, e.Name()))
		if errors.Is(e1, os.ErrNotExist) {
			continue // removed meanwhile
		}
		err = errors.Join(err, e1, os.WriteFile(filepath.Join(to, e.Name()), data, 0o600))
	}
	return err
}
