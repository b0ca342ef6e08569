//go:build linux && (amd64 || 386)

package cache

// ordered: the processor makes loads in their order, as Peek needs, and memory
// that was given back can be read.
const ordered = true
