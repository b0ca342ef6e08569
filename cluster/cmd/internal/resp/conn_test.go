package resp

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// talk returns a connection, and what its client holds of it.
func talk(t *testing.T, l Limits) (c *Conn, theirs net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	c = NewListener(nil, l).admit(ours)
	c.Limit(l.Command, false)
	t.Cleanup(func() {
		_ = c.Close()
		_ = theirs.Close()
	})
	return c, theirs
}

// send writes packets, one after the other.
func send(t *testing.T, to io.Writer, packets ...string) {
	for _, packet := range packets {
		if _, err := io.WriteString(to, packet); err != nil {
			t.Errorf("%.40q: %v", packet, err)
		}
	}
}

// textOf returns commands as text: words in brackets.
func textOf(commands []Command) string {
	var text strings.Builder
	for _, one := range commands {
		fmt.Fprintf(&text, "%q", one.Args)
	}
	return text.String()
}

// all returns everything that comes until the connection ends, and why it does.
func (c *Conn) all() (text string, err error) {
	for {
		commands, err := c.Commands()
		if err != nil {
			return text, err
		}
		text += textOf(commands)
	}
}

// Commands come as soon as there is a whole one, and all that are there.
func TestConn_WholeCommands(t *testing.T) {
	c, theirs := talk(t, limits(1))
	go send(t, theirs, "PING\r\n*2\r\n$4\r", "\nEC", "HO\r\n$3\r\na", "bc\r\nPI", "NG\r\n\r\n*0\r\n*-10\r\n \r\nA\n")
	for _, want := range []string{`["PING"]`, `["ECHO" "abc"]`, `["PING"]["A"]`} {
		commands, err := c.Commands()
		if got := textOf(commands); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// What breaks the protocol or a limit ends the connection, with a reason, and what came before it is done.
func TestConn_Errors(t *testing.T) { synctest.Test(t, connErrors) }

func connErrors(t *testing.T) {
	for _, test := range []struct {
		sent, got string
		err       error
	}{
		{"*1\r\n$4\r\nPING\r\n*x\r\n", `["PING"]`, errMultibulk},
		{"*1\r\n+PING\r\n", "", protocolError("ERR Protocol error: expected '$', got '+'")},
		{"*1048577\r\n", "", errMultibulk},
		{"*99999999999999999999999\r\n", "", errMultibulk},
		{"*1\n$4\r\nPING\r\n", "", errMultibulk},
		{"*\r\n", "", errMultibulk},
		{"*1\r\n$9223372036854775807\r\n", "", errBulk},
		{"*1\r\n$-1\r\n", "", errBulk},
		{"*1\r\n$\r\n", "", errBulk},
		{"*2\r\n$400\r\n" + strings.Repeat("x", 400) + "\r\n$601\r\n", "", errBulk},
		{"*1\r\n$1000\r\n" + strings.Repeat("x", 1000) + "\r\n", `["` + strings.Repeat("x", 1000) + `"]`, io.EOF},
		{"*1\r\n$4\r\nPINGG\r\n", "", errBulk},
		{"SET \"a b\r\n", "", errQuotes},
		{"SET 'a'b\r\n", "", errQuotes},
		{strings.Repeat("x", MaxInline) + "\r\n", "", errInline},
		{strings.Repeat("x", MaxInline+1), "", errInline},
		{"*2\r\n$3\r\nGET\r\n$1", "", io.EOF},
		{`set "a\x41\n\q" 'b\'c\n' d"e"` + " \t''\r\n", `["set" "aA\nq" "b'c\\n" "de" ""]`, io.EOF},
	} {
		for _, step := range []int{len(test.sent), 1} {
			c, theirs := talk(t, limits(1))
			told := make(chan string)
			go func() {
				rest, _ := io.ReadAll(theirs)
				told <- string(rest)
			}()
			go func() {
				for i := 0; i < len(test.sent); i += step {
					if _, err := io.WriteString(theirs, test.sent[i:min(len(test.sent), i+step)]); err != nil {
						return // it was told why
					}
				}
				if test.err == io.EOF {
					_ = theirs.Close() // which is the end
				}
			}()
			got, err := c.all()
			_ = c.Close()
			if got != test.got || err != test.err {
				t.Errorf("%.60q in steps of %d: %.60s, %v, want %.60s, %v", test.sent, step, got, err, test.got, test.err)
			}
			if reply := <-told; test.err != io.EOF && reply != "-"+test.err.Error()+"\r\n" {
				t.Errorf("%.60q: the client reads %q", test.sent, reply)
			}
		}
	}
}

// A page of another site can make a browser send a request of HTTP to this machine. Nothing in it may be taken for a
// command: neither the body, nor what follows the first line.
func TestConn_RequestsOfHTTP(t *testing.T) { synctest.Test(t, requestsOfHTTP) }

func requestsOfHTTP(t *testing.T) {
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost:6380\r\n\r\nSET k v\r\n",
		"post / HTTP/1.1\r\n\r\nSET k v\r\n",
		"GET / HTTP/1.1\r\nHost: localhost:6380\r\nContent-Length: 9\r\n\r\nSET k v\r\n",
		"PUT / HTTP/1.1\r\nhOsT: localhost:6380\r\n\r\nSET k v\r\n",
	} {
		c, theirs := talk(t, limits(1))
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.WriteString(theirs, request) // until it is refused
			_ = theirs.Close()                     // which is the end
		}()
		if got, err := c.all(); err != errWeb || strings.Contains(got, "SET") {
			t.Errorf("%q: %s got through, %v", request, got, err)
		}
	}
	c, theirs := talk(t, limits(1))
	go func() {
		send(t, theirs, "GET host: \r\n host: x\r\nposts\r\nPOST\r\nGET POST\r\n*1\r\n$4\r\nPOST\r\n")
		_ = theirs.Close() // which is the end
	}()
	if got, err := c.all(); got != `["GET" "host:"]["host:" "x"]["posts"]["POST"]["GET" "POST"]["POST"]` || err != io.EOF {
		t.Errorf("%s, %v", got, err)
	}
}

