package form

// ProbeMul is the odd multiplier that turns a hash into probes. Part of the file format.
const ProbeMul = 0x9e3779b97f4a7c15

// Geometry of a line. Part of the file format, never changes.
const (
	LineBits  = 512          // of a line, into which all probes of a key fall
	LineBytes = LineBits / 8 // a cache line
)

// Finish is the finalizer of MurmurHash3: every bit of h influences every bit of the
// result. Part of the file format, never changes.
func Finish(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
