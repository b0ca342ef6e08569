package blobloom

import "math"

// maxBitsPerKey is where sizes gives up: at a key a block, and the rate 1/patterns.
const maxBitsPerKey = 512

// sizes returns the fewest blocks with which n keys have at most the false positive rate p,
// and the number of hashes then. It returns 0 blocks if there are none.
func sizes(n uint64, p float64) (blocks uint64, hashes int) {
	// A classic filter needs fewer bits than a blocked one. So low is too few.
	low := math.Floor(float64(n) * -math.Log(p) / (math.Ln2 * math.Ln2) / BlockBits)
	high := low + 1
	for {
		rate, _ := bestHashes(float64(n), high)
		if rate <= p {
			break
		}
		if low = high; high*BlockBits > float64(n)*maxBitsPerKey+BlockBits || high > maxBlocks {
			return 0, 0
		}
		high *= 2
	}
	for high-low > 1 {
		mid := low + math.Floor((high-low)/2)
		if rate, _ := bestHashes(float64(n), mid); rate > p {
			low = mid
		} else {
			high = mid
		}
	}
	_, hashes = bestHashes(float64(n), high)
	return uint64(high), hashes
}

// bestHashes returns the number of hashes with the lowest false positive rate, and the rate.
func bestHashes(n, blocks float64) (rate float64, hashes int) {
	rate = 1
	// In a classic filter more bits a key than this raise the rate, and even more so here.
	most := min(40, math.Ceil(blocks*BlockBits/n*math.Ln2)+1)
	for bits := 1.0; bits <= most; bits++ {
		if r := rateOf(n, blocks, bits); r < rate {
			rate, hashes = r, int(bits)+1
		}
	}
	return rate, hashes
}

// patterns is how many different sets of bits keys can have in a block. Enhanced double
// hashing modulo 512 depends on 9 bits of each half of the hash, whatever the number of bits.
const patterns = BlockBits * BlockBits

// rateOf returns the false positive rate of n keys in a number of blocks, if each key sets
// bits of one block. The number of keys in a block has a Poisson distribution (Putze,
// Sanders and Singler 2010). To that comes the chance to have the same bits as a key of the
// block, which is what remains if there are many bits.
func rateOf(n, blocks, bits float64) float64 {
	mean := n / blocks
	if mean > 4*BlockBits {
		return 1
	}
	// Behind ten standard deviations the rest is nothing.
	spread := 10*math.Sqrt(mean) + 10
	sum := mean / patterns
	for j := math.Max(0, math.Floor(mean-spread)); j <= mean+spread; j++ {
		lgamma, _ := math.Lgamma(j + 1)
		ones := -math.Expm1(bits * j * math.Log1p(-1.0/BlockBits))
		sum += math.Exp(j*math.Log(mean)-mean-lgamma) * math.Pow(ones, bits)
	}
	return min(sum, 1)
}
