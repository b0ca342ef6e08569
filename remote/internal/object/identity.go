package object

import (
	"time"

	"github.com/shaledb/shale/internal/fields"
)

// The identity of a store, which all of its other objects repeat.

// An Identity says which store a bucket has. It is the first object, made if it is absent, so that
// of two programs that begin with an empty bucket one is refused.
type Identity struct {
	StoreID uint64
	Created time.Time // to the millisecond
}

// IdentitySize is the number of bytes of an identity: the head, the time and the checksum. Part of
// the format.
const IdentitySize = HeadSize + 8 + SumSize

// Encode appends the object to dst, which belongs to the caller:
//
// head 24 · created in Unix ms u64 · crc32c u32
func (i *Identity) Encode(dst []byte) ([]byte, error) {
	if err := checkTime(i.Created); err != nil {
		return dst, EncodeError(IdentityName, err)
	}
	start := len(dst)
	return AppendSum(AppendHead(dst, identityMagic, i.StoreID, uint64(i.Created.UnixMilli())), start), nil
}

// DecodeIdentity decodes the object IdentityName. It keeps no part of src. An error wraps a
// *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeIdentity(src []byte) (*Identity, error) {
	i := new(Identity)
	id, content, err := Unseal(src, identityMagic, IdentitySize)
	if err == nil {
		d := fields.Decoder{Src: content}
		i.StoreID, i.Created = id, timeOf(&d, d.Uint64())
		if err = d.Err; err == nil && len(d.Src) > 0 {
			err = fields.ErrTrailing
		}
	}
	if err != nil {
		return nil, Damage(IdentityName, "identity", err)
	}
	return i, nil
}
