package wal

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRead_SalvageTellsWhereTheGapsAre checks that Damaged is called between two records if
// and only if there were others between them. Before the first record it is also called if
// the header is damaged.
func TestRead_SalvageTellsWhereTheGapsAre(t *testing.T) {
	const seed = 2
	rng := rand.New(rand.NewPCG(seed, 0))
	payloads := append(testPayloads(20), testPayload(20, 2*blockSize))
	payloads = append(payloads, testPayloads(30)[21:]...)
	for round := range 200 {
		m := newImage(0).addEach(payloads, true).seal()
		hit := make([]bool, len(payloads))
		for range rng.IntN(4) {
			i := rng.IntN(len(payloads))
			if !hit[i] {
				hit[i] = true
				m.data[m.starts[i]+rng.Int64N(m.ends[i]-m.starts[i])] ^= 1 << rng.IntN(8)
			}
		}
		const gap = "a gap"
		var want []string
		if round%3 == 0 {
			m.data[rng.IntN(headerUsed)] ^= 0x40
			want = append(want, gap)
		}
		for i, p := range payloads {
			switch {
			case !hit[i]:
				want = append(want, p)
			case len(want) == 0 || want[len(want)-1] != gap:
				want = append(want, gap)
			}
		}
		var got []string
		note := func(err error) {
			checkCorrupt(t, err, -1)
			if len(got) == 0 || got[len(got)-1] != gap {
				got = append(got, gap)
			}
		}
		o := ReadOptions{Known: m.end(), Salvage: true, Damaged: note}
		res, err := Read(fileSystem(m.data), "", 7, testStore, o, func(p []byte) error {
			got = append(got, string(p))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d, round %d: Read = %v, %d records and gaps, want %d", seed, round, err, len(got), len(want))
		}
		if (res.Damage != nil) != slices.Contains(want, gap) || !res.Sealed {
			t.Errorf("seed %d, round %d: Damage = %v, Sealed = %v", seed, round, res.Damage, res.Sealed)
		}
	}
}

// TestRead_SalvageOfATornTail checks that records which were never synced are not a gap: Read
// ends where the log ends.
func TestRead_SalvageOfATornTail(t *testing.T) {
	payloads := testPayloads(6)
	m := newImage(0).addEach(payloads[:3], true).addEach(payloads[3:], false)
	clear(m.data[m.starts[4]:m.ends[4]])
	m.data[m.starts[1]+fragmentSize] ^= 1
	gaps := 0
	got, res, err := readBytes(m.data, ReadOptions{Known: -1, Salvage: true, Damaged: func(error) { gaps++ }})
	if want := []string{payloads[0], payloads[2], payloads[3]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Read = %q, %v; want %q", got, err, want)
	}
	if gaps != 1 || !res.Torn {
		t.Errorf("%d gaps, torn: %v; want 1, true", gaps, res.Torn)
	}
}
