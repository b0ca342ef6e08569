//go:build linux && (amd64 || arm64 || loong64 || ppc64 || ppc64le || riscv64 || s390x)

package vfs

import (
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// These are from linux/fadvise.h. DONTNEED has another number on s390x.
const (
	fadvRandom        = 1
	fadvDontNeed      = 4
	fadvDontNeedS390x = 6
)

// fadvise gives the system advice about the whole file. The call has other
// arguments on 32-bit systems, so they are excluded by the build tags.
func (f *osFile) fadvise(advice uintptr) error {
	return f.control("fadvise", func(fd uintptr) error {
		_, _, e := syscall.Syscall6(syscall.SYS_FADVISE64, fd, 0, 0, advice, 0, 0)
		if e != 0 {
			return e
		}
		return nil
	})
}

// dropCache first turns off reading ahead, which
// would bring pages back, and then drops the pages.
func (f *osFile) dropCache() error {
	if err := f.fadvise(fadvRandom); err != nil {
		return err
	}
	if runtime.GOARCH == "s390x" {
		return f.fadvise(fadvDontNeedS390x)
	}
	return f.fadvise(fadvDontNeed)
}

// residentPages asks mincore about a mapping of the file.
// It does not touch the mapping, so it loads no pages.
func (f *osFile) residentPages() (resident, total int, err error) {
	size, err := f.Size()
	if err != nil || size == 0 || size > math.MaxInt {
		return 0, 0, err
	}
	var mem []byte
	err = f.control("mmap", func(fd uintptr) error {
		mem, err = syscall.Mmap(int(fd), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	total = (int(size) + os.Getpagesize() - 1) / os.Getpagesize()
	in := make([]byte, total)
	_, _, e := syscall.Syscall(syscall.SYS_MINCORE,
		uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&in[0])))
	if err := syscall.Munmap(mem); err != nil {
		return 0, 0, f.pathError("munmap", err)
	}
	if e != 0 {
		return 0, 0, f.pathError("mincore", e)
	}
	for _, b := range in {
		resident += int(b & 1)
	}
	return resident, total, nil
}
