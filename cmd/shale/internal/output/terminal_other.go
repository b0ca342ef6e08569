//go:build !(linux || darwin || freebsd || netbsd)

package output

import "os"

// TerminalWidth returns the number of columns of the terminal f, or 0 if it is unknown.
func TerminalWidth(*os.File) int { return 0 }
