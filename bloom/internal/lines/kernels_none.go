//go:build !(amd64 || arm64) || purego

package lines

func hasMany(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	hasManyGo(lines, n, k, hashes, out)
}

func hasUnits(u *Units, h uint64) bool { return hasUnitsGo(u, h) }

func addMany(lines []byte, n uint64, k uint32, hashes []uint64) { addManyGo(lines, n, k, hashes) }

func splitHas(blocks []Block, h uint64) bool                   { return splitHasGo(blocks, h) }
func splitAdd(blocks []Block, h uint64)                        { splitAddGo(blocks, h) }
func splitHasMany(blocks []Block, hashes []uint64, out []bool) { splitHasManyGo(blocks, hashes, out) }
func splitAddMany(blocks []Block, hashes []uint64)             { splitAddManyGo(blocks, hashes) }

func atomicHasMany(words, hashes []uint64, out []bool) { atomicHasManyGo(words, hashes, out) }
