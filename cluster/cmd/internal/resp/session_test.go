package resp

import (
	"strconv"
	"strings"
	"testing"
)

func bytesOf(line string) (args [][]byte) {
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	return args
}

// ask returns the reply to a command whose arguments are the words of a line.
func ask(s *Session, do func(args [][]byte), line string) string {
	s.Out = s.Out[:0]
	do(bytesOf(line))
	return strings.ReplaceAll(string(s.Out), "\r\n", "|")
}

func newSession() *Session {
	return &Session{ID: 7, Show: func(arg []byte) string { return strconv.Quote(string(arg)) }}
}

// What the commands about a connection answer, and what they leave.
func TestSession_Replies(t *testing.T) {
	s := newSession()
	config := func(args [][]byte) { s.ConfigGet(args, [][2]string{{"save", ""}, {"dir", "x"}, {"appendonly", "yes"}}) }
	unknown := func(args [][]byte) { s.Error(s.UnknownCommand(args)) }
	for _, test := range []struct {
		do          func(args [][]byte)
		line, reply string
	}{
		{s.Ping, "", "+PONG|"},
		{s.Ping, "a", "$1|a|"},
		{s.Ping, "a b", "-ERR wrong number of arguments for 'ping' command|"},
		{s.Echo, "a", "$1|a|"},
		{s.Select, "0", "+OK|"},
		{s.Select, "1", "-ERR DB index is out of range|"},
		{s.Select, "00", "-ERR value is not an integer or out of range|"},
		{s.Client, "id", ":7|"},
		{s.Client, "SETNAME me", "+OK|"},
		{s.Client, "GETNAME", "$2|me|"},
		{s.Client, "SETINFO lib-name x", "+OK|"},
		{s.Client, "GETNAME x", `-ERR unknown subcommand or wrong number of arguments for '"GETNAME"'|`},
		{config, "GET SAVE", "*2|$4|save|$0||"},
		{config, "get *a* s*", "*4|$4|save|$0||$10|appendonly|$3|yes|"},
		{config, "GET", "-ERR there is CONFIG GET only: the flags of the server are its settings|"},
		{config, "SET a b", "-ERR there is CONFIG GET only: the flags of the server are its settings|"},
		{unknown, "WHAT a b", `-ERR unknown command '"WHAT"', with args beginning with: '"a"' '"b"' |`},
		{s.DoQuit, "", "+OK|"},
	} {
		if got := ask(s, test.do, test.line); got != test.reply {
			t.Errorf("%q: %q, want %q", test.line, got, test.reply)
		}
	}
	if !s.Quit {
		t.Error("QUIT does not end the connection")
	}
	if got := s.UnknownCommand(bytesOf(strings.Repeat("word ", 1000))); len(got) > 300 {
		t.Errorf("an error of %d bytes", len(got))
	}
}

// HELLO is a map of seven in RESP3, and says which protocol it is.
func TestSession_Hello(t *testing.T) {
	s := newSession()
	for _, test := range []struct {
		isRESP3     bool
		begin, part string
	}{{false, "*14|$6|server|", "|$5|proto|:2|$2|id|:7|"}, {true, "%7|$6|server|", "|$5|proto|:3|$2|id|:7|"}} {
		s.RESP3 = test.isRESP3
		got := ask(s, func([][]byte) { s.Hello() }, "")
		if !strings.HasPrefix(got, test.begin) || !strings.Contains(got, test.part) {
			t.Errorf("HELLO in RESP3 %v: %q", test.isRESP3, got)
		}
	}
}

// INFO has the sections that were asked for.
func TestSession_Info(t *testing.T) {
	s := newSession()
	sections := []Section{NewSection("One", "a", 1, "b", "x"), NewSection("Two", "c", uint64(3))}
	one, two := "# One\r\na:1\r\nb:x\r\n", "# Two\r\nc:3\r\n"
	for _, test := range []struct{ line, text string }{
		{"", one + "\r\n" + two}, {"everything", one + "\r\n" + two}, {"two", two}, {"one three", one}, {"three", ""},
	} {
		want := strings.ReplaceAll("$"+strconv.Itoa(len(test.text))+"|"+test.text+"|", "\r\n", "|")
		if got := ask(s, func(args [][]byte) { s.Info(args, sections) }, test.line); got != want {
			t.Errorf("INFO %s: %q, want %q", test.line, got, want)
		}
	}
}
