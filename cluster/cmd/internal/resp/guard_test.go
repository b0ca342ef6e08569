package resp

import (
	"strings"
	"testing"
)

// A page of another site can make a browser send a request of HTTP to this machine. Nothing in it may be taken for a
// command: neither the body, nor what follows the first line.
func TestGuard_RequestsOfHTTP(t *testing.T) {
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost:6380\r\n\r\nSET k v\r\n",
		"post / HTTP/1.1\r\n\r\nSET k v\r\n",
		"GET / HTTP/1.1\r\nHost: localhost:6380\r\nContent-Length: 9\r\n\r\nSET k v\r\n",
		"PUT / HTTP/1.1\r\nhOsT: localhost:6380\r\n\r\nSET k v\r\n",
	} {
		g := Guard{Most: 1000}
		_, end, err := g.Check([]byte(request))
		if err != errWeb || strings.Contains(request[:end], "SET") {
			t.Errorf("%q: %q got through, %v", request, request[:end], err)
		}
	}
	commands := "GET host: \r\n host: x\r\nposts\r\nPOST\r\nGET POST\r\n*1\r\n$4\r\nPOST\r\n"
	g := Guard{Most: 1000}
	if good, end, err := g.Check([]byte(commands)); good != len(commands) || end != good || err != nil {
		t.Errorf("%d and %d of %d bytes are good, %v", good, end, len(commands), err)
	}
}
