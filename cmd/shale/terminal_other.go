//go:build !(linux || darwin || freebsd || netbsd)

package main

import "os"

// terminalWidth returns the number of columns of the terminal f; 0: not known.
func terminalWidth(*os.File) int { return 0 }
