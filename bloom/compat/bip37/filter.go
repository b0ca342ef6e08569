package bip37

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// ErrParameters says that there is no filter as it was asked for.
var ErrParameters = errors.New("parameters of a filter")

// The limits of BIP 37. Nodes refuse filters and elements above them.
const (
	MaxBytes     = 36_000
	MaxHashFuncs = 50
	// MaxElement is the size in bytes of the largest element that the message filteradd
	// takes. Scripts cannot push more.
	MaxElement = 520
)

// Flags say which outputs a node adds to the filter by itself when they match.
type Flags byte

// The flags of BIP 37. Other bits are read and written unchanged.
const (
	UpdateNone         Flags = 0 // add nothing
	UpdateAll          Flags = 1 // add the outpoint of every output that matches
	UpdateP2PubKeyOnly Flags = 2 // only outpoints of outputs that pay to a key or to several
	UpdateMask         Flags = 3
)

const (
	seedStep   = 0xfba4c795
	ln2        = 0.6931471805599453094172321214581765680755001343602552
	ln2Squared = 0.4804530139182014246671025263266649717305529515945455
)

// A Filter is the filter of a filterload. The zero value has no bits: it matches
// everything. It is for ReadFrom, UnmarshalBinary and UnmarshalText.
type Filter struct {
	data      []byte // the bits; at most MaxBytes
	hashFuncs uint32 // at most MaxHashFuncs
	tweak     uint32
	flags     Flags
}

// New returns an empty filter for n elements at the false positive rate p. It has the size
// that Bitcoin Core gives it within the limits of BIP 37. The tweak is added to the seeds
// of the hash functions. A random one makes it harder to find out whose filter it is.
//
// New returns [ErrParameters] where Core makes a filter without bits or hash functions, which
// matches everything: for no elements, or for hardly a bit for each.
func New(n uint32, p float64, tweak uint32, flags Flags) (*Filter, error) {
	if n == 0 || !(p > 0 && p < 1) {
		return nil, fmt.Errorf("bip37: new filter: %w: %d elements at rate %v", ErrParameters, n, p)
	}
	size, k := sizes(n, p)
	if size == 0 || k == 0 {
		return nil, fmt.Errorf("bip37: new filter: %w: %d elements at rate %v take %d bytes and %d hash functions", ErrParameters, n, p, size, k)
	}
	return &Filter{data: make([]byte, size), hashFuncs: k, tweak: tweak, flags: flags}, nil
}

// sizes returns the number of bytes and of hash functions that Core chooses.
func sizes(n uint32, p float64) (size, k uint32) {
	wanted := math.Min(-1/ln2Squared*float64(n)*math.Log(p), MaxBytes*8)
	size = uint32(wanted) / 8
	// Core divides integers here.
	return size, uint32(math.Min(float64(size*8/n)*ln2, MaxHashFuncs))
}

// errZero is the error of adding to the zero Filter, which would lose the key.
var errZero = errors.New("bip37: add: the zero Filter takes no elements; make one with New")

// Add adds an element in its serialized form. The error is nil unless f is the zero Filter.
func (f *Filter) Add(element []byte) error {
	if len(f.data) == 0 {
		return errZero
	}
	for n := range f.hashFuncs {
		x := f.position(n, element)
		f.data[x>>3] |= 1 << (x & 7)
	}
	return nil
}

// AddString is Add of the bytes of s, which it does not copy.
func (f *Filter) AddString(s string) error { return f.Add(form.Bytes(s)) }

// MayContain reports whether an element may be in the filter. False is certain.
func (f *Filter) MayContain(element []byte) bool {
	if len(f.data) == 0 {
		return true
	}
	for n := range f.hashFuncs {
		if x := f.position(n, element); f.data[x>>3]&(1<<(x&7)) == 0 {
			return false
		}
	}
	return true
}

// MayContainString is MayContain of the bytes of s, which it does not copy.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// position returns the bit of hash function n. Requires: the filter has bits.
func (f *Filter) position(n uint32, element []byte) uint32 {
	return form.Murmur32(element, n*seedStep+f.tweak) % uint32(8*len(f.data))
}

// An OutPoint is an output of a transaction. TxID has the byte order of the wire, the
// reverse of the one in which it is shown.
type OutPoint struct {
	TxID  [32]byte
	Index uint32
}

// serialized returns the form that Add takes.
func (o *OutPoint) serialized() (b [36]byte) {
	copy(b[:], o.TxID[:])
	binary.LittleEndian.PutUint32(b[32:], o.Index)
	return b
}

// AddOutPoint adds an outpoint. The error is that of Add.
func (f *Filter) AddOutPoint(o OutPoint) error {
	b := o.serialized()
	return f.Add(b[:])
}

// MayContainOutPoint reports whether an outpoint may be in the filter. False is certain.
func (f *Filter) MayContainOutPoint(o OutPoint) bool {
	b := o.serialized()
	return f.MayContain(b[:])
}

// SizeBytes returns the number of bytes of bits.
func (f *Filter) SizeBytes() int { return len(f.data) }

// HashFuncs returns the number of hash functions.
func (f *Filter) HashFuncs() int { return int(f.hashFuncs) }

// Tweak returns the number that is added to the seeds of the hash functions.
func (f *Filter) Tweak() uint32 { return f.tweak }

// Flags returns the flags.
func (f *Filter) Flags() Flags { return f.flags }

// FPR returns the share of absent elements that pass with the bits that are set
// at the moment.
func (f *Filter) FPR() float64 {
	if len(f.data) == 0 {
		return 1
	}
	ones := 0
	for _, b := range f.data {
		ones += bits.OnesCount8(b)
	}
	return math.Pow(float64(ones)/float64(8*len(f.data)), float64(f.hashFuncs))
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if len(f.data) == 0 {
		return "bip37.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("bip37.Filter: %d bits, %d hash functions, %.3g %% of absent elements pass", 8*len(f.data), f.hashFuncs, 100*f.FPR())
}

// Reset removes all elements.
func (f *Filter) Reset() { clear(f.data) }

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.data = append([]byte(nil), f.data...)
	return &c
}
