package sketch

// AddMany is AddHash for each key. A key has two words, h1 and h2, one after the other (see
// Hash). A last word that has no second is left out. It stops at the first error.
func (s *Scalable) AddMany(hashes []uint64) error {
	for ; len(hashes) >= 2; hashes = hashes[2:] {
		if err := s.AddHash(hashes[0], hashes[1]); err != nil {
			return err
		}
	}
	return nil
}

// MayContainMany sets out[i] to MayContainHash(hashes[2*i], hashes[2*i+1]). If out is longer
// than there are such pairs, the rest of out becomes true.
func (s *Scalable) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes)/2 || s.MayContainHash(hashes[2*i], hashes[2*i+1])
	}
}

// AddMany is AddHash for each of hashes.
func (f *Counting) AddMany(hashes []uint64) {
	for _, h := range hashes {
		f.AddHash(h)
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (f *Counting) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// AddMany is AddHash for each of hashes. It stops at the first error.
func (f *Cuckoo) AddMany(hashes []uint64) error {
	for _, h := range hashes {
		if err := f.AddHash(h); err != nil {
			return err
		}
	}
	return nil
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true.
func (f *Cuckoo) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}
