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
