//go:build !(linux && (amd64 || arm64 || loong64 || ppc64 || ppc64le || riscv64 || s390x))

package vfs

func (f *osFile) dropCache() error { return ErrUnsupported }

func (f *osFile) residentPages() (resident, total int, err error) {
	return 0, 0, ErrUnsupported
}
