package vfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// CrashPolicy says what a crash does to written data that was not synced.
// Synced data is never touched.
type CrashPolicy int

const (
	// DropAll loses it all, and the growth of files too.
	DropAll CrashPolicy = iota
	// KeepAll keeps it all.
	KeepAll
	// Sectors keeps each 512-byte sector or not, and one of the sizes that
	// the file had: the system writes pages back in any order.
	Sectors
	// OrderedPrefix keeps the first so many writes, and a part of the next.
	OrderedPrefix
	// GrownZeros keeps the size only: new bytes are zeros.
	GrownZeros
	// GrownGarbage keeps the size only: new bytes are what the disk had there.
	GrownGarbage
	numCrashPolicies
)

// NamePolicy says what a crash does to creations, renames, links and removals
// that SyncDir has not made durable. A rename happens wholly or not at all.
type NamePolicy int

const (
	// NamesDrop loses them all: a synced file vanishes, or is found under the
	// name that it had before.
	NamesDrop NamePolicy = iota
	// NamesKeep keeps them all.
	NamesKeep
	// NamesPrefix keeps the first so many.
	NamesPrefix
	// NamesSubset keeps each or not; with one, all earlier ones of its names.
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

// CrashConfig chooses one of the states in which a machine may find its disk.
// The same Mem, config and seed give the same state.
type CrashConfig struct {
	Policy CrashPolicy
	Names  NamePolicy
	// Journal makes a file's sync keep all earlier changes of names, as ext4
	// and xfs do. Without it only SyncDir does: the rule of POSIX.
	Journal bool
	Seed    uint64
}

// String returns the config as tests print it.
func (c CrashConfig) String() string {
	rule := ""
	if c.Journal {
		rule = "+Journal"
	}
	return fmt.Sprintf("%v+%v%s seed=%d", c.Policy, c.Names, rule, c.Seed)
}

// CrashConfigs returns each pair of policies once, with the seed.
func CrashConfigs(seed uint64) []CrashConfig {
	var all []CrashConfig
	for p := range numCrashPolicies {
		for n := range numNamePolicies {
			all = append(all, CrashConfig{Policy: p, Names: n, Seed: seed})
		}
	}
	return all
}

// rand returns the chances for one part of the file system, so that they do
// not depend on the order in which parts are looked at.
func (c CrashConfig) rand(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, part))
}

// crash returns the file as it is found after a crash.
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

// crashSectors takes any of the sizes for it: a size is metadata, which is
// written apart from the bytes.
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

// dirtySectors returns the sectors with unsynced changes, in order.
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

// keepSectors copies those sectors from data that keep says yes to.
func (c *content) keepSectors(data *content, sectors []int64, keep func() bool) {
	for _, s := range sectors {
		if keep() {
			c.copyFrom(data, s*sectorSize, (s+1)*sectorSize)
		}
	}
}

// crashPrefix tears between sectors half of the time and between any two bytes
// else: a page may be on its way to the disk while it is written to.
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

// crashGrown fills what the file has grown by with bytes of r.
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

// crash knows no order of writes: OrderedPrefix is the first so many sectors.
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
