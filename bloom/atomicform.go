package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/form"
)

// The serialized form of an AtomicBlocked is its lines, the count in 8 bytes, and a trailer:
//
//	 0    1       2    3     4 8    12    16   20   28
//	|kind|version|hash|state|0|keys|lines|head|seed|crc32c|
//
// A filter that is opened where it lies changes its lines, so that the checksum at the end
// can't hold all the time. The state says whether it does. Head is a checksum of those fields
// of the trailer that never change. Nothing in the file changes while keys are added but the
// lines, and once, before the first of them, one byte: the state.
const (
	atomicVersion = 1
	atomicSealed  = 0 // the checksum holds
	atomicLive    = 1 // only head does: keys were added, or are being added
	atomicTail    = 8 + form.TrailerLen
)

var errNotInBytes = errors.New("bloom: seal filter: it was not opened by OpenAtomicBlocked; write it with WriteTo or AppendBinary")

// OpenAtomicBlocked returns the filter whose serialized form is b, all of b. It keeps b and
// does not copy it: keys that are added set bits in b. b may be a mapping of a file, by
// several processes at once, which then share the filter. b must begin at an address that 8
// divides. If 64 divides it, a question costs one cache line.
//
// Each of several filters of the same bytes sees the keys of all. Count has the stored number
// and the keys that this filter has added.
//
// Asking only reads b. Adding writes to it: if b cannot be written to, such as a read-only
// mapping, an addition crashes the program.
//
// # Sealed and live
//
// A filter is written sealed: its checksum covers all bytes, and OpenAtomicBlocked checks
// them. The first addition makes it live. The checksum then covers only what never changes,
// and a damaged line is not found. Seal computes the whole checksum again. Sealed reports
// what a filter is.
//
// If a process ends in between, by a crash too, a live filter in a shared mapping of a file
// has every key whose addition has returned. A key whose addition has not returned may be
// there or not. If the machine fails, pages that were not synced are lost. So a live filter
// then may lack keys, and deny them; nobody can see that. Build it again then, or sync the
// mapping (msync) before you rely on a key. The same holds for Seal: sync behind it.
//
// The errors are those of [OpenStatic]. A filter that cannot be read means maybe, never no.
func OpenAtomicBlocked(b []byte) (*AtomicBlocked, error) {
	t, err := parseAtomic(b)
	if err != nil {
		return nil, err
	}
	start := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(start)%8 != 0 {
		return nil, errors.New("bloom: open filter: its bytes begin at an address that 8 does not divide: move them, or copy them with UnmarshalBinary")
	}
	f := &AtomicBlocked{lines: unsafe.Slice((*atomicLine)(start), t.lines), hasher: t.hasher, noted: true}
	f.shared = newAtomicShared(len(f.lines), t.count)
	f.shared.bytes = b
	return f, nil
}

// Sealed reports whether the checksum of the bytes of [OpenAtomicBlocked] holds: no key was
// added since they were written, or since Seal. It is false for all other filters.
func (f *AtomicBlocked) Sealed() bool {
	return f.shared != nil && f.shared.bytes != nil && f.shared.state().Load()&liveBit() == 0
}

// Seal writes the count and the checksum to the bytes of [OpenAtomicBlocked]. No key may be
// added while it runs, by other processes neither. The next addition makes the filter live
// again. It returns an error for a filter that was not opened by OpenAtomicBlocked.
func (f *AtomicBlocked) Seal() error {
	s := f.shared
	if s == nil || s.bytes == nil {
		return errNotInBytes
	}
	s.sealing.Lock()
	defer s.sealing.Unlock()
	if f.Sealed() {
		return nil
	}
	count := f.Count()
	t := form.Trailer(s.bytes)
	binary.LittleEndian.PutUint64(s.bytes[len(s.bytes)-atomicTail:], count)
	binary.LittleEndian.PutUint32(t[8:], uint32(min(count, math.MaxUint32)))
	// The checksum is that of the sealed form. So the state is taken out of it here, and
	// changes last: a crash in between leaves a live filter.
	crc := crc32.Checksum(s.bytes[:len(s.bytes)-form.TrailerLen+3], form.Castagnoli)
	crc = crc32.Update(crc, form.Castagnoli, []byte{atomicSealed})
	crc = crc32.Update(crc, form.Castagnoli, t[4:28])
	binary.LittleEndian.PutUint32(t[28:], crc)
	s.state().And(^liveBit())
	return nil
}

// state returns the word of the trailer that has the state. It is atomic, because filters of
// the same bytes do not know of each other.
func (s *atomicShared) state() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&s.bytes[len(s.bytes)-form.TrailerLen]))
}

// liveBit returns the bit of the word of state that atomicLive has set.
func liveBit() uint32 {
	var word [4]byte
	word[3] = atomicLive
	return binary.NativeEndian.Uint32(word[:])
}

