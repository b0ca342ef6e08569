package filterplan

import "testing"

func TestPolicy_Bits(t *testing.T) {
	for _, c := range []struct {
		policy        Policy
		flush, ingest float64
		budget        int64 // for a million keys
	}{
		{Policy{AverageBits: 10}, 24, 10, 1<<20 + 1_562_500},
		{Policy{AverageBits: 10, Memory: 5000}, 24, 10, 5000},
		{Policy{AverageBits: -1}, 0, 0, 1 << 20},
	} {
		if f, i, b := c.policy.FlushBits(), c.policy.IngestBits(), c.policy.Budget(1_000_000); f != c.flush || i != c.ingest || b != c.budget {
			t.Errorf("%+v: flushed tables get %v bits, ingested ones %v, and filters may take %d bytes; want %v, %v and %d", c.policy, f, i, b, c.flush, c.ingest, c.budget)
		}
	}
}
