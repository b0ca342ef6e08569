package main

import (
	"runtime/debug"

	"github.com/maypok86/otter/v2"
	"github.com/shaledb/shale/internal/cache"
)

// disk is what every block is read from.
var disk [blockSize]byte

// ours is the store's own cache.
type ours struct{ c *cache.Cache }

func newOurs() contestant { return ours{cache.New(capacity)} }

func (ours) name() string { return "shale" }

func (o ours) hit(i uint64) bool {
	b := o.c.Get(cache.Key{File: i >> 12, Offset: i << 12})
	if b == nil {
		return false
	}
	ok := b.Bytes()[i%blockSize] == disk[0]
	b.Release()
	return ok
}

func (o ours) insert(i uint64) {
	b := o.c.Alloc(blockSize)
	copy(b.Bytes(), disk[:])
	o.c.Insert(cache.Key{File: i >> 12, Offset: i << 12}, b).Release()
}

// general is Otter. Its values can't be pinned, so a block that a reader may
// look at while it is evicted can't be used again: each insert allocates, and
// the garbage collector frees.
type general struct {
	c *otter.Cache[cache.Key, []byte]
}

func newOtter() contestant {
	return general{otter.Must(&otter.Options[cache.Key, []byte]{
		MaximumWeight: capacity,
		Weigher:       func(_ cache.Key, b []byte) uint32 { return uint32(len(b)) },
	})}
}

// name has the version that the module's go.mod asks for.
func (general) name() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == "github.com/maypok86/otter/v2" {
				return "otter " + m.Version
			}
		}
	}
	return "otter"
}

func (g general) hit(i uint64) bool {
	b, ok := g.c.GetIfPresent(cache.Key{File: i >> 12, Offset: i << 12})
	return ok && b[i%blockSize] == disk[0]
}

func (g general) insert(i uint64) {
	b := make([]byte, blockSize)
	copy(b, disk[:])
	g.c.Set(cache.Key{File: i >> 12, Offset: i << 12}, b)
}
