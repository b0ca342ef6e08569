//go:build !race && linux && (amd64 || 386)

package cache

// ordered: the processor makes loads in their order, as Peek needs, and memory
// that was given back can be read. A build with the race detector has no Peek,
// because that reads bytes while others write them, and throws them away then.
const ordered = true
