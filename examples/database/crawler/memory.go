package main

import (
	"bytes"
	"os"
	"strconv"
)

// anonymous returns how many bytes of memory the process has that are not
// files: Go's heap, and what SQLite takes from the operating system, which
// Go's counters do not know. Only Linux tells it.
func anonymous() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return unknown
	}
	defer f.Close()    // opened for reading
	var buf [4096]byte // of this function's own: it is not to make garbage
	n, err := f.Read(buf[:])
	if err != nil {
		return unknown
	}
	_, after, ok := bytes.Cut(buf[:n], []byte("RssAnon:"))
	if !ok {
		return unknown
	}
	line, _, _ := bytes.Cut(after, []byte(" kB"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return unknown
	}
	return kib << 10
}
