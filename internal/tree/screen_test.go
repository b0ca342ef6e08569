package tree

import "testing"

// The samples of all processors together are about as many as those of two.
func TestSampleEvery(t *testing.T) {
	for processors, want := range map[int]int{1: 16, 2: 16, 3: 32, 4: 32, 16: 128, 64: 512, 96: 1024} {
		if got := sampleEveryFor(processors); got != want {
			t.Errorf("%d processors: one lookup in %d, want in %d", processors, got, want)
		}
	}
}
