package server

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
	"github.com/shaledb/shale/internal/testenv"
)

// The commands about the connection and the server.
func TestConnection_Replies(t *testing.T) {
	s, _ := setup(t, func(c *Config) { c.Fsync, c.MaxCommand = "everysec", 1<<20 })
	c := s.newClient()
	for _, test := range []struct{ line, reply string }{
		{"CLIENT GETNAME", "$-1"},
		{"CLIENT SETNAME me", "+OK"},
		{"CLIENT GETNAME", "$2|me"},
		{"CLIENT SETNAME \x7f", "-ERR Client names cannot contain spaces, newlines or special characters."},
		{"CLIENT NO-EVICT on", "+OK"},
		{"CLIENT NO-TOUCH off", "+OK"},
		{"CLIENT KILL 127.0.0.1:1", "-ERR No such client"},
		{"CLIENT KILL ID 77", ":0"},
		{"CLIENT KILL TYPE normal", "-ERR syntax error"},
		{"WAIT 1 0", ":0"},
		{"WAIT x 0", "-ERR value is not an integer or out of range"},
		{"WAIT 1 x", "-ERR timeout is not an integer or out of range"},
		{"WAIT 1 -1", "-ERR timeout is negative"},
		{"CONFIG GET appendfsync max*ory proto*", "*6|$11|appendfsync|$8|everysec|$9|maxmemory|$1|0|$18|proto-max-bulk-len|$7|1048576"},
		{"CONFIG GET DATA* databases", "*2|$9|databases|$1|1"},
		{"CONFIG GET", "-ERR there is CONFIG GET only: the flags of the server are its settings"},
		{"CONFIG SET timeout 1", "-ERR there is CONFIG GET only: the flags of the server are its settings"},
		{"COMMAND GETKEYS mset a 1 b 2", "*2|$1|a|$1|b"},
		{"COMMAND GETKEYS del a b c", "*3|$1|a|$1|b|$1|c"},
		{"COMMAND GETKEYS mset a", "-ERR Invalid number of arguments specified for command"},
		{"COMMAND GETKEYS ping", "-ERR The command has no key arguments"},
		{"COMMAND GETKEYS what a", "-ERR Invalid command specified"},
		{"COMMAND INFO get nothing", "*2|*6|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*-1"},
		{"COMMAND DOCS get", "*0"},
		{"COMMAND WHAT", "-ERR unknown subcommand 'WHAT'"},
		{"INFO keyspace", "$12|# Keyspace|"},
		{"MSET a 1 b 2", "+OK"},
		{"SET c 3 EX 100", "+OK"},
		{"INFO KEYSPACE", "$44|# Keyspace|db0:keys=3,expires=1,avg_ttl=0|"},
		{"INFO nothing", "$0|"},
	} {
		c.want(t, test.line, test.reply)
	}
	if got := c.say("TIME"); !regexp.MustCompile(`^\*2\r\n\$10\r\n\d{10}\r\n\$\d\r\n\d+\r\n$`).MatchString(got) {
		t.Errorf("TIME: %q", got)
	}
	info := c.say("INFO")
	for _, field := range []string{"redis_version:7", "uptime_in_seconds:", "connected_clients:", "used_memory:", "maxmemory:0", "loading:0",
		"total_commands_processed:", "\r\n# Keyspace\r\ndb0:keys=3,"} {
		if !strings.Contains(info, field) {
			t.Errorf("INFO has no %q", field)
		}
	}
	if all := c.say("COMMAND", "LIST"); !strings.HasPrefix(all, fmt.Sprintf("*%d\r\n$6\r\nappend\r\n", len(commands))) {
		t.Errorf("COMMAND LIST: %.60q", all)
	}
	s.config.Others = func() int { return 1 }
	c.want(t, "WAIT 2 0", ":1")
}

