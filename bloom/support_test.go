package bloom

// mustOpen opens a filter that has to be good.
func mustOpen(b []byte) *Blocked {
	f, err := OpenBlocked(b)
	if err != nil {
		panic(err)
	}
	return f
}
