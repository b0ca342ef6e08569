//go:build !(linux || darwin || freebsd || netbsd)

package output

import "os"

// TerminalWidth returns the number of columns of the terminal f; 0: not known.
func TerminalWidth(*os.File) int { return 0 }
