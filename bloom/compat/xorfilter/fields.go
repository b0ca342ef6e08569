package xorfilter

import "encoding/binary"

// FuseFields are the fields of the peer's BinaryFuse[T], for encoders that write fields by
// name, such as gob and JSON. A BinaryFuse[T] converts to it and back.
type FuseFields[T Unsigned] struct {
	Seed               uint64
	SegmentLength      uint32
	SegmentLengthMask  uint32
	SegmentCount       uint32
	SegmentCountLength uint32

	Fingerprints []T
}

// Open returns the filter with these fields, whose fingerprints it copies. The error is
// bloom.ErrDamaged if no filter has them.
func (f FuseFields[T]) Open() (*Fuse[T], error) {
	h := fuseHeader{f.Seed, [5]uint32{f.SegmentLength, f.SegmentLengthMask, f.SegmentCount, f.SegmentCountLength, uint32(len(f.Fingerprints))}}
	made, err := newFuse[T](h)
	if err != nil {
		return nil, err
	}
	if made.form != formGo || made.size() != uint64(made.width()*len(f.Fingerprints)) {
		return nil, damage("segments of %d places, %d minus 1, and %d fingerprints", f.SegmentLength, f.SegmentLengthMask, len(f.Fingerprints))
	}
	made.bytes = appendFingerprints(make([]byte, 0, made.size()), f.Fingerprints)
	return made, nil
}

// Fields returns the fields of the peer's filter. The fingerprints are a copy.
func (f *Fuse[T]) Fields() FuseFields[T] {
	if len(f.bytes) == 0 {
		return FuseFields[T]{}
	}
	fields := FuseFields[T]{f.seed, f.length, f.length - 1, f.count, f.count * f.length, make([]T, len(f.bytes)/f.width())}
	for i := range fields.Fingerprints {
		fields.Fingerprints[i] = at[T](f.bytes, uint64(i))
	}
	return fields
}

func appendFingerprints[T Unsigned](b []byte, fingerprints []T) []byte {
	for _, v := range fingerprints {
		switch v := any(v).(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, v)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}

// Xor8Fields are the fields of the peer's Xor8, for encoders that write fields by name, such
// as gob and JSON. An Xor8 of the peer converts to it and back.
type Xor8Fields struct {
	Seed         uint64
	BlockLength  uint32
	Fingerprints []uint8
}

// Open returns the filter with these fields, whose fingerprints it copies. The error is
// bloom.ErrDamaged if no filter has them.
func (f Xor8Fields) Open() (*Xor8, error) {
	if f.BlockLength == 0 || uint64(len(f.Fingerprints)) != 3*uint64(f.BlockLength) {
		return nil, damage("%d fingerprints, in blocks of %d", len(f.Fingerprints), f.BlockLength)
	}
	return &Xor8{seed: f.Seed, bytes: append([]byte(nil), f.Fingerprints...)}, nil
}

// Fields returns the fields of the peer's filter. The fingerprints are a copy.
func (f *Xor8) Fields() Xor8Fields {
	return Xor8Fields{f.seed, uint32(len(f.bytes) / 3), append([]byte(nil), f.bytes...)}
}
