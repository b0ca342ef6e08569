package holiman

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/shaledb/shale/bloom"
)

// inJSON is the JSON form of a filter, with the field names of the peer.
type inJSON struct {
	Version string   `json:"version"`
	Bits    []uint64 `json:"bits"`
	Seeds   []uint64 `json:"keys"`
	M       uint64   `json:"m"`
	N       uint64   `json:"n"`
}

// MarshalJSON returns the filter in the form of the peer's MarshalJSON. For the zero value
// the error is ErrParameters.
func (f Filter) MarshalJSON() ([]byte, error) {
	if f.m == 0 {
		return nil, errNoBits("marshal filter")
	}
	return json.Marshal(inJSON{version, wordsIn(f.bits), f.seeds, f.m, f.n})
}

// UnmarshalJSON replaces the filter by the one that b is. It keeps the hash function. The
// errors are those of UnmarshalBinary. After an error the filter is as it was.
func (f *Filter) UnmarshalJSON(b []byte) error {
	var j inJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("holiman: read filter: %w: %w", bloom.ErrDamaged, err)
	}
	if j.Version != version {
		return fmt.Errorf("holiman: read filter: %w: version %q, this package reads %q", bloom.ErrUnknown, j.Version, version)
	}
	made, _, err := checkNumbers(uint64(len(j.Seeds)), j.N, j.M)
	if err != nil {
		return err
	}
	if uint64(len(j.Bits)) != wordsOf(j.M) {
		return damage("%d bits in %d words", j.M, len(j.Bits))
	}
	made.seeds = j.Seeds
	made.bits = make([]byte, 0, 8*len(j.Bits))
	for _, w := range j.Bits {
		made.bits = binary.LittleEndian.AppendUint64(made.bits, w)
	}
	if err := made.checkTail(); err != nil {
		return err
	}
	f.replace(made)
	return nil
}
