package main

import "math"

// The layout of bloom.AtomicBlocked. A key belongs to one line of 8 words of 64 bits. It
// sets two bits in each of three words.
const (
	lineBits     = 512
	wordBits     = 64
	wordsTouched = 3.0 / 8
	wordsAsked   = 3
	bitsAsked    = 2
)

// predictRate returns the share of new URLs that a filter with this number of keys and
// lines takes for seen. The number of keys in a line has the Poisson distribution, and the
// number of those that touch a certain word the binomial one.
func predictRate(keys, lines float64) float64 {
	mean := keys / lines
	rate := 0.0
	for n, p := range poisson(mean) {
		word := 0.0
		for k, q := range binomial(n, wordsTouched) {
			set := 1 - math.Pow(1-1.0/wordBits, bitsAsked*float64(k))
			word += q * math.Pow(set, bitsAsked)
		}
		rate += p * math.Pow(word, wordsAsked)
	}
	return rate
}

// poisson returns the probabilities of 0, 1, ... events, until they are negligible.
func poisson(mean float64) []float64 {
	p := []float64{math.Exp(-mean)}
	for n := 1.0; n < mean+10*math.Sqrt(mean)+20; n++ {
		p = append(p, p[len(p)-1]*mean/n)
	}
	return p
}

// binomial returns the probabilities that 0, 1, ..., n of n keys touch a word.
func binomial(n int, chance float64) []float64 {
	p := []float64{math.Pow(1-chance, float64(n))}
	for k := range n {
		p = append(p, p[k]*float64(n-k)/float64(k+1)*chance/(1-chance))
	}
	return p
}

// predictWrong returns how many of distinct new URLs are taken for seen, if they
// are added one after the other to an empty filter of this size. The rate grows
// while the filter fills.
func predictWrong(distinct int, bytes int64) float64 {
	const steps = 100
	lines := float64(bytes) * 8 / lineBits
	sum := 0.0
	for i := range steps {
		sum += predictRate(float64(distinct)*(float64(i)+0.5)/steps, lines)
	}
	return sum / steps * float64(distinct)
}

// predictBitmapWrong is predictWrong for a bitmap: the sum of the shares of bits that are
// set, 1 - e^(-i/m) after i URLs.
func predictBitmapWrong(distinct int, bytes int64) float64 {
	n, m := float64(distinct), float64(bytes)*8
	return n - m*(1-math.Exp(-n/m))
}
