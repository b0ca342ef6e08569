package lines

// A Block is a block of a split block Bloom filter, as Apache Parquet has it. A value sets one bit
// in each of the eight words.
type Block [8]uint32

// salt turns the low half of a hash into the bit of each word of a block. Part of Parquet's format.
var salt = Block{
	0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
}

// splitPlace returns the index of the block of h among n blocks. Requires: n is below 2^32.
func splitPlace(h, n uint64) uint64 { return h >> 32 * n >> 32 }

// SplitHas reports whether all bits of h are set in its block. A filter without blocks says maybe.
// Requires: there are less than 2^32 blocks.
func SplitHas(blocks []Block, h uint64) bool { return splitHas(blocks, h) }

// SplitAdd sets all bits of h in its block, if there are blocks. Requires: what SplitHas requires, and
// nobody else reads or changes the blocks.
func SplitAdd(blocks []Block, h uint64) { splitAdd(blocks, h) }

// splitHasGo is SplitHas in Go.
func splitHasGo(blocks []Block, h uint64) bool {
	return len(blocks) == 0 || blocks[splitPlace(h, uint64(len(blocks)))].hasGo(h)
}

// splitAddGo is SplitAdd in Go.
func splitAddGo(blocks []Block, h uint64) {
	if len(blocks) > 0 {
		blocks[splitPlace(h, uint64(len(blocks)))].addGo(h)
	}
}

// hasGo reports whether all bits of h are set. No branch depends on the bits.
func (b *Block) hasGo(h uint64) bool {
	x := uint32(h)
	a := b[0] >> (x * salt[0] >> 27)
	a &= b[1] >> (x * salt[1] >> 27)
	a &= b[2] >> (x * salt[2] >> 27)
	a &= b[3] >> (x * salt[3] >> 27)
	a &= b[4] >> (x * salt[4] >> 27)
	a &= b[5] >> (x * salt[5] >> 27)
	a &= b[6] >> (x * salt[6] >> 27)
	a &= b[7] >> (x * salt[7] >> 27)
	return a&1 != 0
}

// addGo sets all bits of h.
func (b *Block) addGo(h uint64) {
	x := uint32(h)
	b[0] |= 1 << (x * salt[0] >> 27)
	b[1] |= 1 << (x * salt[1] >> 27)
	b[2] |= 1 << (x * salt[2] >> 27)
	b[3] |= 1 << (x * salt[3] >> 27)
	b[4] |= 1 << (x * salt[4] >> 27)
	b[5] |= 1 << (x * salt[5] >> 27)
	b[6] |= 1 << (x * salt[6] >> 27)
	b[7] |= 1 << (x * salt[7] >> 27)
}

// SplitHasMany sets out[i] to whether all bits of hashes[i] are set in its block, for each i below
// len(out). Requires: there are 1 to 2^32 - 1 blocks, and hashes is as long as out.
func SplitHasMany(blocks []Block, hashes []uint64, out []bool) {
	_, hashes = blocks[1:], hashes[:len(out)]
	if len(out) > 0 {
		splitHasMany(blocks, hashes, out)
	}
}

// SplitAddMany sets all bits of all hashes. Requires: what SplitHasMany requires, and nobody
// else reads or changes the blocks.
func SplitAddMany(blocks []Block, hashes []uint64) {
	_ = blocks[1:]
	if len(hashes) > 0 {
		splitAddMany(blocks, hashes)
	}
}

// splitHasManyGo is SplitHasMany in Go.
func splitHasManyGo(blocks []Block, hashes []uint64, out []bool) {
	for len(out) > 0 {
		m := min(len(out), atOnce)
		touchSplit(blocks, hashes[:m])
		for i, h := range hashes[:m] {
			out[i] = blocks[splitPlace(h, uint64(len(blocks)))].hasGo(h)
		}
		hashes, out = hashes[m:], out[m:]
	}
}

// splitAddManyGo is SplitAddMany in Go.
func splitAddManyGo(blocks []Block, hashes []uint64) {
	for len(hashes) > 0 {
		m := min(len(hashes), atOnce)
		touchSplit(blocks, hashes[:m])
		for _, h := range hashes[:m] {
			blocks[splitPlace(h, uint64(len(blocks)))].addGo(h)
		}
		hashes = hashes[m:]
	}
}

// touchSplit is touch for blocks.
//
//go:noinline
func touchSplit(blocks []Block, hashes []uint64) (all uint32) {
	for _, h := range hashes {
		all |= blocks[splitPlace(h, uint64(len(blocks)))][0]
	}
	return all
}
