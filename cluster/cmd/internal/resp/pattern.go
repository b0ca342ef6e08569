package resp

// Matches reports whether a name matches a pattern of Redis: * for any bytes, ? for one,
// [a-c] and [^a-c] for one of a set, and \ before a byte that stands for itself.
//
// It goes back to the newest star only: what an older one could still take, the newest one
// can take as well. So a pattern with many stars takes no longer than the product of the
// two lengths.
func Matches(pattern, name []byte) bool {
	var afterStar, nameAtStar []byte
	star := false
	for {
		if len(pattern) > 0 && pattern[0] == '*' {
			pattern = pattern[1:]
			afterStar, nameAtStar, star = pattern, name, true
			continue
		}
		if len(pattern) == 0 && len(name) == 0 {
			return true
		}
		if len(pattern) > 0 && len(name) > 0 {
			if ok, n := matchByte(pattern, name[0]); ok {
				pattern, name = pattern[n:], name[1:]
				continue
			}
		}
		if !star || len(nameAtStar) == 0 {
			return false
		}
		nameAtStar = nameAtStar[1:]
		pattern, name = afterStar, nameAtStar
	}
}

// matchByte reports whether b matches the first element of pattern, which is not a star, and
// how long that element is.
func matchByte(pattern []byte, b byte) (ok bool, n int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchSet(pattern, b)
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == b, 2
		}
	}
	return pattern[0] == b, 1
}

// matchSet is matchByte for a set. A set without an end goes to the end of the pattern.
func matchSet(pattern []byte, b byte) (ok bool, n int) {
	n = 1
	not := n < len(pattern) && pattern[n] == '^'
	if not {
		n++
	}
	for n < len(pattern) && pattern[n] != ']' {
		switch left := pattern[n:]; {
		case left[0] == '\\' && len(left) > 1:
			ok = ok || left[1] == b
			n += 2
		case len(left) > 2 && left[1] == '-':
			low, high := min(left[0], left[2]), max(left[0], left[2])
			ok = ok || low <= b && b <= high
			n += 3
		default:
			ok = ok || left[0] == b
			n++
		}
	}
	return ok != not, min(n+1, len(pattern))
}

// LiteralPrefix returns the bytes with which all names begin that match the pattern.
func LiteralPrefix(pattern []byte) []byte {
	var prefix []byte
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return prefix
		case '\\':
			if i++; i == len(pattern) {
				return append(prefix, '\\')
			}
		}
		prefix = append(prefix, pattern[i])
	}
	return prefix
}
