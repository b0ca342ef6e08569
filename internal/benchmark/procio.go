package benchmark

import (
	"os"
	"strconv"
	"strings"
)

// A procIO is what the operating system has counted of this process.
type procIO struct {
	known       bool
	reads       int64 // read calls
	deviceBytes int64 // that came from a device
}

// readProcIO reads /proc/self/io, where it exists.
func readProcIO() procIO {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return procIO{}
	}
	var p procIO
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return procIO{}
		}
		switch name {
		case "syscr":
			p.reads, p.known = n, true
		case "read_bytes":
			p.deviceBytes = n
		}
	}
	return p
}
