package resp

import (
	"fmt"
	"strconv"
	"strings"
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
