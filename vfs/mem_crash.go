package vfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// sectorSize is the number of bytes that a disk writes completely or not at all.
const sectorSize = 512

// A CrashPolicy says what a crash does to data that was
// written and not synced. Synced data is never changed.
type CrashPolicy int

const (
	// DropAll loses all of it, also the growth of files.
	DropAll CrashPolicy = iota
	// KeepAll keeps all of it.
	KeepAll
	// Sectors keeps or loses each sector of 512 bytes by chance, and takes one of
	// the sizes that the file had, because the system writes pages in any order.
	Sectors
	// OrderedPrefix keeps a number of writes, the oldest, and a part of the next one.
	OrderedPrefix
	// GrownZeros keeps only the size. New bytes are zeros.
	GrownZeros
	// GrownGarbage keeps only the size. New bytes have
	// arbitrary values, as if the disk had them there before.
	GrownGarbage
	numCrashPolicies
)

// A NamePolicy says what a crash does to creations, renames, links and removals
// that SyncDir has not made durable. A rename happens completely or not at all.
type NamePolicy int

const (
	// NamesDrop loses all of them. So a synced file
	// is gone, or has the name that it had before.
	NamesDrop NamePolicy = iota
	// NamesKeep keeps all of them.
	NamesKeep
	// NamesPrefix keeps a number of them, the oldest.
	NamesPrefix
	// NamesSubset keeps or loses each of them by chance. If one
	// is kept, all earlier changes of its names are kept, too.
	NamesSubset
	numNamePolicies
)

var (
	crashPolicyNames = [numCrashPolicies]string{"DropAll", "KeepAll", "Sectors", "OrderedPrefix", "GrownZeros", "GrownGarbage"}
	namePolicyNames  = [numNamePolicies]string{"NamesDrop", "NamesKeep", "NamesPrefix", "NamesSubset"}
)

// String returns the name of the constant.
func (p CrashPolicy) String() string {
	if p < 0 || p >= numCrashPolicies {
		return fmt.Sprintf("CrashPolicy(%d)", int(p))
	}
	return crashPolicyNames[p]
}

// String returns the name of the constant.
func (p NamePolicy) String() string {
	if p < 0 || p >= numNamePolicies {
		return fmt.Sprintf("NamePolicy(%d)", int(p))
	}
	return namePolicyNames[p]
}

// A CrashConfig chooses one of the states in which a machine may find its
// disk after a crash. The same Mem and the same config give the same state.
type CrashConfig struct {
	Policy CrashPolicy // what happens to data that was not synced
	Names  NamePolicy  // what happens to changes of names that SyncDir has not made durable
	// Journal makes each Sync of a file keep all earlier changes of names, as ext4
	// and xfs do. Without it only SyncDir does so, which is the rule of POSIX.
	Journal bool
	Seed    uint64 // of all that is left to chance
}

// String returns the config in the form that tests print.
func (c CrashConfig) String() string {
	rule := ""
	if c.Journal {
		rule = "+Journal"
	}
	return fmt.Sprintf("%v+%v%s seed=%d", c.Policy, c.Names, rule, c.Seed)
}

// CrashConfigs returns a config with this seed for each pair of policies, without Journal.
func CrashConfigs(seed uint64) []CrashConfig {
	var all []CrashConfig
	for p := range numCrashPolicies {
		for n := range numNamePolicies {
			all = append(all, CrashConfig{Policy: p, Names: n, Seed: seed})
		}
	}
	return all
}

// rand returns a generator for one part of the file system. Each part has its
// own, so the result does not depend on the order in which the parts are visited.
func (c CrashConfig) rand(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, part))
}

// crash returns the contents of the file after a crash.
func (n *inode) crash(c CrashConfig) content {
	if n.lost != nil {
		return n.lost.crash(&n.data, c.Policy, c.rand(n.id))
	}
	if len(n.undo) == 0 || c.Policy == KeepAll {
		return n.data.share()
	}
	switch c.Policy {
	case Sectors:
		return n.crashSectors(c.rand(n.id))
	case OrderedPrefix:
		return n.crashPrefix(c.rand(n.id))
	case GrownZeros:
		return n.crashGrown(nil)
	case GrownGarbage:
		return n.crashGrown(c.rand(n.id))
	}
	return n.durable()
}

// crashSectors keeps some sectors, and takes the current size or one of the earlier
// sizes: the size is metadata, which the system writes separately from the bytes.
func (n *inode) crashSectors(r *rand.Rand) content {
	size := n.data.size
	if r.IntN(2) == 0 {
		size = n.undo[r.IntN(len(n.undo))].size
	}
	c := n.durable()
	c.keepSectors(&n.data, n.dirtySectors(), func() bool { return r.IntN(2) == 0 })
	c.resize(size)
	return c
}

// dirtySectors returns the numbers of the sectors with unsynced changes, ascending.
func (n *inode) dirtySectors() []int64 {
	var all []int64
	for i := range n.undo {
		u := &n.undo[i]
		for s := u.off / sectorSize; s*sectorSize < u.off+u.n; s++ {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keepSectors copies the sectors for which keep returns true from data.
func (c *content) keepSectors(data *content, sectors []int64, keep func() bool) {
	for _, s := range sectors {
		if keep() {
			c.copyFrom(data, s*sectorSize, (s+1)*sectorSize)
		}
	}
}

// crashPrefix keeps a number of changes and a part of the next one. Half
// of the time that part ends at the bound of a sector, otherwise
// anywhere: a page may be on its way to the disk while it is written to.
func (n *inode) crashPrefix(r *rand.Rand) content {
	k := r.IntN(len(n.undo) + 1)
	if k == len(n.undo) {
		return n.data.share()
	}
	c, torn := n.at(k+1), &n.undo[k]
	var keep int64
	if torn.n > 0 {
		keep = r.Int64N(torn.n + 1)
	}
	if r.IntN(2) == 0 {
		keep = max(0, (torn.off+keep)/sectorSize*sectorSize-torn.off)
	}
	torn.takeBack(&c, keep)
	return c
}

// crashGrown keeps the size, and fills the new bytes
// with values of r, or with zeros if r is nil.
func (n *inode) crashGrown(r *rand.Rand) content {
	c := n.durable()
	old := c.size
	if n.data.size <= old {
		return c
	}
	c.resize(n.data.size)
	if r == nil {
		return c
	}
	var buf [sectorSize]byte
	for off := old; off < c.size; off += sectorSize {
		for i := range buf {
			buf[i] = byte(r.Uint32())
		}
		c.writeAt(buf[:min(sectorSize, c.size-off)], off)
	}
	return c
}

// crash returns the contents of the file after a crash. A lostSync does not know the
// order of writes, so OrderedPrefix keeps a number of sectors from the beginning.
func (l *lostSync) crash(data *content, p CrashPolicy, r *rand.Rand) content {
	c, sectors := l.disk.share(), l.sectors()
	switch p {
	case KeepAll:
		c.keepSectors(data, sectors, func() bool { return true })
		c.resize(data.size)
	case Sectors:
		c.keepSectors(data, sectors, func() bool { return r.IntN(2) == 0 })
		c.resize(data.size)
	case OrderedPrefix:
		c.keepSectors(data, sectors[:r.IntN(len(sectors)+1)], func() bool { return true })
		c.resize(data.size)
	}
	return c
}
