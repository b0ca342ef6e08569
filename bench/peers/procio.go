package main

import (
	"bytes"
	"os"
	"strconv"
)

// readCalls is how many read calls this process has made, unknown where the
// operating system does not tell. Between two of these calls it has made one
// on their account.
func readCalls() int64 {
	f, err := os.Open("/proc/self/io")
	if err != nil {
		return unknown
	}
	defer f.Close()
	var buf [1024]byte
	n, err := f.Read(buf[:])
	if err != nil {
		return unknown
	}
	_, after, ok := bytes.Cut(buf[:n], []byte("syscr: "))
	if !ok {
		return unknown
	}
	digits, _, _ := bytes.Cut(after, []byte("\n"))
	calls, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return unknown
	}
	return calls
}
