// Package buckets has the implementations of bucket.Bucket that need no server: in a directory (dir.go), in memory, and one
// that repeats calls of another bucket that fail (retry.go). Probe finds out whether a bucket keeps its promises.
package buckets