// CLIENT LIST shows who is there and what they do, and KILL ends one of them.
func TestConnection_List(t *testing.T) {
	s, _ := setup(t)
	addr, _ := start(t, s)
	conn := connect(t, addr)
	in := bufio.NewReader(conn)
	ask := func(line string) string {
		t.Helper()
		if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
			t.Fatal(err)
		}
		reply, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for _, line := range []string{"CLIENT SETNAME one", "CLIENT SETINFO LIB-NAME hands", "MULTI"} {
		if got := ask(line); got != "+OK\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
	ask("SET a 1")
	if got := ask("SET b 1"); got != "+QUEUED\r\n" {
		t.Errorf("SET: %q", got)
	}
	list := resptest.Exchange(t, addr, "CLIENT LIST\r\n")
	want := regexp.MustCompile(`id=1 addr=` + conn.LocalAddr().String() + ` laddr=` + addr +
		` name=one age=\d+ idle=\d+ flags=N db=0 sub=0 psub=0 multi=2 cmd=set user=default resp=2 lib-name=hands\nid=2 addr=127.0.0.1:\d+ laddr=` + addr + ` name= .* cmd=client `)
	if !want.MatchString(list) {
		t.Errorf("CLIENT LIST: %q", list)
	}
	if got := resptest.Exchange(t, addr, "CLIENT KILL "+conn.LocalAddr().String()+"\r\nCLIENT KILL ID 1\r\n"); !strings.HasPrefix(got, "+OK\r\n:0\r\n") {
		t.Errorf("CLIENT KILL: %q", got)
	}
	if _, err := in.ReadString('\n'); err == nil {
		t.Error("the connection goes on")
	}
	testenv.WaitFor(t, "all to be gone", func() bool { return len(s.all()) == 0 })
	if got := resptest.Exchange(t, addr, "CLIENT ID\r\nCLIENT KILL ID 5\r\nPING\r\n"); !strings.HasPrefix(got, ":") || strings.Contains(got, "PONG") && !strings.Contains(got, ":0\r\n") {
		t.Errorf("a client that kills one: %q", got)
	}
}

// Commands that shaled is not for are refused by name, with what it is for.
func TestConnection_Elsewhere(t *testing.T) {
	s, _ := setup(t)
	c := s.newClient()
	n := 0
	for what, names := range elsewhere {
		for name := range strings.FieldsSeq(names) {
			n++
			c.want(t, strings.ToLower(name)+" a b", "-ERR unknown command '"+strings.ToLower(name)+
				"': shaled is for strings, counters, bits, Bloom filters and transactions, and has no "+what+"; use Redis or Kvrocks for these")
			if lookUp([]byte(name)) != nil {
				t.Errorf("%s is a command", name)
			}
		}
	}
	if n < 130 {
		t.Errorf("%d commands are refused by name", n)
	}
	for _, name := range []string{"SLOWLOG", "LATENCY", "MEMORY", "DEBUG", "MONITOR", "SAVE", "REPLICAOF", "KEYS"} {
		if got := c.say(name, "x"); !strings.HasPrefix(got, "-ERR unknown command '"+name+"'") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// INFO makes no section that nobody wants: that of the replicas costs a question to each member.
func TestConnection_InfoOfWanted(t *testing.T) {
	made := ""
	s, _ := setup(t, func(c *Config) {
		c.Info = func(wanted func(section string) bool) (sections []Section) {
			for _, name := range []string{"Replication", "Group"} {
				if wanted(name) {
					made += name + " "
					sections = append(sections, NewSection(name, "role", "master"))
				}
			}
			return sections
		}
	})
	c := s.newClient()
	for _, test := range []struct{ line, made string }{
		{"INFO", "Replication Group "}, {"INFO everything", "Replication Group "}, {"INFO clients", ""}, {"INFO group memory", "Group "}, {"INFO REPLICATION", "Replication "},
	} {
		made = ""
		if reply := c.say(strings.Fields(test.line)...); made != test.made || strings.Contains(reply, "role:master") != (made != "") {
			t.Errorf("%s has made %q, and replies %q", test.line, made, reply)
		}
	}
}
