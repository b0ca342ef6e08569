//go:build (amd64 || arm64) && !purego

package prefetch

//go:noescape
func lines(p *byte, n int)
