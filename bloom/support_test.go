package bloom

// mustOpen opens a filter that has to be good.
func mustOpen(b []byte) *Blocked {
	f, err := OpenBlocked(b)
	if err != nil {
		panic(err)
	}
	return f
}

func atomicOf(keys int, bitsPerKey float64) *AtomicBlocked {
	return Must(NewAtomicBlocked(AtomicBlockedOptions{Keys: uint64(keys), BitsPerKey: bitsPerKey}))
}

// fuseOf returns a fuse filter with fingerprints of r bits.
func fuseOf(hashes []uint64, r int) *Fuse {
	return Must(OpenFuse(Must(new(fuseSolver).appendFuse(nil, hashes, r, Hasher{}, fuseAttempts))))
}

func staticOf(hashes []uint64, o StaticOptions) *Static { return mustOpenStatic(mustAppend(hashes, o)) }

type asker interface{ MayContainHash(h uint64) bool }
