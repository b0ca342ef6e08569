package filterplan

import "github.com/shaledb/shale/bloom"

// ChooseHasher returns the hash function of a store's filters. existing are those of
// the filters that the store has already.
//
// SipHash needs a secret, and a filter says with which one it was made. If there are
// such filters, ChooseHasher takes the secret of the last of them, so that a lookup
// hashes its key once for these and for new filters. Otherwise it takes secret. The
// other functions need none.
func ChooseHasher(id bloom.HashID, secret uint64, existing []bloom.Hasher) (bloom.Hasher, error) {
	if id != bloom.HashSipHash {
		return bloom.NewHasher(id, 0)
	}
	for _, h := range existing {
		if h.ID() == id {
			secret = h.Seed()
		}
	}
	return bloom.NewHasher(id, secret)
}
