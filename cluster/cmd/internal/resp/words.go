package resp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Is reports whether an argument is a word, in any case.
func Is(arg []byte, word string) bool { return strings.EqualFold(string(arg), word) }

// ParseInt reads an integer as Redis does: decimal, without signs or zeros that it would not write.
func ParseInt(arg []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(arg)
}

// ArityText is the error for a command with too many arguments, or too few.
func ArityText(name string) string {
	return fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(name))
}

// TTL reads a time to live of so many units. If it is none, refused is the error of Redis for the command.
func TTL(n []byte, unit time.Duration, command string) (ttl time.Duration, refused string) {
	count, ok := ParseInt(n)
	switch {
	case !ok:
		return 0, "ERR value is not an integer or out of range"
	case count <= 0 || count > math.MaxInt64/int64(unit):
		return 0, fmt.Sprintf("ERR invalid expire time in '%s' command", strings.ToLower(command))
	}
	return time.Duration(count) * unit, ""
}
