// Package peertest compares package hashes with the library whose positions it has. It is a
// module of its own, so that shale does not depend on it.
package peertest
