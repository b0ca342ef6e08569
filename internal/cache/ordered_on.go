//go:build !race && linux && (amd64 || 386)

package cache

// ordered says that Peek works in this build. Peek needs a processor that does
// loads in their order, and memory that can still be read after it was given
// back. Builds with the race detector have no Peek: it reads bytes while others
// write them, and then throws these bytes away, which the detector would report.
const ordered = true
