//go:build linux || darwin || freebsd || netbsd

package output

import (
	"os"
	"syscall"
	"unsafe"
)

// TerminalWidth returns the number of columns of the terminal f, or 0 if f is not a terminal.
//
// It asks each time, because a window may have been resized.
func TerminalWidth(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); e != 0 {
		return 0
	}
	return int(size.columns)
}
