//go:build race || !(linux && (amd64 || 386))

package cache

const ordered = false
