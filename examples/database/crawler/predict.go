package main

import "math"

// The layout of bloom.AtomicBlocked: a key belongs to one line of 8 words of 64
// bits, and sets two bits in three of the words.
const (
	lineBits     = 512
	wordBits     = 64
	wordsTouched = 3.0 / 8
	wordsAsked   = 3
	bitsAsked    = 2
)

// predictRate is the share of new URLs that a filter of so many lines takes for
// seen, when it holds so many keys. The keys of a line follow Poisson's law, those
// that touch a word of it the binomial one.
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

// poisson returns the chances of 0, 1, ... events, as far as they matter.
func poisson(mean float64) []float64 {
	p := []float64{math.Exp(-mean)}
	for n := 1.0; n < mean+10*math.Sqrt(mean)+20; n++ {
		p = append(p, p[len(p)-1]*mean/n)
	}
	return p
}

// binomial returns the chances that 0, 1, ..., n of n keys touch a word.
func binomial(n int, chance float64) []float64 {
	p := []float64{math.Pow(1-chance, float64(n))}
	for k := range n {
		p = append(p, p[k]*float64(n-k)/float64(k+1)*chance/(1-chance))
	}
	return p
}

// predictWrong is how many of so many new URLs, added one after the other to a
// filter of so many bytes, are taken for seen: few of the first and most of the
// last.
func predictWrong(distinct int, bytes int64) float64 {
	const steps = 100
	lines := float64(bytes) * 8 / lineBits
	sum := 0.0
	for i := range steps {
		sum += predictRate(float64(distinct)*(float64(i)+0.5)/steps, lines)
	}
	return sum / steps * float64(distinct)
}