// A command takes from the budget what is beyond the free part, not before it comes, and gives it back when it was done.
func TestConn_Budget(t *testing.T) { synctest.Test(t, connBudget) }

func connBudget(t *testing.T) {
	l := Limits{Command: 1 << 20, Clients: 2, Buffers: NewBudget(1 << 20)}
	large := "*1\r\n$800000\r\n" + strings.Repeat("x", 800000) + "\r\n"
	c, theirs := talk(t, l)
	go send(t, theirs, large[:20], large[20:700000], large[700000:], "PING\r\n", "*1\r\n$1000000\r\n")
	for range 2 {
		if commands, err := c.Commands(); err != nil || len(commands) != 1 {
			t.Fatalf("%d commands, %v", len(commands), err)
		}
	}
	if left := l.Buffers.Left(); left != 1<<20 {
		t.Errorf("after a large command the budget has %d bytes", left)
	}

	other, hers := talk(t, l)
	go send(t, hers, large[:len(large)-10])
	go func() { _, _ = other.Commands() }()
	synctest.Wait()
	if left := l.Buffers.Left(); left < 1<<20-900_000 || left > 1<<20-700_000 {
		t.Errorf("a command of 800,000 bytes has left %d of 1 MiB", left)
	}
	told := make(chan string)
	go func() {
		text, _ := io.ReadAll(theirs)
		told <- string(text)
	}()
	go func() { _, _ = io.WriteString(theirs, strings.Repeat("x", 1000000)) }() // until it is refused
	if _, err := c.Commands(); err != errMemory {
		t.Errorf("a second large command: %v", err)
	}
	_ = c.Close()
	if text := <-told; text != "-"+TooMuch+"\r\n" {
		t.Errorf("the client reads %q", text)
	}
	if left := l.Buffers.Left(); left < 0 {
		t.Errorf("the budget has %d bytes", left)
	}
}

// Many small words are counted as what they take in memory.
func TestConn_BudgetOfWords(t *testing.T) { synctest.Test(t, budgetOfWords) }

func budgetOfWords(t *testing.T) {
	l := Limits{Command: 1 << 20, Clients: 1, Buffers: NewBudget(4 << 20)}
	c, theirs := talk(t, l)
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	go func() {
		_, _ = io.WriteString(theirs, "*1000000\r\n"+strings.Repeat("$0\r\n\r\n", 1000000)) // until it is refused
	}()
	if _, err := c.Commands(); err != errMemory {
		t.Errorf("a million words in 4 MiB: %v", err)
	}
}

// A client that has begun a command has to go on, also if it sends a byte from time to time.
func TestConn_SlowCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := talk(t, limits(1))
		told := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(theirs)
			told <- string(text)
		}()
		begin := time.Now()
		go func() {
			for err := error(nil); err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(theirs, "x")
			}
		}()
		if _, err := c.Commands(); err != errSlow || time.Since(begin) != commandTime+lingerTime {
			t.Errorf("a byte each second: %v after %v", err, time.Since(begin))
		}
		_ = c.Close()
		if text := <-told; text != "-"+string(errSlow)+"\r\n" {
			t.Errorf("the client reads %q", text)
		}
		time.Sleep(2 * time.Second) // until the client has seen the end
	})
}

// Between commands a client may wait as long as it likes, also if one has come in two parts.
func TestConn_LongPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := talk(t, limits(1))
		go func() {
			for range 3 {
				time.Sleep(2 * commandTime)
				send(t, theirs, "PING\r\nPI")
				time.Sleep(commandTime / 2)
				send(t, theirs, "NG\r\n")
			}
			time.Sleep(2 * commandTime)
			_ = theirs.Close() // which is the end
		}()
		if got, err := c.all(); err != io.EOF || got != strings.Repeat(`["PING"]`, 6) {
			t.Errorf("%s, %v", got, err)
		}
		_ = c.Close()
		time.Sleep(time.Hour) // until the client has seen the end
	})
}

// A client that does not read its replies is cut off.
func TestConn_SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := talk(t, limits(1))
		begin := time.Now()
		if n, err := c.Write(make([]byte, 1<<20)); !isTimeout(err) || n > 0 || time.Since(begin) != replyTime {
			t.Errorf("%d bytes of replies were sent to a client that reads none, %v after %v", n, err, time.Since(begin))
		}
	})
}