// AppendBinary appends the serialized form to dst, the bytes that [OpenAtomicBlocked] takes,
// and returns the longer slice. Keys may be added while it runs. Each key whose addition has
// returned before is in the form. For the zero [AtomicBlocked] it returns an error and dst as
// it was.
func (f *AtomicBlocked) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.lines) == 0 {
		return dst, errors.New("bloom: write filter: it was not made by NewAtomicBlocked or OpenAtomicBlocked")
	}
	count, start, size := f.Count(), len(dst), len(f.lines)*lineBytes
	dst = grow(dst, size+atomicTail)
	filter := dst[start:]
	b := filter
	for i := range f.lines {
		for j := range f.lines[i] {
			binary.NativeEndian.PutUint64(b, f.lines[i][j].Load())
			b = b[8:]
		}
	}
	binary.LittleEndian.PutUint64(b, count)
	t := form.Begin(filter, form.KindAtomic, atomicVersion, count, uint8(f.hasher.ID()), f.hasher.Seed())
	binary.LittleEndian.PutUint32(t[12:], uint32(len(f.lines)))
	binary.LittleEndian.PutUint32(t[16:], atomicHead(t))
	form.Seal(filter)
	return dst, nil
}

// atomicHead returns the checksum of the fields of trailer t that never change.
func atomicHead(t []byte) uint32 {
	crc := crc32.Checksum(t[:3], form.Castagnoli)
	crc = crc32.Update(crc, form.Castagnoli, t[4:8])
	crc = crc32.Update(crc, form.Castagnoli, t[12:16])
	return crc32.Update(crc, form.Castagnoli, t[20:28])
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *AtomicBlocked) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary makes f the filter whose serialized form is b, all of b. Unlike
// [OpenAtomicBlocked] it copies b. The errors are those of OpenAtomicBlocked, and [ErrDamaged]
// for a live form, whose lines nobody can check. They leave f as it was. Nobody may use f at
// the same time.
func (f *AtomicBlocked) UnmarshalBinary(b []byte) error {
	t, err := parseAtomic(b)
	if err != nil {
		return err
	}
	if !t.sealed {
		return form.Damage("the filter is live: seal it where it lies (AtomicBlocked.Seal)")
	}
	lines := make([]atomicLine, t.lines)
	for i := range lines {
		for j := range lines[i] {
			lines[i][j].Store(binary.NativeEndian.Uint64(b[i*lineBytes+8*j:]))
		}
	}
	*f = AtomicBlocked{lines: lines, hasher: t.hasher, noted: true, shared: newAtomicShared(len(lines), t.count)}
	return nil
}

// An atomicTrailer is what the end of a serialized form says.
type atomicTrailer struct {
	lines  int // at least 1
	sealed bool
	count  uint64
	hasher Hasher
}

// parseAtomic reads and checks the trailer at the end of filter: kind, version and hash
// first, then the length, then the checksums, then the values.
func parseAtomic(filter []byte) (atomicTrailer, error) {
	b, err := trailerOf(filter, form.KindAtomic, atomicVersion, everyHash)
	if err != nil {
		return atomicTrailer{}, err
	}
	lines := uint64(binary.LittleEndian.Uint32(b[12:]))
	if lines*lineBytes+atomicTail != uint64(len(filter)) {
		return atomicTrailer{}, form.Damage("%d lines in %d bytes", lines, len(filter))
	}
	if want, got := binary.LittleEndian.Uint32(b[16:]), atomicHead(b); got != want {
		return atomicTrailer{}, form.Damage("checksum of the head %08x, stored %08x", got, want)
	}
	h, state := head{}, b[3]
	switch state {
	case atomicSealed:
		err = h.open(filter, int64(len(filter)))
	case atomicLive:
		if h.hasher, err = NewHasher(HashID(b[2]), binary.LittleEndian.Uint64(b[20:])); err != nil {
			err = fmt.Errorf("bloom: open filter: %w", err)
		}
	default:
		err = form.Damage("state %d", state)
	}
	if err != nil {
		return atomicTrailer{}, err
	}
	count := binary.LittleEndian.Uint64(filter[len(filter)-atomicTail:])
	keys := binary.LittleEndian.Uint32(b[8:])
	switch {
	case binary.LittleEndian.Uint32(b[4:]) != 0:
		return atomicTrailer{}, form.Damage("reserved bytes are %#x", binary.LittleEndian.Uint32(b[4:]))
	case lines == 0:
		return atomicTrailer{}, form.Damage("no lines")
	case state == atomicSealed && uint64(keys) != min(count, math.MaxUint32):
		return atomicTrailer{}, form.Damage("%d keys, counted %d", keys, count)
	}
	return atomicTrailer{lines: int(lines), sealed: state == atomicSealed, count: count, hasher: h.hasher}, nil
}
