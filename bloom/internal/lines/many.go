package lines

// HasMany sets out[i] to whether the first k probes of hashes[i] are set in the n lines, for each
// i below len(out). It reads nothing outside of the lines and hashes.
//
// Requires: lines is n · Bytes long, n is at least 1, k is MinProbes to MaxProbes, and hashes is
// as long as out.
func HasMany(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	lines, hashes = lines[:n*Bytes], hashes[:len(out)]
	if len(out) > 0 {
		hasMany(lines, n, k, hashes, out)
	}
}

// HasManySecond is HasMany for the second unit of a filter, whose first unit has made the answers
// in out. Only hashes with the answer true are asked, by their SecondHash; the other answers stay.
// The requirements are those of HasMany.
func HasManySecond(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	var passed [atOnce]uint64
	var places [atOnce]uint8
	var answers [atOnce]bool
	hashes = hashes[:len(out)]
	for len(out) > 0 {
		m := min(len(out), atOnce)
		// Which hashes have passed cannot be predicted, so that each is written, and
		// the next one overwrites it if it has not.
		count := 0
		for i, h := range hashes[:m] {
			passed[count&(atOnce-1)], places[count&(atOnce-1)] = h, uint8(i)
			count += one(out[i])
		}
		for i, h := range passed[:count] {
			passed[i] = SecondHash(h)
		}
		HasMany(lines, n, k, passed[:count], answers[:count])
		for i, maybe := range answers[:count] {
			out[places[i]] = maybe
		}
		hashes, out = hashes[m:], out[m:]
	}
}

// one returns 1 for true. The compiler makes no branch of it.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AddMany sets the first k probes of all hashes in the n lines. Requires: what HasMany requires,
// and nobody else reads or changes the lines.
func AddMany(lines []byte, n uint64, k uint32, hashes []uint64) {
	lines = lines[:n*Bytes]
	if len(hashes) > 0 {
		addMany(lines, n, k, hashes)
	}
}

// AddManySecond is AddMany for the second unit of a filter: it adds the SecondHash of each hash.
func AddManySecond(lines []byte, n uint64, k uint32, hashes []uint64) {
	var second [atOnce]uint64
	for len(hashes) > 0 {
		m := min(len(hashes), atOnce)
		for i, h := range hashes[:m] {
			second[i&(atOnce-1)] = SecondHash(h)
		}
		AddMany(lines, n, k, second[:m])
		hashes = hashes[m:]
	}
}
