package bloom

// A Set is a filter that can be asked for keys. All filters of this package, of package
// sketch and of the packages below compat are Sets, except for the Bitset, which is a set of
// numbers.
type Set interface {
	// MayContain reports whether key may be in the filter. False is certain. The key is
	// only lent: the filter must not keep it.
	MayContain(key []byte) bool

	// MayContainString is MayContain for the bytes of s.
	MayContainString(s string) bool

	// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the
	// rest of out becomes true.
	MayContainKeys(keys [][]byte, out []bool)

	// SizeBytes returns the memory that the filter takes.
	SizeBytes() int
}

// An Adder is a Set that keys can be added to one by one.
type Adder interface {
	Set

	// Add adds key. The error is nil for every filter that a constructor made and that
	// cannot become full. If there is an error, the key has not been added. The key is
	// only lent: the filter must not keep it.
	Add(key []byte) error

	// AddString is Add for the bytes of s.
	AddString(s string) error

	// AddKeys is Add for each of keys. It stops at the first error; the keys before that
	// one have been added.
	AddKeys(keys [][]byte) error
}

var (
	_ Adder = (*Filter)(nil)
	_ Adder = (*AtomicBlocked)(nil)
	_ Set   = (*Blocked)(nil)
	_ Set   = (*Fuse)(nil)
	_ Set   = (*Static)(nil)
)
