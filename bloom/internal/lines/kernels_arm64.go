//go:build !purego

package lines

// Every arm64 processor has NEON.
//
//go:noescape
func hasManyNEON(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)

func hasMany(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	hasManyNEON(&lines[0], n, uint64(k), &hashes[0], len(out), &out[0])
}

func hasUnits(u *Units, h uint64) bool { return hasUnitsGo(u, h) }

func addMany(lines []byte, n uint64, k uint32, hashes []uint64) { addManyGo(lines, n, k, hashes) }

func splitHas(blocks []Block, h uint64) bool                   { return splitHasGo(blocks, h) }
func splitAdd(blocks []Block, h uint64)                        { splitAddGo(blocks, h) }
func splitHasMany(blocks []Block, hashes []uint64, out []bool) { splitHasManyGo(blocks, hashes, out) }
func splitAddMany(blocks []Block, hashes []uint64)             { splitAddManyGo(blocks, hashes) }

func atomicHasMany(words, hashes []uint64, out []bool) { atomicHasManyGo(words, hashes, out) }
