package redisbloom

import "testing"

// The header of a filter has the quotient of a logarithm, so all machines must compute the same as Redis does.
// These are the results of C's log. math.Log gives others for some of them: on amd64, arm64 or s390x.
func TestLogOf_AsInC(t *testing.T) {
	for x, want := range map[float64]float64{
		0.25:      -0x1.62e42fefa39efp+00,
		0.125:     -0x1.0a2b23f3bab73p+01,
		0.1:       -0x1.26bb1bbb55515p+01,
		0.01:      -0x1.26bb1bbb55515p+02,
		0.005:     -0x1.5317a1b949c53p+02,
		0.001:     -0x1.ba18a998fffap+02,
		1e-5:      -0x1.7069e2aa2aa5bp+03,
		1e-9:      -0x1.4b927f32bffb8p+04,
		0x1p-1022: -0x1.6232bdd7abcd2p+09,
		3e-310:    -0x1.6459f44103e87p+09,
		0x1p-1074: -0x1.74385446d71c3p+09,
	} {
		if got := logOf(x); got != want {
			t.Errorf("logOf(%v) = %x, want %x", x, got, want)
		}
	}
}
