//go:build !purego

package lines

import "testing"

func lesserKernels() (all []kernel) {
	if useAVX2 && useAVX512 {
		all = append(all, kernel{"avx2", hasUnits, func(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
			hasManyAVX2(&lines[0], n, uint64(k), &hashes[0], len(out), &out[0])
		}, addMany, atomicHasMany, splitHas, splitAdd, splitHasMany, splitAddMany})
	}
	return all
}

// Without vector instructions the package chooses the functions in Go.
func TestChoice(t *testing.T) {
	if useAVX512 && !useAVX2 {
		t.Error("AVX-512 without AVX2")
	}
	was2, was512 := useAVX2, useAVX512
	defer func() {
		useAVX2, useAVX512 = was2, was512
		choose()
	}()
	useAVX2, useAVX512 = false, false
	choose()
	testHasMany(t, kernels()[1])
	testAddMany(t, kernels()[1])
	testAtomic(t, kernels()[1])
	testSplit(t, kernels()[1])
}

func choose() {
	hasUnits = chooseHasUnits()
	splitHas, splitAdd = chooseSplit()
}
