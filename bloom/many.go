package bloom

// AddMany adds the keys with these hashes. A key has two words, h1 and h2, one after the
// other (see Hash). A last word that has no second is left out.
func (f *Filter) AddMany(hashes []uint64) {
	for ; len(hashes) >= 2; hashes = hashes[2:] {
		f.AddHash(hashes[0], hashes[1])
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[2*i], hashes[2*i+1]). If out is longer
// than there are such pairs, the rest of out becomes true.
func (f *Filter) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes)/2 || f.MayContainHash(hashes[2*i], hashes[2*i+1])
	}
}

// AddMany is AddHash for each of hashes.
func (f *AtomicBlocked) AddMany(hashes []uint64) {
	for _, h := range hashes {
		f.AddHash(h)
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (f *AtomicBlocked) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (f *Blocked) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (f *Fuse) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (s *Static) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || s.MayContainHash(hashes[i])
	}
}
