package filterplan

import (
	"testing"

	"github.com/shaledb/shale/bloom"
)

func TestChooseHasher(t *testing.T) {
	hasher := func(id bloom.HashID, seed uint64) bloom.Hasher {
		h, err := bloom.NewHasher(id, seed)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	murmur, xx, sip1, sip2 := hasher(bloom.HashMurmur3, 0), hasher(bloom.HashXXH3, 0), hasher(bloom.HashSipHash, 1), hasher(bloom.HashSipHash, 2)
	for _, c := range []struct {
		id       bloom.HashID
		existing []bloom.Hasher
		want     bloom.Hasher
	}{
		{bloom.HashMurmur3, []bloom.Hasher{sip1}, murmur},
		{bloom.HashXXH3, []bloom.Hasher{hasher(bloom.HashXXH3, 7)}, xx},
		{bloom.HashSipHash, nil, hasher(bloom.HashSipHash, 99)},
		{bloom.HashSipHash, []bloom.Hasher{murmur, xx}, hasher(bloom.HashSipHash, 99)},
		{bloom.HashSipHash, []bloom.Hasher{sip1, sip2, murmur}, sip2},
	} {
		got, err := ChooseHasher(c.id, 99, c.existing)
		if err != nil || got != c.want {
			t.Errorf("ChooseHasher(%v, 99, %v) = %v, %v, want %v", c.id, c.existing, got, err, c.want)
		}
	}
	if _, err := ChooseHasher(200, 0, nil); err == nil {
		t.Error("an unknown hash function was accepted")
	}
}
