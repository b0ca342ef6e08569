package cache

// sameHome returns n keys of a file whose searches
// all begin at the same slot, in a table of minSlots.
func sameHome(file uint64, n int) (keys []Key) {
	t := newTable(nil, minSlots)
	for o := uint64(0); len(keys) < n; o++ {
		if k := (Key{file, o}); k.hash()>>t.shift == 7 {
			keys = append(keys, k)
		}
	}
	return keys
}
