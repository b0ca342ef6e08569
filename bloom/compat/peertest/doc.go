// Package peertest compares the packages for filters of other Go libraries with those
// libraries: each reads what the other has written, and answers the same. It is a module of
// its own, so that shale does not depend on them.
//
//	go test ./...          compare
//	go test -update ./...  write the files in ../blobloom/testdata and the like again
package peertest
