//go:build !amd64 || purego

package lines

func lesserKernels() []kernel { return nil }
