package bloom

import "fmt"

// A StaticBuilder builds filters as [AppendStatic] does, one after the other, and keeps the
// memory that it needs for that from filter to filter: for a [KindFuse] 14 to 18 bytes a key,
// and 8 more from 230,000 keys up or if some hashes are equal. A [KindBlocked] needs none.
//
// The zero StaticBuilder is ready for use. It is not for concurrent use. It keeps neither
// the hashes nor the filters.
type StaticBuilder struct {
	fuse fuseSolver
}

// Append is [AppendStatic] in the memory of b. It makes the same bytes. Once b has built a
// filter of as many keys, and if dst has room, it allocates nothing.
func (b *StaticBuilder) Append(dst []byte, hashes []uint64, o StaticOptions) ([]byte, error) {
	switch o.Kind {
	case 0, KindBlocked:
		return appendBlocked(dst, hashes, o.BitsPerKey, o.Hasher), nil
	case KindFuse:
		return b.fuse.appendFuse(dst, hashes, FuseFor(len(hashes), o.BitsPerKey), o.Hasher, fuseAttempts)
	}
	return dst, fmt.Errorf("bloom: build filter: %w: kind %d", ErrUnknown, o.Kind)
}
