package filterplan

import (
	"testing"

	"github.com/shaledb/shale/bloom"
)

// The kind that is chosen is the one with fewer false positives, and the rate is
// that of its filter.
func TestChooseKind(t *testing.T) {
	for _, c := range []struct {
		keys   int
		wanted bloom.Kind
		bits   float64
		want   bloom.Kind
	}{
		{1_000_000, bloom.KindBlocked, 10, bloom.KindBlocked},
		{1_000_000, bloom.KindFuse, 10, bloom.KindFuse},
		{1000, bloom.KindFuse, 10, bloom.KindFuse},
		{1000, bloom.KindFuse, 8, bloom.KindBlocked},
		{4, bloom.KindFuse, 10, bloom.KindBlocked},
	} {
		o := bloom.StaticOptions{Kind: c.wanted, BitsPerKey: c.bits}
		kind, fpr := ChooseKind(c.keys, o)
		blocked, fuse := bloom.PredictFPR(c.bits), bloom.FuseFPR(bloom.FuseFor(c.keys, c.bits))
		rate := blocked
		if kind == bloom.KindFuse {
			rate = fuse
		}
		if kind != c.want || fpr != rate || c.wanted == bloom.KindFuse && fpr > min(blocked, fuse) {
			t.Errorf("%d keys, %v, %v bits: %v with a rate of %v, want %v", c.keys, c.wanted, c.bits, kind, fpr, c.want)
		}
	}
}
