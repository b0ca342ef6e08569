package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// A generator is a log of made-up visits. In the busiest hour of a day, the evening, there
// are about as many visitors as the window is made for, and at night a tenth of them. Most
// visits are of a crowd of regulars, some of whom come very often, and a third are of
// visitors who come once.
type generator struct {
	rng    *rand.Rand
	at     time.Time
	end    time.Time
	hourly float64 // visits in the busiest hour
	rest   []byte  // of the current line
	once   int     // visitors who came once
}

// newGenerator returns a log of so many hours.
func newGenerator(hours int, hourly, seed uint64) io.Reader {
	start := time.Date(2031, 11, 21, 0, 0, 0, 0, time.UTC)
	return &generator{
		rng: rand.New(rand.NewPCG(seed, 0)), at: start, end: start.Add(time.Duration(hours) * time.Hour),
		hourly: float64(hourly) * 1.1, // a regular comes more than once
	}
}

// Read reads a part of the log: see io.Reader.
func (g *generator) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(g.rest) == 0 && !g.next() {
			return n, io.EOF
		}
		c := copy(p[n:], g.rest)
		g.rest = g.rest[c:]
		n += c
	}
	return n, nil
}

// next makes the next line. It returns false at the end of the log.
func (g *generator) next() bool {
	hour := float64(g.at.Hour()) + float64(g.at.Minute())/60
	perHour := g.hourly * (0.55 - 0.45*math.Cos((hour-7)/12*math.Pi)) // at 7 the fewest, at 19 the most
	g.at = g.at.Add(time.Duration(g.rng.ExpFloat64() / perHour * float64(time.Hour)))
	if !g.at.Before(g.end) {
		return false
	}
	visitor := fmt.Sprintf("regular-%d", int(g.hourly*math.Pow(g.rng.Float64(), 3)*10))
	if g.rng.IntN(3) == 0 {
		g.once++
		visitor = fmt.Sprintf("once-%d", g.once)
	}
	g.rest = fmt.Appendf(g.rest[:0], "%s %s\n", g.at.Format(time.RFC3339), visitor)
	return true
}
