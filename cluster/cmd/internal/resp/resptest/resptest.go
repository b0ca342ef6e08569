// Package resptest has what the tests of servers that speak the protocol of Redis share. It is for tests only.
package resptest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Exchange sends the first part to a server, and each further one when there is an answer to the one before.
// It returns all that comes back until the server ends the connection.
func Exchange(t testing.TB, addr string, parts ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i, part := range parts {
		if i > 0 {
			buf := make([]byte, 100)
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(buf[:n])
		}
		_, _ = io.WriteString(conn, part) // a server that refuses it does not read all of it
	}
	_ = conn.(*net.TCPConn).CloseWrite() // the server may have closed it
	rest, err := io.ReadAll(conn)
	if err != nil && len(rest) == 0 { // what came may be followed by a reset
		t.Logf("%.60q: %v", parts, err)
	}
	got.Write(rest)
	return got.String()
}

// Pipeline sends commands together, and returns their replies.
func Pipeline(t testing.TB, addr string, commands [][]string) (replies []string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, words := range append(slices.Clip(commands), []string{"QUIT"}) {
		fmt.Fprintf(&all, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, all.String())
		sent <- err
	}()
	got, err := io.ReadAll(conn)
	if err = errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	for range commands {
		n, err := Reply(got)
		if err != nil {
			t.Fatalf("%s: %v: %.200q", addr, err, got)
		}
		replies, got = append(replies, string(got[:n])), got[n:]
	}
	return replies
}

// OneReply returns an error unless b is one reply.
func OneReply(b []byte) error {
	n, err := Reply(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("%d bytes after the reply", len(b)-n)
	}
	return err
}

// Reply returns how long the first reply of b is. It knows what the servers send of RESP2 and RESP3.
func Reply(b []byte) (n int, err error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return 0, errors.New("no whole line")
	}
	line := string(b[1:end])
	n = end + 2
	if bytes.ContainsAny(b[:end], "\r\n") {
		return 0, errors.New("a line end within a line")
	}
	number, numberErr := strconv.ParseInt(line, 10, 64) // an int of 32 bits has no room for each integer
	size := int(max(-2, min(number, math.MaxInt32/2)))  // far above what a reply of a test has
	switch b[0] {
	case '+', '-':
		return n, nil
	case '_':
		if line != "" {
			return 0, errors.New("a null with a text")
		}
		return n, nil
	}
	if numberErr != nil {
		return 0, numberErr
	}
	switch {
	case b[0] == ':':
		return n, nil
	case size < -1:
		return 0, fmt.Errorf("size %d", number)
	case b[0] == '$' && size >= 0:
		if len(b) < n+size+2 || string(b[n+size:n+size+2]) != "\r\n" {
			return 0, fmt.Errorf("a string of %d bytes does not end there", size)
		}
		return n + size + 2, nil
	case b[0] == '%':
		size *= 2
	case b[0] != '*' && b[0] != '$':
		return 0, fmt.Errorf("a reply begins with %q", b[0])
	}
	for range max(size, 0) {
		k, err := Reply(b[n:])
		if err != nil {
			return 0, err
		}
		n += k
	}
	return n, nil
}

// ScanWhileChanging checks that SCAN gives each key that is there all the time once, while others come and go.
// say does a command of an empty server, and returns the reply as it goes over the wire.
func ScanWhileChanging(t *testing.T, say func(args ...string) string) {
	for i := range 300 {
		say("SET", fmt.Sprintf("k%03d", i), "x")
	}
	seen := make(map[string]int)
	cursor := "0"
	for step := 0; ; step++ {
		words := strings.Fields(say("SCAN", cursor, "COUNT", "7", "MATCH", "k*"))
		for i := 4; i+1 < len(words); i += 2 {
			seen[words[i+1]]++
		}
		if cursor = words[2]; cursor == "0" {
			break
		}
		say("DEL", fmt.Sprintf("k%03d", 2*step), fmt.Sprintf("new%d", step-1))
		say("SET", fmt.Sprintf("new%d", step), "x")
	}
	for i := 1; i < 300; i += 2 {
		if n := seen[fmt.Sprintf("k%03d", i)]; n != 1 {
			t.Errorf("SCAN gave k%03d %d times", i, n)
		}
	}
}
