//go:build !purego

package lines

// What the processor has, and the system keeps when it changes between programs. A processor with
// AVX2 but without BMI2 counts as one without AVX2.
var useAVX2, useAVX512 = features()

func features() (avx2, avx512 bool) {
	const (
		osxsave = 1 << 27 // of leaf 1, cx
		avx     = 1 << 28
		bit2    = 1 << 5 // AVX2, of leaf 7, bx
		bmi2    = 1 << 8
		bit512  = 1 << 16 // AVX-512 foundation

		ymm = 0x06 // of the register xcr0: the registers that the system keeps
		zmm = 0xe6
	)
	if most, _, _, _ := cpuid(0, 0); most < 7 {
		return false, false
	}
	if _, _, c, _ := cpuid(1, 0); c&osxsave == 0 || c&avx == 0 {
		return false, false
	}
	kept := xgetbv()
	_, b, _, _ := cpuid(7, 0)
	avx2 = kept&ymm == ymm && b&bit2 != 0 && b&bmi2 != 0
	return avx2, avx2 && kept&zmm == zmm && b&bit512 != 0
}

func cpuid(leaf, sub uint32) (ax, bx, cx, dx uint32)

func xgetbv() (ax uint32)

//go:noescape
func hasUnitsAVX2(u *Units, h uint64) bool

//go:noescape
func hasManyAVX2(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)

//go:noescape
func hasManyAVX512(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)

//go:noescape
func addManyBMI2(lines *byte, n, k uint64, hashes *uint64, count int)

//go:noescape
func atomicHasManyBMI2(words *uint64, n uint64, hashes *uint64, count int, out *bool)

//go:noescape
func splitHasAVX2(blocks []Block, h uint64) bool

//go:noescape
func splitAddAVX2(blocks []Block, h uint64)

//go:noescape
func splitHasManyAVX2(blocks *Block, n uint64, hashes *uint64, count int, out *bool)

//go:noescape
func splitAddManyAVX2(blocks *Block, n uint64, hashes *uint64, count int)

// hasUnits is a variable, because a function that chooses would be called, and call the kernel: these two
// calls take as long as a quarter of the question. It has no kernel for AVX-512, which would take
// as long as the one for AVX2.
var hasUnits = chooseHasUnits()

func chooseHasUnits() func(u *Units, h uint64) bool {
	if useAVX2 {
		return hasUnitsAVX2
	}
	return hasUnitsGo
}

func hasMany(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	switch {
	case useAVX512:
		hasManyAVX512(&lines[0], n, uint64(k), &hashes[0], len(out), &out[0])
	case useAVX2:
		hasManyAVX2(&lines[0], n, uint64(k), &hashes[0], len(out), &out[0])
	default:
		hasManyGo(lines, n, k, hashes, out)
	}
}

func addMany(lines []byte, n uint64, k uint32, hashes []uint64) {
	if useAVX2 {
		addManyBMI2(&lines[0], n, uint64(k), &hashes[0], len(hashes))
		return
	}
	addManyGo(lines, n, k, hashes)
}

func atomicHasMany(words []uint64, hashes []uint64, out []bool) {
	if useAVX2 {
		atomicHasManyBMI2(&words[0], uint64(len(words)/lineWords), &hashes[0], len(out), &out[0])
		return
	}
	atomicHasManyGo(words, hashes, out)
}

// splitHas and splitAdd are variables for the same reason.
var splitHas, splitAdd = chooseSplit()

func chooseSplit() (has func(blocks []Block, h uint64) bool, add func(blocks []Block, h uint64)) {
	if useAVX2 {
		return splitHasAVX2, splitAddAVX2
	}
	return splitHasGo, splitAddGo
}

func splitHasMany(blocks []Block, hashes []uint64, out []bool) {
	if useAVX2 {
		splitHasManyAVX2(&blocks[0], uint64(len(blocks)), &hashes[0], len(out), &out[0])
		return
	}
	splitHasManyGo(blocks, hashes, out)
}

func splitAddMany(blocks []Block, hashes []uint64) {
	if useAVX2 {
		splitAddManyAVX2(&blocks[0], uint64(len(blocks)), &hashes[0], len(hashes))
		return
	}
	splitAddManyGo(blocks, hashes)
}
