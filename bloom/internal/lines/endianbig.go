//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package lines

// BigEndian says that the first byte of a word in memory is its highest.
const BigEndian = true
