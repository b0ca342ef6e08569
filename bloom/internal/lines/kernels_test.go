package lines

// A kernel is one way to do what the package does.
type kernel struct {
	name         string
	has          func(u *Units, h uint64) bool
	hasMany      func(lines []byte, n uint64, k uint32, hashes []uint64, out []bool)
	addMany      func(lines []byte, n uint64, k uint32, hashes []uint64)
	atomic       func(words, hashes []uint64, out []bool)
	splitHas     func(blocks []Block, h uint64) bool
	splitAdd     func(blocks []Block, h uint64)
	splitHasMany func(blocks []Block, hashes []uint64, out []bool)
	splitAddMany func(blocks []Block, hashes []uint64)
}

// kernels returns all ways that this machine knows: the functions in Go, those that the package has
// chosen, and those that it would choose on a lesser machine.
func kernels() []kernel {
	return append([]kernel{
		{"go", hasUnitsGo, hasManyGo, addManyGo, atomicHasManyGo, splitHasGo, splitAddGo, splitHasManyGo, splitAddManyGo},
		{"chosen", hasUnits, hasMany, addMany, atomicHasMany, splitHas, splitAdd, splitHasMany, splitAddMany},
	}, lesserKernels()...)
}
