package resp

import (
	"fmt"
	"strings"
)

// RedisVersion is the version of Redis whose replies the servers give.
const RedisVersion = "7.0.15"

// A Session is a connection of a client. Its methods are commands that need nothing else, or the replies to
// them. They take the arguments behind the name, which were checked as far as the table of commands says. One
// goroutine uses it.
type Session struct {
	Replies
	ID   int64
	Name string
	Quit bool // the connection ends after its replies

	// Show returns an argument in the form in which errors quote it.
	Show func(arg []byte) string
}

// Ping is PING.
func (s *Session) Ping(args [][]byte) {
	switch len(args) {
	case 0:
		s.Simple("PONG")
	case 1:
		s.Bulk(args[0])
	default:
		s.WrongArity("PING")
	}
}

// Echo is ECHO.
func (s *Session) Echo(args [][]byte) { s.Bulk(args[0]) }

// Select is SELECT. There is one database, with number 0.
func (s *Session) Select(args [][]byte) {
	switch n, ok := ParseInt(args[0]); {
	case !ok:
		s.Error("ERR value is not an integer or out of range")
	case n != 0:
		s.Error("ERR DB index is out of range")
	default:
		s.OK()
	}
}

// DoQuit is QUIT.
func (s *Session) DoQuit([][]byte) {
	s.Quit = true
	s.OK()
}

// Hello is the reply to HELLO, in the protocol that the client has chosen.
func (s *Session) Hello() {
	s.Map(7)
	s.BulkString("server")
	s.BulkString("shale")
	s.BulkString("version")
	s.BulkString(RedisVersion)
	s.BulkString("proto")
	if s.RESP3 {
		s.Integer(3)
	} else {
		s.Integer(2)
	}
	s.BulkString("id")
	s.Integer(s.ID)
	s.BulkString("mode")
	s.BulkString("standalone")
	s.BulkString("role")
	s.BulkString("master") // every member of a group takes writes
	s.BulkString("modules")
	s.Array(0)
}

// Client is CLIENT, as far as clients use it when they connect.
func (s *Session) Client(args [][]byte) {
	switch {
	case Is(args[0], "ID") && len(args) == 1:
		s.Integer(s.ID)
	case Is(args[0], "GETNAME") && len(args) == 1:
		s.BulkString(s.Name)
	case Is(args[0], "SETNAME") && len(args) == 2:
		s.Name = string(args[1])
		s.OK()
	case Is(args[0], "SETINFO") && len(args) == 3:
		s.OK() // nothing shows it
	default:
		s.Error("ERR unknown subcommand or wrong number of arguments for '" + s.Show(args[0]) + "'")
	}
}

// UnknownCommand returns the error for a command that is in no table.
func (s *Session) UnknownCommand(args [][]byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", s.Show(args[0]))
	for _, arg := range args[1:] {
		if text.Len() > 256 {
			break
		}
		fmt.Fprintf(&text, "'%s' ", s.Show(arg))
	}
	return text.String()
}

// ConfigGet is CONFIG GET of settings, each a name and a value.
func (s *Session) ConfigGet(args [][]byte, settings [][2]string) {
	if !Is(args[0], "GET") || len(args) < 2 {
		s.Error("ERR there is CONFIG GET only: the flags of the server are its settings")
		return
	}
	var found [][2]string
	for _, setting := range settings {
		for _, pattern := range args[1:] {
			if Matches([]byte(strings.ToLower(string(pattern))), []byte(setting[0])) {
				found = append(found, setting)
				break
			}
		}
	}
	s.Map(len(found))
	for _, setting := range found {
		s.BulkString(setting[0])
		s.BulkString(setting[1])
	}
}

// A Section is a part of the text that INFO returns: lines of name and value.
type Section struct {
	Name  string
	Lines [][2]string
}

// NewSection makes a section of names, each with its value behind it.
func NewSection(name string, lines ...any) Section {
	s := Section{Name: name}
	for ; len(lines) > 1; lines = lines[2:] {
		s.Lines = append(s.Lines, [2]string{fmt.Sprint(lines[0]), fmt.Sprint(lines[1])})
	}
	return s
}

// Info is INFO, with those of the sections that the client wants. Names of sections that are not there are
// passed over, as in Redis.
func (s *Session) Info(args [][]byte, sections []Section) {
	var text strings.Builder
	for _, section := range sections {
		if !wanted(args, section.Name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.Name)
		for _, line := range section.Lines {
			fmt.Fprintf(&text, "%s:%s\r\n", line[0], line[1])
		}
	}
	s.BulkString(text.String())
}

func wanted(args [][]byte, section string) bool {
	for _, arg := range args {
		if Is(arg, section) || Is(arg, "all") || Is(arg, "everything") || Is(arg, "default") {
			return true
		}
	}
	return len(args) == 0
}
